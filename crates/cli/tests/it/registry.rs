//! `swb registry`: search, show and add, with a registry of hand-written pages.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value as Json, json};
use testkit::real_servers::{ServerTransport, everything};
use testkit::registry_mirror::MirrorMode;
use testkit::{RegistryMirror, Sandbox, Terminal};

use crate::bundle::{manifest, node_scene, pack};
use crate::docs::{check_commands, docs, link_program};
use crate::support::{USER, json as json_of, scene};

/// A sandbox that uses a mirror.
pub fn with_mirror(mode: MirrorMode) -> (RegistryMirror, Sandbox) {
    let mirror = RegistryMirror::start(mode).expect("it starts");
    let mut scene = scene();
    scene.set_env("SWB_REGISTRY_URL", mirror.url());
    (mirror, scene)
}

/// A program in the sandbox's search path.
fn stub(scene: &mut Sandbox, name: &str, script: &str) {
    let file = format!("~/bin/{name}");
    scene.write(&file, &format!("#!/bin/sh\n{script}\n"));
    let path = scene.path(&file);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("changed");
    let path = std::env::var("PATH").expect("a search path");
    scene.set_env("PATH", &format!("{}:{path}", scene.home().join("bin").display()));
}

/// The tool of the Secret Service, with a folder as its keychain.
fn stub_keychain(scene: &mut Sandbox) {
    stub(
        scene,
        "secret-tool",
        "for name; do :; done\ncase $1 in\nstore) cat > \"$HOME/bin/$name\" ;;\nlookup) cat \"$HOME/bin/$name\" ;;\nesac",
    );
}

fn entries(scene: &Sandbox) -> Json {
    let settings: Json = serde_json::from_str(&scene.read(USER)).expect("it is JSON");
    settings["mcpServers"].clone()
}

const ADD: [&str; 5] = ["registry", "add", "--yes", "--scope", "user"];

fn add_arguments<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    ADD.iter().chain(arguments).copied().collect()
}

