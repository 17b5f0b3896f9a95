//! `swb policy`, and how policies and the lock file affect other commands.

use crate::support::{USER, json, scene, states};

const LOCKED: &str =
    "enterprise MCP configuration is active and has exclusive control over MCP servers";

#[test]
fn the_deciding_line_is_shown() {
    let scene = scene();
    scene
        .write(
            "managed/managed-settings.json",
            "{\n  \"allowedMcpServers\": [\n    {\"serverCommand\": [\"npx\", \"-y\", \"good\"]},\n    {\"serverUrl\": \"https://*.corp.example/*\"}\n  ],\n  \"deniedMcpServers\": [\n    {\"serverName\": \"banned\"}\n  ]\n}\n",
        )
        .write_servers(
            USER,
            r#""good": {"command": "npx", "args": ["-y", "good"]},
               "trick": {"command": "npx", "args": ["-c", "good"]},
               "api": {"type": "http", "url": "https://mcp.corp.example/x"},
               "elsewhere": {"type": "http", "url": "https://evil.example/https://mcp.corp.example/x"},
               "banned": {"command": "npx", "args": ["-y", "good"]}"#,
        );
    assert_eq!(
        states(&scene, &[]),
        [
            "api user ready",
            "banned user refused",
            "elsewhere user refused",
            "good user ready",
            "trick user refused"
        ]
    );
    let why = |name: &str| scene.swb(&["policy", "why", name]).expect_success().to_owned();
    insta::assert_snapshot!(["good", "trick", "api", "elsewhere", "banned"].map(why).concat());
    insta::assert_snapshot!(
        "for_programs",
        scene.swb(&["policy", "why", "banned", "--json"]).to_snapshot()
    );
    insta::assert_snapshot!("in_the_list", scene.swb(&["list"]).to_snapshot());
    scene.swb(&["policy", "why", "nobody"]).expect_failure(5);
}

