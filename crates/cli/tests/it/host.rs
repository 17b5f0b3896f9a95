//! `swb host`: the status, the end and the log of the shared host.

use crate::sharing::SharingScene;

#[test]
fn the_host_is_shown_stopped_and_has_a_log() {
    let scene = SharingScene::new();
    let none = scene.swb(&["host"]);
    assert!(none.expect_success().starts_with("No shared host runs."), "{}", none.stdout);
    assert_eq!(scene.swb(&["host", "stop"]).expect_success(), "No shared host runs.\n");
    let empty = scene.swb(&["host", "logs"]);
    assert_eq!(
        (empty.expect_success(), empty.stderr.as_str()),
        ("", "note: the shared host has written no log yet\n")
    );
    scene.pid();
    let shown = scene.swb(&["host", "status"]);
    let shown = shown.expect_success();
    for part in ["Shared host: process ", "Runs:        1 server for 0 clients", "Socket:      ~/"]
    {
        assert!(shown.contains(part), "{shown}");
    }
    let stopped = scene.swb(&["host", "stop"]);
    assert_eq!(stopped.expect_success(), "Stopped the shared host and 1 server.\n");
    let log = scene.swb(&["host", "logs"]);
    let log = log.expect_success();
    for part in ["shared host started", "starting a server server=s", "shared host ended"] {
        assert!(log.contains(part), "{log}");
    }
    let last = scene.swb(&["host", "logs", "-n", "1"]);
    assert_eq!(last.expect_success().lines().count(), 1);
}
