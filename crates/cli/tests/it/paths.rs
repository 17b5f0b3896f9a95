//! `swb paths`.

use crate::support::{json, scene};

#[test]
fn every_place_is_named() {
    insta::assert_snapshot!(scene().swb(&["paths"]).to_snapshot());
}

#[test]
fn one_variable_moves_all_folders_except_the_administrators() {
    let mut scene = scene();
    let elsewhere = scene.root().join("elsewhere").display().to_string();
    scene.set_env("SWITCHBOARD_CONFIG_DIR", &elsewhere);
    insta::assert_snapshot!(scene.swb(&["paths", "--json"]).to_snapshot());
    scene.swb(&["add", "-s", "user", "s", "--", "x"]).expect_success();
    assert!(scene.root().join("elsewhere/settings.json").exists());
    assert!(!scene.home().join(".config").exists());
}

#[test]
fn a_relative_folder_is_refused() {
    let mut scene = scene();
    scene.set_env("SWITCHBOARD_CONFIG_DIR", "here");
    insta::assert_snapshot!(scene.swb(&["paths"]).expect_failure(2), @r"
    error: SWITCHBOARD_CONFIG_DIR must be an absolute path

    hint: a relative one would mean another folder in every project
    ");
}

#[test]
fn a_project_is_its_repository_from_any_folder_inside() {
    let scene = scene();
    let deep = scene.project().join("src/deep");
    std::fs::create_dir_all(&deep).expect("folders");
    let ran = scene.swb_in(&deep, &["paths", "--json"]);
    let inside: serde_json::Value = serde_json::from_str(ran.expect_success()).expect("it is JSON");
    assert_eq!(inside, json(&scene, &["paths", "--json"]));
}