#[test]
fn without_policies_the_output_says_so() {
    let scene = scene();
    scene.write_servers(USER, r#""s": {"command": "x"}"#);
    insta::assert_snapshot!(scene.swb(&["policy", "why", "s"]).expect_success(), @r"
    `s` of the user scope (~/.config/switchboard/settings.json:2): allowed
      there are no allow and no deny lists
    ");
}

#[test]
fn deny_lists_of_the_user_apply() {
    let scene = scene();
    scene.write(USER, r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}, "deniedMcpServers": [{"serverName": "a"}]}"#);
    assert_eq!(states(&scene, &[]), ["a user refused", "b user ready"]);
}

#[test]
fn an_invalid_deny_entry_is_reported_and_the_others_apply() {
    let scene = scene();
    scene
        .write("managed/managed-settings.json", "{\n  \"deniedMcpServers\": [\n    {\"serverNmae\": \"a\"},\n    {\"serverName\": \"b\"}\n  ]\n}\n") // misspelt on purpose
        .write_servers(USER, r#""a": {"command": "x"}, "b": {"command": "x"}"#);
    assert_eq!(states(&scene, &[]), ["a user ready", "b user refused"]);
    let ran = scene.swb(&["list"]);
    assert!(
        ran.stderr
            .contains("; it denies nothing\n  --> /etc/switchboard/managed-settings.json:3:6"),
        "{}",
        ran.to_snapshot()
    );
}

#[test]
fn invalid_managed_settings_refuse_all_servers_with_an_error() {
    let scene = scene();
    scene
        .write("managed/managed-settings.json", "{\"deniedMcpServers\": [")
        .write_servers(USER, r#""a": {"command": "x"}"#);
    insta::assert_snapshot!(scene.swb(&["list"]).to_snapshot());
    assert_eq!(
        states(&scene, &["--mcp-config", r#"{"mcpServers": {"d": {"command": "x"}}}"#]),
        ["a user refused", "d dynamic refused"]
    );
}

#[test]
fn a_managed_server_file_has_exclusive_control() {
    let scene = scene();
    scene
        .write_servers(
            "managed/managed-mcp.json",
            r#""corp": {"type": "http", "url": "https://mcp.corp.example/"}"#,
        )
        .write_servers(USER, r#""u": {"command": "x"}"#)
        .write_servers(".mcp.json", r#""p": {"command": "x"}"#)
        .write_servers("~/.claude.json", r#""c": {"command": "x"}"#);
    let sdk = r#"{"mcpServers": {"d": {"command": "x"}, "calc": {"type": "sdk", "name": "calc"}}}"#;
    assert_eq!(
        states(&scene, &["--mcp-config", sdk, "--strict-mcp-config"]),
        [
            "calc dynamic left-out",
            "corp enterprise ready",
            "d dynamic left-out",
            "p project left-out",
            "u user left-out"
        ]
    );
    insta::assert_snapshot!(scene.swb(&["list"]).to_snapshot());
    let before = scene.read(USER);
    for arguments in [
        &["add", "s", "--", "x"][..],
        &["add", "s", "https://h/", "--scope", "user"],
        &["add-json", "s", "{\"command\": \"x\"}"],
        &["import", "--yes"],
        &["import", "--dry-run"],
        &["remove", "u"],
        &["remove", "corp"],
        &["enable", "u"],
        &["disable", "corp"],
        &["approve", "p"],
        &["mcp", "add", "s", "--", "x"],
        &["add", "--strict-mcp-config", "s", "--", "x"],
    ] {
        let ran = scene.swb(arguments);
        assert!(
            ran.expect_failure(4).starts_with(&format!("error: {LOCKED}\n")),
            "{arguments:?}\n{}",
            ran.to_snapshot()
        );
    }
    assert_eq!(scene.read(USER), before);
}

#[test]
fn no_variable_and_no_user_or_project_file_lifts_the_lock() {
    let mut scene = scene();
    scene
        .write_servers("managed/managed-mcp.json", r#""corp": {"command": "x"}"#)
        .write_servers("elsewhere/settings.json", r#""u": {"command": "x"}"#);
    scene.write(USER, r#"{"disabledMcpServers": ["corp"], "allowManagedMcpServersOnly": false}"#);
    let elsewhere = scene.path("elsewhere").display().to_string();
    scene
        .set_env("SWITCHBOARD_CONFIG_DIR", &elsewhere)
        .set_env("SWITCHBOARD_MANAGED_DIR", &elsewhere)
        .set_env("XDG_CONFIG_DIRS", &elsewhere);
    assert_eq!(states(&scene, &[]), ["corp enterprise ready", "u user left-out"]);
    scene.swb(&["add", "s", "--", "x"]).expect_failure(4);
}

#[test]
fn a_managed_server_file_locks_even_if_invalid_and_its_errors_are_shown() {
    for (text, said) in [
        ("{", "not valid JSON"),
        ("[]", "expected an object, found an array"),
        ("", ""),
        ("{}", ""),
    ] {
        let scene = scene();
        scene
            .write("managed/managed-mcp.json", text)
            .write_servers(USER, r#""u": {"command": "x"}"#);
        assert_eq!(states(&scene, &[]), ["u user left-out"], "{text}");
        let ran = scene.swb(&["list"]);
        assert!(ran.to_snapshot().contains(said), "{}", ran.to_snapshot());
        assert!(scene.swb(&["add", "s", "--", "x"]).expect_failure(4).contains(LOCKED));
    }
    let scene = scene();
    std::fs::create_dir(scene.path("managed/managed-mcp.json")).expect("a folder");
    scene.write_servers(USER, r#""u": {"command": "x"}"#);
    assert_eq!(states(&scene, &[]), ["u user left-out"]);
    assert!(scene.swb(&["list"]).stderr.contains("is a folder, not a file"));
    std::fs::remove_dir(scene.path("managed/managed-mcp.json")).expect("an empty folder");
    std::os::unix::fs::symlink("nowhere", scene.path("managed/managed-mcp.json")).expect("a link");
    assert_eq!(states(&scene, &[]), ["u user left-out"]);
}

#[test]
fn an_administrators_folder_that_is_not_a_folder_locks_too() {
    for make in [
        |path: &std::path::Path| std::os::unix::fs::symlink("nowhere", path),
        |path: &std::path::Path| std::fs::write(path, ""),
    ] {
        let scene = scene();
        scene.write_servers(USER, r#""u": {"command": "x"}"#);
        std::fs::remove_dir(scene.managed()).expect("it is empty");
        make(&scene.managed()).expect("it can be made");
        assert_eq!(states(&scene, &[]), ["u user left-out"]);
        assert!(scene.swb(&["add", "s", "--", "x"]).expect_failure(4).contains(LOCKED));
    }
}

#[test]
fn the_lock_is_reported_first_even_without_servers() {
    let scene = scene();
    scene.write("managed/managed-mcp.json", "{}").write_servers(USER, r#""u": {"command": "x"}"#);
    assert!(scene.swb(&["list"]).expect_success().contains(LOCKED));
    assert!(
        scene
            .swb(&["--mcp-config", "missing.json", "add", "s", "--", "x"])
            .expect_failure(4)
            .contains(LOCKED)
    );
}

#[test]
fn an_unreadable_list_is_not_an_absent_list() {
    let denied = r#"{"mcpServers": {"d": {"command": "x"}}}"#;
    for (place, text) in [
        ("managed/managed-settings.json", ""),
        ("managed/managed-settings.json", "// nothing\n"),
        (
            "managed/managed-settings.json",
            r#"{"deniedMcpServers": [{"serverName": "d"}], "deniedMcpServers": []}"#,
        ),
        (USER, r#"{"deniedMcpServers": [{"serverName": "d"}"#),
        (USER, r#"{"deniedMcpServers": {"serverName": "d"}}"#),
        (USER, r#"{"disabledMcpServers": "d"}"#),
    ] {
        let scene = scene();
        scene.write(place, text);
        assert_eq!(
            states(&scene, &["--mcp-config", denied]),
            ["d dynamic refused"],
            "{place} {text}"
        );
    }
    for harmless in [
        r#"{"mcpServers": {"u": "#,
        r#"{"allowManagedMcpServersOnly": "yes"}"#,
        r#"{"disabledMcpServers": null, "deniedMcpServers": null}"#,
    ] {
        let scene = scene();
        scene.write(USER, harmless);
        assert_eq!(states(&scene, &["--mcp-config", denied]), ["d dynamic ready"], "{harmless}");
    }
}

#[test]
fn a_nested_repository_does_not_undo_disabled_or_denied_servers() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""a": {"command": "x"}, "b": {"command": "y"}"#);
    scene.swb(&["approve", "--all"]).expect_success();
    let deep = scene.project().join("sub");
    std::fs::create_dir(&deep).expect("a folder");
    scene.swb_in(&deep, &["disable", "a"]).expect_success();
    let local = crate::support::local_settings(&scene);
    let text = std::fs::read_to_string(&local).expect("it was written");
    std::fs::write(
        &local,
        text.replacen('{', "{\n  \"deniedMcpServers\": [{\"serverName\": \"b\"}],", 1),
    )
    .expect("it can be written");
    std::fs::write(deep.join(".git"), "gitdir: elsewhere").expect("a file");
    let ran = scene.swb_in(&deep, &["list", "--json"]);
    let json: serde_json::Value = serde_json::from_str(ran.expect_success()).expect("it is JSON");
    assert_eq!(
        (&json["servers"][0]["state"], &json["servers"][1]["state"]),
        (&"disabled".into(), &"refused".into())
    );
    std::fs::write(&local, "{\"deniedMcpServers\": [").expect("it can be written");
    let ran = scene.swb_in(&deep, &["list"]);
    assert!(
        ran.expect_success().contains("refused by policy") && ran.stderr.contains("not valid JSON"),
        "{}",
        ran.to_snapshot()
    );
}

#[test]
fn an_invalid_allow_entry_still_selects_the_kind_of_matching() {
    let scene = scene();
    scene
        .write(
            "managed/managed-settings.json",
            r#"{"allowedMcpServers": [{"serverCommand": "npx x"}, {"serverName": "s"}]}"#,
        )
        .write_servers(USER, r#""s": {"command": "evil"}"#);
    assert_eq!(states(&scene, &[]), ["s user refused"]);
}

#[test]
fn a_secret_in_a_url_does_not_widen_what_is_allowed_or_escape_what_is_denied() {
    let scene = scene();
    scene.write_servers(
        USER,
        r#""s": {"type": "http", "url": "https://g.example/api/${cmd:echo ../admin}"}"#,
    );
    scene.write(
        "managed/managed-settings.json",
        r#"{"allowedMcpServers": [{"serverUrl": "https://g.example/api/*"}]}"#,
    );
    assert_eq!(states(&scene, &[]), ["s user refused"]);
    scene.write(
        "managed/managed-settings.json",
        r#"{"deniedMcpServers": [{"serverUrl": "https://g.example/admin"}]}"#,
    );
    assert_eq!(states(&scene, &[]), ["s user refused"]);
    scene.write_servers(USER, r#""s": {"command": "${cmd:echo evil}"}"#);
    assert_eq!(states(&scene, &[]), ["s user invalid"]);
}

#[test]
fn the_group_alone_shows_the_rules_and_what_they_refuse() {
    let scene = scene();
    let none = scene.swb(&["policy"]);
    let expected = "No policy: there are no allow and no deny lists.\nNo server is refused.\n";
    assert_eq!(none.expect_success(), expected);
    scene.write_servers(USER, r#""a": {"command": "x"}, "b": {"command": "x"}"#);
    scene.write(
        "managed/managed-settings.json",
        r#"{"deniedMcpServers": [{"serverName": "b"}], "allowedMcpServers": [{"serverName": "a"}]}"#,
    );
    insta::assert_snapshot!("policy_alone", scene.swb(&["policy"]).expect_success());
    let json = json(&scene, &["policy", "--json"]);
    assert_eq!(json["refused"], serde_json::json!(["b"]), "{json}");
    assert_eq!(json["deny"][0]["rule"], "serverName b", "{json}");
}
