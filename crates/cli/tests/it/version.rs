//! `swb version`.

use crate::support::{json, scene};

#[test]
fn the_version_is_the_one_of_the_option() {
    let scene = scene();
    let of_option = scene.swb(&["--version"]);
    assert_eq!(scene.swb(&["version"]).expect_success(), of_option.expect_success());
    let json = json(&scene, &["version", "--json"]);
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
}
