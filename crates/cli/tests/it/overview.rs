//! `swb` alone.

use crate::support::{USER, scene};

#[test]
fn with_nothing_configured_the_demo_server_is_offered() {
    insta::assert_snapshot!(scene().swb(&[]).to_snapshot());
}

#[test]
fn with_something_configured_it_is_listed() {
    let scene = scene();
    scene.write_servers(USER, r#""s": {"command": "x"}"#);
    assert_eq!(scene.swb(&[]), scene.swb(&["list"]));
}

#[test]
fn help_and_version_succeed() {
    let help = scene().swb(&["--help"]);
    insta::assert_snapshot!(help.to_snapshot());
    assert_eq!(
        scene().swb(&["--version"]).expect_success(),
        format!("swb {}\n", env!("CARGO_PKG_VERSION"))
    );
    scene().swb(&["frobnicate"]).expect_failure(2);
}