#[test]
fn without_a_registry_the_error_says_how_to_name_one() {
    let mirror = RegistryMirror::start(MirrorMode::Current).expect("it starts");
    let mut scene = scene();
    let failed = scene.swb(&["registry", "search", "weather"]);
    let error = failed.expect_failure(3);
    for part in [
        "no registry is configured",
        "--registry URL",
        "SWB_REGISTRY_URL",
        "\"registry\": {\"url\"",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let found = "com.example/weather";
    let ran = scene.swb(&["registry", "search", "weather", "--registry", mirror.url()]);
    assert!(ran.expect_success().contains(found));
    scene.write(USER, &json!({"registry": {"url": mirror.url()}}).to_string());
    assert!(scene.swb(&["registry", "search", "weather"]).expect_success().contains(found));
    // The variable has precedence over the settings, and the option over both.
    scene.set_env("SWB_REGISTRY_URL", "http://registry.example/");
    let refused = scene.swb(&["registry", "search", "weather"]);
    assert!(refused.expect_failure(2).contains("it must be https, or a URL of this machine"));
    let ran = scene.swb(&["registry", "search", "weather", "--registry", mirror.url()]);
    assert!(ran.expect_success().contains(found));
}

#[test]
fn a_project_cannot_name_the_registry() {
    let mirror = RegistryMirror::start(MirrorMode::Current).expect("it starts");
    let scene = scene();
    scene.write(
        ".mcp.json",
        &json!({"registry": {"url": mirror.url()}, "mcpServers": {}}).to_string(),
    );
    assert!(scene.swb(&["registry", "search", "x"]).expect_failure(3).contains("no registry"));
    assert!(mirror.paths().is_empty());
}

#[test]
fn a_search_reads_every_page_and_lists_each_server_once() {
    let (mirror, scene) = with_mirror(MirrorMode::Current);
    let ran = scene.swb(&["registry", "search", "example"]);
    let text = ran.expect_success();
    for line in [
        "com.example/everything  2026.8.31  npm",
        "com.example/weather     1.4.0      pypi",
        "(deprecated) Files, the old way",
        "com.example/container   2.0.0      oci",
        "com.example/dotnet      3.1.0      nuget",
        "com.example/crate       0.3.0      cargo",
        "(deleted) It was malicious",
        "com.example/bundle      1.0.0      mcpb",
        "com.example/remote      1.1.0      http",
        "com.example/events      1.0.0      sse",
        "com.example/several     1.0.0      npm, pypi, http",
        "com.example/moving      1.0.0      –",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(text.matches("com.example/everything").count(), 1);
    assert_eq!(ran.stderr, "");
    assert_eq!(mirror.paths().len(), 3, "{:?}", mirror.paths());
    assert!(mirror.paths()[0].starts_with("/v0.1/servers?search=example&version=latest&limit="));
    let few = scene.swb(&["registry", "search", "-n", "2", "EXAMPLE"]);
    assert_eq!(few.expect_success().lines().count(), 3);
    assert!(few.stderr.contains("there may be more"), "{}", few.stderr);
    let none = scene.swb(&["registry", "search", "forecasts"]);
    assert!(none.expect_success().contains("descriptions are not searched"));
    let json = json_of(&scene, &["registry", "search", "weather", "--json"]);
    assert_eq!((&json["complete"], &json["unreadable"]), (&json!(true), &json!(0)));
    assert_eq!(json["servers"][0]["options"][0]["inputs"][0]["key"], "city");
}

#[test]
fn the_older_api_is_used_where_the_current_one_is_missing() {
    let (mirror, scene) = with_mirror(MirrorMode::Older);
    let ran = scene.swb(&["registry", "search", "everything"]);
    assert!(ran.expect_success().contains("2026.8.31"), "{}", ran.to_snapshot());
    assert_eq!(ran.stdout.matches("com.example/everything").count(), 1, "{}", ran.stdout);
    let paths = mirror.paths();
    assert!(paths[0].starts_with("/v0.1/") && paths[1..].iter().all(|it| it.starts_with("/v0/")));
    assert_eq!(paths.len(), 4, "{paths:?}");
    let shown = scene.swb(&["registry", "show", "com.example/weather"]);
    assert!(shown.expect_success().contains("pypi package example-weather==1.4.0"));
}

#[test]
fn a_server_is_shown_with_what_it_asks_for() {
    let (mirror, scene) = with_mirror(MirrorMode::Current);
    let ran = scene.swb(&["registry", "show", "com.example/weather"]);
    assert_eq!(
        ran.expect_success(),
        "com.example/weather 1.4.0\n  \
           Forecasts for a city\n  \
           Published:    2026-05-01T10:00:00Z\n  \
           Website:      https://weather.example\n\
         \n\
         pypi package example-weather==1.4.0\n  \
           city (argument, required): The city\n  \
           units (argument, optional, one of metric, imperial, default metric): The units\n  \
           radar (argument, optional, true or false): Include the radar\n  \
           WEATHER_API_KEY (environment variable, required, secret): Your key for the forecasts\n\
         \n\
         Add it: swb registry add com.example/weather\n"
    );
    assert_eq!(mirror.paths(), ["/v0.1/servers/com.example%2Fweather/versions/latest"]);
    let old = scene.swb(&["registry", "show", "com.example/everything", "--version", "2026.1.1"]);
    assert!(old.expect_success().contains("server-everything@2026.1.1"), "{}", old.stdout);
    let versions = scene.swb(&["registry", "show", "com.example/everything", "--versions"]);
    assert!(versions.expect_success().contains("2026.1.1"), "{}", versions.stdout);
    assert!(versions.stdout.contains("2026.8.31"), "{}", versions.stdout);
    let moving = scene.swb(&["registry", "show", "com.example/moving"]);
    assert!(
        moving
            .expect_success()
            .contains("cannot be added: it names no exact version, but `latest`")
    );
    for (name, version, code, message) in [
        ("com.example/absent", "1.0.0", 5, "`com.example/absent` 1.0.0 is not in the registry"),
        ("com.example/weather", "^1", 2, "`^1` is not an exact version"),
        ("weather", "1.0.0", 2, "swb registry search weather"),
    ] {
        let failed = scene.swb(&["registry", "show", name, "--version", version]);
        assert!(failed.expect_failure(code).contains(message), "{}", failed.to_snapshot());
    }
}

#[test]
fn each_type_of_package_and_remote_becomes_an_entry() {
    let (_mirror, mut scene) = with_mirror(MirrorMode::Current);
    stub_keychain(&mut scene);
    for arguments in [
        &["com.example/everything"][..],
        &[
            "com.example/weather",
            "--set",
            "--city=Rome",
            "--set",
            "radar=yes",
            "--set",
            "WEATHER_API_KEY=hunter2hunter2",
        ],
        &["com.example/container", "--set", "source=~/my data"],
        &["com.example/dotnet"],
        &["com.example/crate"],
        &["com.example/remote", "--set", "tenant=acme", "--set", "token=hunter3hunter3"],
        &["com.example/events"],
        &["com.example/several", "--package", "pypi"],
        &["com.example/several", "--remote", "--name", "several-remote"],
    ] {
        let ran = scene.swb(&add_arguments(arguments));
        assert!(ran.expect_success().starts_with("Added `"), "{}", ran.to_snapshot());
        assert!(!ran.to_snapshot().contains("hunter"), "{}", ran.to_snapshot());
    }
    assert_eq!(
        entries(&scene),
        json!({
            "everything": {
                "type": "stdio", "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-everything@2026.8.31", "stdio"],
                "env": {"EVERYTHING_MODE": "all"},
            },
            "weather": {
                "type": "stdio", "command": "uvx",
                "args": ["example-weather==1.4.0", "--city", "Rome", "--units", "metric", "--radar"],
                "env": {"WEATHER_API_KEY": "${keychain:weather.WEATHER_API_KEY}"},
            },
            "container": {
                "type": "stdio", "command": "docker",
                "args": [
                    "run", "-i", "--rm", "--mount", "type=bind,src=${HOME}/my data,dst=/data",
                    "-e", "CONTAINER_LEVEL", "images.example:5000/example/container:2.0.0", "serve",
                ],
                "env": {"CONTAINER_LEVEL": "info"},
            },
            "dotnet": {"type": "stdio", "command": "dnx", "args": ["Example.Dotnet@3.1.0", "--yes", "mcp"]},
            "crate": {"type": "stdio", "command": "~/.cargo/bin/example-crate", "args": ["serve"]},
            "remote": {
                "type": "http", "url": "https://acme.remote.example/mcp",
                "headers": {"Authorization": "Bearer ${keychain:remote.token}", "X-Region": "eu"},
            },
            "events": {"type": "sse", "url": "https://events.example/sse"},
            "several": {"type": "stdio", "command": "uvx", "args": ["example-several==1.0.0"]},
            "several-remote": {"type": "http", "url": "https://several.example/mcp"},
        })
    );
    assert_eq!(scene.read("~/bin/weather.WEATHER_API_KEY"), "hunter2hunter2");
    assert_eq!(scene.read("~/bin/remote.token"), "hunter3hunter3");
}

#[test]
fn secrets_may_be_kept_in_files_or_named_by_reference_and_an_unusable_keychain_adds_nothing() {
    let (_mirror, mut scene) = with_mirror(MirrorMode::Current);
    let weather =
        ["com.example/weather", "--set", "city=Rome", "--set", "WEATHER_API_KEY=hunter2hunter2"];
    stub(&mut scene, "secret-tool", "exit 1");
    let failed = scene.swb(&add_arguments(&weather));
    assert!(
        failed.expect_failure(1).contains("a secret could not be stored"),
        "{}",
        failed.to_snapshot()
    );
    assert!(failed.stderr.contains("--secrets file") && !failed.stderr.contains("hunter2"));
    assert!(!scene.path(USER).exists());
    let kept = add_arguments(&[&weather[..], &["--secrets", "file"][..]].concat());
    assert!(scene.swb(&kept).expect_success().starts_with("Added `weather`"));
    let reference = "${file:~/.config/switchboard/secrets/weather.WEATHER_API_KEY}";
    assert_eq!(entries(&scene)["weather"]["env"]["WEATHER_API_KEY"], reference);
    assert_eq!(
        scene.read("~/.config/switchboard/secrets/weather.WEATHER_API_KEY"),
        "hunter2hunter2\n"
    );
    let named = ["com.example/weather", "--set", "city=$1", "--set", "WEATHER_API_KEY=${MY_KEY}"];
    let ran = scene.swb(&add_arguments(&named));
    ran.expect_success();
    assert_eq!(entries(&scene)["weather-2"]["env"]["WEATHER_API_KEY"], "${MY_KEY}");
    assert_eq!(entries(&scene)["weather-2"]["args"][2], "$$1");
}

#[test]
fn a_published_server_is_found_added_at_its_version_and_called() {
    let (_mirror, mut scene) = with_mirror(MirrorMode::Current);
    let real = everything(ServerTransport::Stdio);
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
    let variables: String = real
        .env
        .iter()
        .map(|(name, value)| format!("export {}={}\n", name.to_string_lossy(), quoted(value)))
        .collect();
    let command: Vec<String> =
        std::iter::once(&real.command).chain(&real.args).map(|it| quoted(it)).collect();
    // The installed package in place of a download; only the exact command line starts it.
    let script = format!(
        "[ \"$*\" = '-y @modelcontextprotocol/server-everything@2026.8.31 stdio' ] || exit 9\n{variables}exec {}",
        command.join(" ")
    );
    stub(&mut scene, "npx", &script);
    scene.set_env("MCP_TIMEOUT", "60000");
    scene.write(USER, "{\n  // mine\n  \"permissions\": {\"allow\": [\"mcp__everything\"]},\n}\n");
    let found = scene.swb(&["registry", "search", "every"]);
    assert!(found.expect_success().contains("com.example/everything"));
    let shown = scene.swb(&["registry", "show", "com.example/everything"]);
    assert!(
        shown
            .expect_success()
            .contains("npm package @modelcontextprotocol/server-everything@2026.8.31")
    );
    let added = scene.swb(&add_arguments(&["com.example/everything"]));
    assert!(
        added
            .expect_success()
            .contains("runs: npx -y @modelcontextprotocol/server-everything@2026.8.31 stdio")
    );
    assert!(scene.read(USER).contains("  // mine\n"), "comments stay");
    let called = scene.swb(&["call", "mcp__everything__echo", "message=hello"]);
    assert!(called.expect_success().contains("hello"), "{}", called.to_snapshot());
}

#[test]
fn a_published_bundle_is_checked_installed_and_called() {
    let mut scene = node_scene();
    pack(&scene, &manifest("1.0.0"), "probe.mcpb");
    let bundle = fs::read(scene.path("probe.mcpb")).expect("it was packed");
    let mirror = RegistryMirror::start_with_bundle(MirrorMode::Current, bundle).expect("it starts");
    scene.set_env("SWB_REGISTRY_URL", mirror.url());
    scene.write(USER, r#"{"permissions": {"allow": ["mcp__bundle"]}}"#);
    let shown = scene.swb(&["registry", "show", "com.example/bundle"]);
    assert!(shown.expect_success().contains("mcpb package "), "{}", shown.to_snapshot());
    let asked = scene.swb(&["registry", "add", "com.example/bundle", "--scope", "user"]);
    assert!(
        asked.expect_failure(2).contains("confirmation needs a terminal"),
        "{}",
        asked.to_snapshot()
    );
    assert!(asked.stderr.contains("File:         http://"), "{}", asked.to_snapshot());
    // The status is part of what the user agrees to.
    let old = scene.swb(&["registry", "add", "com.example/old-bundle", "--scope", "user"]);
    assert!(
        old.expect_failure(2).contains("has deprecated it: use com.example/bundle"),
        "{}",
        old.to_snapshot()
    );
    let added = scene.swb(&add_arguments(&[
        "com.example/bundle",
        "--set",
        "folders=/srv",
        "--set",
        "token=hunter2hunter2",
        "--secrets",
        "file",
    ]));
    assert!(added.expect_success().contains("Added server `bundle`"), "{}", added.to_snapshot());
    assert!(!added.to_snapshot().contains("hunter2"), "{}", added.to_snapshot());
    let called = scene.swb(&["call", "mcp__bundle__show"]);
    assert!(called.expect_success().contains("--level=0"), "{}", called.to_snapshot());
}

#[test]
fn nothing_is_written_without_a_terminal_and_without_yes() {
    let (_mirror, scene) = with_mirror(MirrorMode::Current);
    let asked = scene.swb(&["registry", "add", "com.example/everything"]);
    let text = asked.expect_failure(2);
    for part in [
        "nothing was added: confirmation needs a terminal",
        "com.example/everything 2026.8.31",
        "Runs:         npx -y @modelcontextprotocol/server-everything@2026.8.31 stdio",
        "Environment:  EVERYTHING_MODE=all",
        "Name:         everything",
        "the local scope",
        "add --yes",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let missing =
        scene.swb(&["registry", "add", "--yes", "com.example/weather", "--set", "units=kelvin"]);
    let text = missing.expect_failure(2);
    for part in [
        "`city` needs a value",
        "`units` must be one of `metric`, `imperial`",
        "`WEATHER_API_KEY` needs a value",
        "city (argument, required): The city",
        "--set KEY=VALUE",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let unknown = scene.swb(&["registry", "add", "--yes", "com.example/events", "--set", "a=b"]);
    assert!(unknown.expect_failure(2).contains("there is no value `a`; there is none"));
    let malformed =
        scene.swb(&["registry", "add", "--yes", "com.example/events", "--set", "hunter2"]);
    assert!(malformed.expect_failure(2).contains("--set number 1 is not KEY=VALUE"));
    assert!(!malformed.stderr.contains("hunter2"));
    assert_eq!(
        json_of(&scene, &["list", "--json"])["servers"][0]["name"],
        "demo",
        "nothing was added"
    );
}

#[test]
fn at_a_terminal_values_are_asked_by_their_descriptions_and_the_command_is_shown_before_it_is_written()
 {
    let (_mirror, mut scene) = with_mirror(MirrorMode::Current);
    stub_keychain(&mut scene);
    let arguments = ["registry", "add", "com.example/weather", "--scope", "user"];
    let mut terminal = Terminal::start(&scene.command(&scene.project(), &arguments));
    terminal
        .wait_for_output("city (argument, required): The city")
        .wait_for_output("for example Paris");
    terminal.wait_for_output("city: ").send_keys("\n").wait_for_output("`city` needs a value");
    terminal.wait_for_output("city: ").send_keys("Rome\n");
    terminal.wait_for_output("units [Enter: metric]: ").send_keys("kelvin\n");
    terminal.wait_for_output("`units` must be one of").wait_for_output("units: ").send_keys("\n");
    terminal.wait_for_output("radar [Enter: leave it out]: ").send_keys("y\n");
    terminal.wait_for_output("Your key for the forecasts").wait_for_output("WEATHER_API_KEY: ");
    terminal.stable_screen();
    terminal.send_keys("hunter2hunter2\n");
    terminal.wait_for_output("uvx example-weather==1.4.0 --city Rome --units metric --radar");
    terminal.wait_for_output("WEATHER_API_KEY=${keychain:weather.WEATHER_API_KEY}");
    terminal.wait_for_output("Add it? [y/N] ");
    assert!(!scene.path(USER).exists(), "nothing is written before the answer");
    let (code, output) = {
        terminal.send_keys("y\n");
        terminal.wait_for_exit()
    };
    assert!(code == 0 && output.contains("Added `weather`"), "{output}");
    assert!(!output.contains("hunter2"), "a secret is not shown while it is typed: {output}");
    assert_eq!(scene.read("~/bin/weather.WEATHER_API_KEY"), "hunter2hunter2");
    let arguments = ["registry", "add", "com.example/several"];
    let mut terminal = Terminal::start(&scene.command(&scene.project(), &arguments));
    terminal.wait_for_output("3  http server at https://several.example/mcp");
    terminal.wait_for_output("Which one? ").send_keys("1\n");
    terminal
        .wait_for_output("npx -y example-several@1.0.0")
        .wait_for_output("[y/N] ")
        .send_keys("\n");
    let (code, output) = terminal.wait_for_exit();
    assert!(code == 0 && output.contains("Nothing was written."), "{output}");
}

#[test]
fn a_deprecated_server_is_added_with_a_warning_and_a_deleted_one_is_refused() {
    let (_mirror, scene) = with_mirror(MirrorMode::Current);
    let old = scene.swb(&add_arguments(&["com.example/old-files"]));
    old.expect_success();
    assert!(
        old.stderr.contains("warning: its publisher has deprecated it: use com.example/files"),
        "{}",
        old.stderr
    );
    let gone = scene.swb(&add_arguments(&["com.example/gone"]));
    let text = gone.expect_failure(5);
    assert!(
        text.contains("was deleted from the registry") && text.contains("it stole keys"),
        "{text}"
    );
    assert_eq!(entries(&scene).as_object().expect("servers").len(), 1);
}

#[test]
fn a_server_with_several_ways_needs_a_choice_and_one_without_any_says_why() {
    let (_mirror, scene) = with_mirror(MirrorMode::Current);
    let several = scene.swb(&add_arguments(&["com.example/several"]));
    let text = several.expect_failure(2);
    assert!(
        text.contains("choose one: --package npm or --package pypi or --remote=http"),
        "{text}"
    );
    let absent = scene.swb(&add_arguments(&["com.example/several", "--package", "oci"]));
    assert!(
        absent.expect_failure(5).contains("it has --package npm, --package pypi, --remote=http")
    );
    let moving = scene.swb(&add_arguments(&["com.example/moving"]));
    let text = moving.expect_failure(3);
    for part in ["`latest`", "does not use stdio", "swb add NAME http://127.0.0.1:9000/mcp"] {
        assert!(text.contains(part), "{text}");
    }
    let typo = scene.swb(&add_arguments(&["com.example/several", "--package", "gem"]));
    assert!(
        typo.stderr.contains("the types are npm, pypi, oci, nuget, cargo, mcpb"),
        "{}",
        typo.stderr
    );
}

#[test]
fn a_taken_name_gets_a_number_and_a_chosen_one_must_be_free() {
    let (_mirror, scene) = with_mirror(MirrorMode::Current);
    for expected in ["events", "events-2"] {
        let json = json_of(&scene, &add_arguments(&["com.example/events", "--json"]));
        assert_eq!(
            (json["added"].as_str(), json["version"].as_str()),
            (Some(expected), Some("1.0.0"))
        );
    }
    let taken = scene.swb(&add_arguments(&["com.example/events", "--name", "events"]));
    assert!(
        taken.expect_failure(6).contains("already in the user scope"),
        "{}",
        taken.to_snapshot()
    );
    let bad = scene.swb(&add_arguments(&["com.example/events", "--name", "a b"]));
    assert!(bad.expect_failure(2).contains("cannot be a server's name"));
    let again =
        scene.swb(&add_arguments(&["com.example/everything", "--name", "events", "--overwrite"]));
    again.expect_success();
    assert_eq!(entries(&scene)["events"]["command"], "npx");
}

#[test]
fn policies_and_the_administrators_files_decide_about_published_servers() {
    let (mirror, scene) = with_mirror(MirrorMode::Current);
    scene.write(
        "managed/managed-settings.json",
        &json!({
            "deniedMcpServers": [{"serverUrl": "https://events.example/*"}],
            "registry": {"url": mirror.url()},
        })
        .to_string(),
    );
    let denied = scene.swb(&add_arguments(&["com.example/events"]));
    assert!(denied.expect_failure(4).contains("a policy refuses it"), "{}", denied.to_snapshot());
    assert!(!scene.path(USER).exists());
    let other = ["registry", "search", "x", "--registry", "https://other.example/"];
    let replaced = scene.swb(&other);
    assert!(
        replaced.expect_failure(4).contains("your administrator decides"),
        "{}",
        replaced.to_snapshot()
    );
    scene.write("managed/managed-mcp.json", r#"{"mcpServers": {}}"#);
    let before = mirror.paths().len();
    let locked = scene.swb(&add_arguments(&["com.example/everything"]));
    assert!(locked.expect_failure(4).contains("exclusive control over MCP servers"));
    assert_eq!(mirror.paths().len(), before, "nothing is requested");
}

#[test]
fn a_program_that_is_not_installed_is_named_with_its_fix() {
    let (_mirror, mut scene) = with_mirror(MirrorMode::Current);
    scene.set_env("PATH", "/nowhere");
    for (server, expected) in [
        ("com.example/everything", "warning: `npx` is not installed; install Node.js"),
        ("com.example/dotnet", "warning: `dnx` is not installed; install the .NET SDK"),
        (
            "com.example/crate",
            "warning: `~/.cargo/bin/example-crate` is not installed; cargo install --locked example-crate --version =0.3.0",
        ),
    ] {
        let ran = scene.swb(&add_arguments(&[server]));
        ran.expect_success();
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn a_name_alone_given_to_add_leads_to_the_registry() {
    let scene = scene();
    let bare = scene.swb(&["add", "weather"]);
    assert!(
        bare.expect_failure(2).contains("swb registry search weather"),
        "{}",
        bare.to_snapshot()
    );
    let published = scene.swb(&["add", "com.example/weather"]);
    assert!(published.expect_failure(2).contains("swb registry add com.example/weather"));
}

#[test]
fn a_registry_that_cannot_be_reached_is_named_with_the_cause() {
    let mut scene = scene();
    // A port that nothing listens at.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one");
    scene.set_env("SWB_REGISTRY_URL", &format!("http://{port}"));
    let failed = scene.swb(&["registry", "search", "x"]);
    let text = failed.expect_failure(10);
    assert!(text.contains("could not be used") && text.contains("caused by: "), "{text}");
    assert!(text.contains("check the registry's URL"), "{text}");
    let mirror = RegistryMirror::start(MirrorMode::Current).expect("it starts");
    scene.set_env("SWB_REGISTRY_URL", &format!("{}/elsewhere", mirror.url()));
    let failed = scene.swb(&["registry", "search", "x"]);
    assert!(failed.expect_failure(10).contains("it has neither `/v0.1/servers` nor `/v0/servers`"));
}

#[test]
fn the_screen_searches_and_shows_and_tells_how_to_add() {
    let (_mirror, scene) = with_mirror(MirrorMode::Current);
    let mut command = scene.command(&scene.project(), &[]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::start(&command);
    terminal.wait_for_screen("1/1 server").stable_screen();
    terminal.send_keys("/registry weather\r").wait_for_screen("com.example/weather");
    terminal.send_keys("/registry add com.example/weather\r");
    terminal.wait_for_screen("Your key for the forecasts");
    terminal.wait_for_screen("swb registry add com.example/weather");
    terminal.send_keys("/registry com.example/absent\r").wait_for_screen("is not in the registry");
}

#[test]
fn docs_registry_examples_match_the_program() {
    let (mirror, mut scene) = with_mirror(MirrorMode::Current);
    stub(&mut scene, "npx", "exit 9");
    fs::rename(scene.path("~/bin"), scene.path("~/stubs")).expect("moved");
    let bin = link_program(&scene);
    check_commands(&docs().join("guide/registry.md"), |command| {
        let mut shell = std::process::Command::new("bash");
        let stubs = scene.path("~/stubs");
        let path = std::env::var("PATH").expect("a path");
        shell
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(scene.project())
            .env_clear();
        shell.env("HOME", scene.home()).env("SWB_TESTBED_MANAGED", scene.managed());
        shell.env("PATH", format!("{}:{}:{path}", bin.display(), stubs.display()));
        let output = shell.env("SWB_REGISTRY_URL", mirror.url()).output().expect("bash can be run");
        let ran = scene.normalized_output(output.status.code(), &output.stdout, &output.stderr);
        let text = ran.stdout.replace("[ROOT]/person", "~");
        match ran.code {
            0 => text,
            code => format!("{text}[exit code {code}]\n"),
        }
    });
}
