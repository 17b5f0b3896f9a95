//! `swb reset-project-choices`.

use crate::support::{scene, states};

#[test]
fn what_was_said_of_this_project_is_forgotten_and_of_others_is_not() {
    let scene = scene();
    scene
        .servers(".mcp.json", r#""a": {"command": "x"}, "b": {"command": "x"}"#)
        .servers("~/other/.mcp.json", r#""o": {"command": "x"}"#);
    let other = scene.home().join("other");
    scene.swb(&["approve", "a"]).ok();
    scene.swb(&["reject", "b"]).ok();
    scene.swb_in(&other, &["approve", "o"]).ok();
    assert_eq!(
        scene.swb(&["reset-project-choices"]).ok(),
        "Forgot 2 choices; the project's servers wait for approval again.\n"
    );
    assert_eq!(states(&scene, &[]), ["a project pending", "b project pending"]);
    assert!(scene.swb_in(&other, &["list"]).ok().contains("ready to start"));
    assert_eq!(
        scene.swb(&["reset-project-choices"]).ok(),
        "Nothing was approved or rejected in this project.\n"
    );
}
