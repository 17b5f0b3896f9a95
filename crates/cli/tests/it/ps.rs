//! `swb ps`: the servers that run, and who uses them.

use crate::sharing::SharingScene;
use crate::status::Watch;
use crate::support::json;

#[test]
fn shared_servers_and_those_of_one_session_are_listed() {
    let mut scene = SharingScene::new();
    assert_eq!(scene.swb(&["ps"]).expect_success(), "No server runs.\n");
    scene.pid();
    let shown = scene.swb(&["ps"]);
    let mut lines = shown.expect_success().lines();
    let header: Vec<&str> = lines.next().expect("a header").split_whitespace().collect();
    let expected = ["SERVER", "PID", "MEMORY", "AGE", "SHARED", "CALLS", "IDLE", "CLIENTS"];
    assert_eq!(header, expected);
    let row: Vec<&str> = lines.next().expect("a row").split_whitespace().collect();
    assert_eq!((row[0], row[6], row[7]), ("s", "workspace", "1"), "{row:?}");
    scene.set_env("SWB_SHARE", "off");
    let watch = Watch::start(&scene);
    watch.wait_for("it is connected", |line| line["state"] == "connected");
    let servers = json(&scene, &["ps", "--json"]);
    let servers = servers["servers"].as_array().expect("a list");
    assert_eq!(servers.len(), 2, "{servers:?}");
    let own = servers.iter().find(|it| it["shared"].is_null()).expect("one of its own");
    assert_eq!(own["clients"][0]["pid"], watch.pid());
    assert!(own["memoryBytes"].as_u64().is_some_and(|it| it > 0), "{own}");
    watch.interrupt();
}
