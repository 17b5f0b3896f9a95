//! `swb` alone.

use crate::support::{USER, scene};

#[test]
fn with_nothing_configured_a_server_of_our_own_shows_what_it_can_do() {
    insta::assert_snapshot!(scene().swb(&[]).shown());
}

#[test]
fn with_something_configured_it_is_listed() {
    let scene = scene();
    scene.servers(USER, r#""s": {"command": "x"}"#);
    assert_eq!(scene.swb(&[]), scene.swb(&["list"]));
}

#[test]
fn help_and_version_are_no_errors() {
    let help = scene().swb(&["--help"]);
    insta::assert_snapshot!(help.shown());
    assert_eq!(scene().swb(&["--version"]).ok(), format!("swb {}\n", env!("CARGO_PKG_VERSION")));
    scene().swb(&["frobnicate"]).fails(2);
}
