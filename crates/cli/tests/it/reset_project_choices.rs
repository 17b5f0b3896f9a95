//! `swb reset-project-choices`.

use crate::support::{scene, states};

#[test]
fn decisions_about_this_project_are_removed_and_others_kept() {
    let scene = scene();
    scene
        .write_servers(".mcp.json", r#""a": {"command": "x"}, "b": {"command": "x"}"#)
        .write_servers("~/other/.mcp.json", r#""o": {"command": "x"}"#);
    let other = scene.home().join("other");
    scene.swb(&["approve", "a"]).expect_success();
    scene.swb(&["reject", "b"]).expect_success();
    scene.swb_in(&other, &["approve", "o"]).expect_success();
    assert_eq!(
        scene.swb(&["reset-project-choices"]).expect_success(),
        "Forgot 2 choices; the project's servers wait for approval again.\n"
    );
    assert_eq!(states(&scene, &[]), ["a project pending", "b project pending"]);
    assert!(scene.swb_in(&other, &["list"]).expect_success().contains("ready to start"));
    assert_eq!(
        scene.swb(&["reset-project-choices"]).expect_success(),
        "Nothing was approved or rejected in this project.\n"
    );
}
