//! `swb reject`.

use crate::support::{USER, scene, states};

#[test]
fn a_rejected_server_never_runs_and_releases_its_name() {
    let scene = scene();
    scene
        .write_servers(".mcp.json", r#""s": {"command": "x"}"#)
        .write_servers(USER, r#""s": {"command": "mine"}"#);
    assert_eq!(states(&scene, &[]), ["s project pending", "s user shadowed"]);
    insta::assert_snapshot!(scene.swb(&["reject", "s"]).expect_success(), @"Rejected `s` (.mcp.json:2); it will not run.");
    assert_eq!(states(&scene, &[]), ["s project rejected", "s user ready"]);
    scene.write_servers(".mcp.json", r#""s": {"command": "changed"}"#);
    assert_eq!(states(&scene, &[])[0], "s project rejected");
    scene.swb(&["approve", "s"]).expect_success();
    assert_eq!(states(&scene, &[]), ["s project ready", "s user shadowed"]);
}

#[test]
fn all_pending_servers_can_be_rejected_at_once() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""a": {"command": "x"}, "b": {"command": "x"}"#);
    scene.swb(&["approve", "a"]).expect_success();
    scene.swb(&["reject", "--all"]).expect_success();
    assert_eq!(states(&scene, &[]), ["a project ready", "b project rejected"]);
    assert_eq!(
        scene.swb(&["reject", "--all"]).expect_success(),
        "No server of this project is pending approval.\n"
    );
}

#[test]
fn only_a_projects_server_can_be_rejected() {
    let scene = scene();
    scene.write_servers(USER, r#""u": {"command": "x"}"#);
    insta::assert_snapshot!(scene.swb(&["reject", "u"]).expect_failure(5), @r"
    error: `u` is not a server of this project

    hint: swb disable u disables any server
    ");
}

#[test]
fn a_rejected_required_server_is_reported() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""s": {"command": "x"}"#);
    scene.swb(&["reject", "s"]).expect_success();
    let ran = scene.swb(&["list", "--require", "s"]);
    assert!(ran.expect_failure(7).contains("is not ready: rejected"), "{}", ran.to_snapshot());
}
