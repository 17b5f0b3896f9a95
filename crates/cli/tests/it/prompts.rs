//! `swb prompts`.

use testkit::{Script, Scripted};

use crate::support::{USER, json, scene};

#[test]
fn prompts_are_listed_with_their_arguments() {
    let scene = scene();
    scene.servers(USER, &format!("\"s\": {}", Scripted::entry(&Script::legacy().prompts(2))));
    insta::assert_snapshot!(scene.swb(&["prompts"]).ok());
    let list = json(&scene, &["prompts", "--json"]);
    assert_eq!(list["prompts"].as_array().map(Vec::len), Some(2));
}
