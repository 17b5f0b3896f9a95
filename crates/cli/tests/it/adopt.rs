//! `swb adopt`.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use testkit::{Sandbox, Terminal};

use crate::support::{USER, json, local_settings, program, scene, states};

/// A sandbox in which `swb` is on the search path.
fn scene_with_swb() -> Sandbox {
    let mut scene = scene();
    std::fs::create_dir_all(scene.path("~/bin")).expect("a folder");
    symlink(program(), scene.path("~/bin/swb")).expect("a link");
    let path = std::env::var("PATH").expect("a search path");
    let path = format!("{}:{path}", scene.path("~/bin").display());
    scene.set_env("PATH", &path);
    scene
}

/// A realistic file of each client, with comments where the format has them, a secret, and an entry that cannot move.
/// The clients' own servers are called `<client>-db` and `<client>-web`.
const CLIENTS: [(&str, &str, &str, &[&str]); 10] = [
    (
        "claude-code",
        "~/.claude.json",
        r#"{
  "numStartups": 12,
  "mcpServers": {
    "claude-code-db": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "db"],
      "env": { "DB_PASSWORD": "hunter2hunter2" }
    },
    "ide": { "type": "sse-ide", "url": "http://localhost:1" },
    "claude-code-web": { "type": "http", "url": "https://w.example.com/mcp" }
  },
  "projects": {
    "/elsewhere": { "mcpServers": { "x": { "command": "x" } } }
  }
}
"#,
        &["ide"],
    ),
    (
        "claude-desktop",
        "~/.config/Claude/claude_desktop_config.json",
        r#"{
  "globalShortcut": "",
  "mcpServers": {
    "claude-desktop-db": { "command": "npx", "args": ["db", "--token", "hunter2hunter2"] },
    "broken": { "args": [] },
    "claude-desktop-web": { "command": "web", "disabled": true }
  }
}"#,
        &["broken"],
    ),
    (
        "cursor",
        "~/.cursor/mcp.json",
        r#"{
  // shared between projects
  "mcpServers": {
    "cursor-db": {
      "command": "npx", // from npm
      "args": ["-y", "db"],
      "env": { "DB_PASSWORD": "hunter2hunter2" },
      "autoApprove": ["query"],
    },
    /* needs a file of variables */
    "filed": { "command": "x", "envFile": ".env" },
    "cursor-web": { "url": "https://w.example.com/mcp", "headers": { "Authorization": "Bearer hunter3hunter3" } },
  },
}
"#,
        &["filed"],
    ),
    (
        "vscode",
        "~/.config/Code/User/mcp.json",
        "{\r\n\t\"inputs\": [{ \"id\": \"key\", \"type\": \"promptString\", \"password\": true }],\r\n\t\"servers\": {\r\n\t\t// asks\r\n\t\t\"asks\": { \"command\": \"x\", \"env\": { \"K\": \"${input:key}\" } },\r\n\t\t\"vscode-db\": { \"type\": \"stdio\", \"command\": \"db\", \"env\": { \"DB_PASSWORD\": \"hunter2hunter2\" } },\r\n\t\t\"vscode-web\": { \"type\": \"http\", \"url\": \"https://w.example.com/mcp\" }\r\n\t}\r\n}\r\n",
        &["asks"],
    ),
    (
        "codex",
        "~/.codex/config.toml",
        r#"model = "gpt-5" # mine

# the database
[mcp_servers.codex-db]
command = "npx"
args = ["-y", "db"]

[mcp_servers.codex-db.env]
DB_PASSWORD = "hunter2hunter2"

[mcp_servers.both] # odd
command = "x"
url = "https://b.example.com"

[mcp_servers.codex-web]
url = "https://w.example.com/mcp"
tool_timeout_sec = 5
enabled = false

[profiles.fast]
model = "gpt-5-mini"
"#,
        &["both"],
    ),
    (
        "gemini",
        "~/.gemini/settings.json",
        r#"{
  "ui": { "theme": "Dark" }, // not ours
  "mcpServers": {
    "gemini-db": { "command": "db", "env": { "DB_PASSWORD": "hunter2hunter2" }, "trust": true },
    "cloud": { "url": "https://c.example.com", "authProviderType": "google_credentials" },
    "gemini-web": { "httpUrl": "https://w.example.com/mcp" }
  }
}
"#,
        &["cloud"],
    ),
    (
        "opencode",
        "~/.config/opencode/opencode.json",
        r#"{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "opencode-db": { "type": "local", "command": ["npx", "db"], "environment": { "DB_PASSWORD": "hunter2hunter2" } },
    "org": { "enabled": false }, // of the organization
    "opencode-web": { "type": "remote", "url": "https://w.example.com/mcp", "enabled": false }
  }
}
"#,
        &["org"],
    ),
    (
        "zed",
        "~/.config/zed/settings.json",
        r#"// Zed settings
{
  "theme": "One Dark",
  "context_servers": {
    "zed-db": { "command": "npx", "args": ["db"], "env": { "DB_PASSWORD": "hunter2hunter2" } },
    // of an extension
    "extension": { "source": "extension", "enabled": true, "settings": {} },
    "zed-web": { "url": "https://w.example.com/mcp" },
  },
}
"#,
        &["extension"],
    ),
    (
        "windsurf",
        "~/.codeium/windsurf/mcp_config.json",
        r#"{"mcpServers": {"windsurf-db": {"command": "db", "env": {"DB_PASSWORD": "hunter2hunter2"}}, "odd": 5, "windsurf-web": {"serverUrl": "https://w.example.com/mcp"}}}"#,
        &["odd"],
    ),
    (
        "goose",
        "~/.config/goose/config.yaml",
        r#"GOOSE_PROVIDER: anthropic # mine
extensions:
  # part of goose
  developer:
    enabled: true
    type: builtin
    name: developer
  goose-db:
    enabled: true
    type: stdio
    name: goose-db
    cmd: npx
    args:
    - -y
    - db
    envs:
      DB_PASSWORD: hunter2hunter2
    env_keys: []
    timeout: 300
  # with a key of its own
  keyed: {enabled: true, type: stdio, cmd: x, env_keys: [API_KEY]}
  goose-web:
    enabled: false
    type: streamable_http
    name: goose-web
    uri: https://w.example.com/mcp
GOOSE_MODEL: claude
"#,
        &["developer", "keyed"],
    ),
];

fn write_every_client(scene: &Sandbox) {
    for (_, path, text, _) in CLIENTS {
        scene.write(path, text);
    }
}

/// Every file below the home and its content, without Switchboard's own.
fn client_files(scene: &Sandbox) -> Vec<(String, String)> {
    CLIENTS.iter().map(|(_, path, ..)| ((*path).to_owned(), scene.read(path))).collect()
}

#[test]
fn each_client_is_adopted_once_and_restored_byte_for_byte() {
    for (client, path, text, remaining) in CLIENTS {
        let scene = scene_with_swb();
        scene.write(path, text);
        let plan = json(&scene, &["adopt", client, "--dry-run", "--json"]);
        let file = &plan["files"][0];
        assert_eq!(file["program"], client);
        let names = |list: &serde_json::Value| -> Vec<String> {
            let list = list.as_array().expect("a list").iter();
            list.map(|it| it["name"].as_str().expect("a name").to_owned()).collect()
        };
        let moved = [format!("{client}-db"), format!("{client}-web")];
        assert_eq!(names(&file["servers"]), moved, "{client}");
        let mut stay = names(&file["remaining"]);
        stay.sort();
        assert_eq!(stay, remaining, "{client}");
        assert!(!plan.to_string().contains("hunter"), "{client} shows a secret: {plan:#}");
        assert_eq!(scene.read(path), text, "a dry run changes nothing");
        assert!(!scene.path(USER).exists() && !scene.path("~/.local/state").exists());

        let ran = scene.swb(&["adopt", client, "--yes"]);
        let shown = ran.expect_success();
        assert!(shown.contains("2 servers moved"), "{shown}");
        assert!(!shown.contains("hunter") && !ran.stderr.contains("hunter"), "{shown}");
        let adopted = scene.read(path);
        for name in remaining {
            assert!(adopted.contains(name), "{client}: {adopted}");
        }
        assert!(adopted.contains("switchboard") && adopted.contains("--pool"), "{adopted}");
        assert!(!adopted.contains("hunter") && !adopted.contains("-web"), "{adopted}");
        let listed = states(&scene, &[]);
        assert_eq!(listed.len(), 2, "{client}: {listed:?}");
        assert!(scene.read(USER).contains("hunter2hunter2"));

        let again = scene.swb(&["adopt", client, "--yes"]);
        assert!(again.expect_success().contains("Nothing was changed."), "{}", again.stdout);
        assert_eq!(scene.read(path), adopted);

        let undone = scene.swb(&["adopt", "--undo", client]);
        assert!(undone.expect_success().contains("restored byte for byte"), "{}", undone.stdout);
        assert_eq!(scene.read(path), text, "{client}");
        assert_eq!(
            json(&scene, &["adopt", "status", "--json"])["adoptions"],
            serde_json::json!([])
        );
        assert!(!scene.read(USER).contains("-db"), "{}", scene.read(USER));
    }
}

#[test]
fn without_names_every_client_that_is_found_is_adopted() {
    let scene = scene_with_swb();
    write_every_client(&scene);
    let before = client_files(&scene);
    let ran = scene.swb(&["adopt", "--yes", "--secrets", "file"]);
    assert_eq!(ran.expect_success().matches("Adopted ").count(), 10, "{}", ran.stdout);
    assert!(ran.stderr.contains("stored 11 secrets in files that only you can read"), "{ran:?}");
    assert!(!scene.read(USER).contains("hunter"));
    assert_eq!(states(&scene, &[]).len(), 20);
    let status = json(&scene, &["adopt", "status", "--json"]);
    let adoptions = status["adoptions"].as_array().expect("a list");
    assert_eq!(adoptions.len(), 10);
    for adoption in adoptions {
        assert_eq!(adoption["state"], "unchanged");
        let backup = Path::new(adoption["backup"].as_str().expect("a path"));
        let path = backup.to_string_lossy().replace("[ROOT]", &scene.root().to_string_lossy());
        let mode = std::fs::metadata(path).expect("a backup").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", backup.display());
    }
    scene.swb(&["adopt", "--undo"]).expect_success();
    assert_eq!(client_files(&scene), before);
    assert_eq!(scene.swb(&["adopt", "--undo"]).expect_success(), "No client is adopted.\n");
}

#[test]
fn the_plan_shows_what_moves_what_stays_and_the_difference_without_secrets() {
    let scene = scene_with_swb();
    let (_, path, text, _) = CLIENTS[2];
    scene.write(path, text);
    insta::assert_snapshot!(scene.swb(&["adopt", "--dry-run"]).expect_success());
    let refused = scene.swb(&["adopt"]);
    let message = refused.expect_failure(2);
    assert!(message.contains("confirmation needs a terminal"), "{message}");
    assert_eq!(scene.read(path), text);
}

#[test]
fn at_a_terminal_the_user_confirms_and_chooses_what_happens_to_secrets_and_approvals() {
    let scene = scene_with_swb();
    let (_, path, text, _) = CLIENTS[2];
    scene.write(path, text);
    let mut terminal = Terminal::start(&scene.command(&scene.project(), &["adopt", "cursor"]));
    terminal.wait_for_output("Change 1 file? [y/N] ").send_keys("n\r");
    assert_eq!(terminal.wait_for_exit().0, 0);
    assert_eq!(scene.read(path), text);
    let mut terminal = Terminal::start(&scene.command(&scene.project(), &["adopt", "cursor"]));
    terminal.wait_for_output("Change 1 file? [y/N] ").send_keys("y\r");
    terminal.wait_for_output("the tool `mcp__cursor-db__query`");
    terminal.wait_for_output("Approve them in Switchboard too? [y/N] ").send_keys("y\r");
    terminal.wait_for_output("keep them in the settings (Enter)? ").send_keys("f\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    let settings = scene.read(USER);
    assert!(
        settings.contains("mcp__cursor-db__query") && !settings.contains("hunter"),
        "{settings}"
    );
    scene.swb(&["adopt", "--undo"]).expect_success();
    assert!(!scene.read(USER).contains("cursor-db"), "{}", scene.read(USER));
    assert_eq!(scene.read(path), text);
}

#[test]
fn approvals_are_taken_over_only_if_the_user_says_so() {
    let scene = scene_with_swb();
    let (_, path, text, _) = CLIENTS[5];
    scene.write(path, text);
    let ran = scene.swb(&["adopt", "gemini", "--yes"]);
    ran.expect_success();
    assert!(ran.stderr.contains("1 approval of the clients not taken over"), "{}", ran.stderr);
    assert!(!scene.read(USER).contains("trust"), "{}", scene.read(USER));
    scene.swb(&["adopt", "--undo"]).expect_success();
    scene.swb(&["adopt", "gemini", "--yes", "--carry-approvals"]).expect_success();
    assert!(scene.read(USER).contains("\"trust\": true"), "{}", scene.read(USER));
}

#[test]
fn a_program_that_is_not_on_the_search_path_is_named_by_its_path() {
    let scene = scene();
    let (_, path, text, _) = CLIENTS[4];
    scene.write(path, text);
    scene.swb(&["adopt", "codex", "--yes"]).expect_success();
    let program = program().canonicalize().expect("the program");
    let entry = format!("command = \"{}\"\nargs = [\"serve\", \"--pool\"]", program.display());
    assert!(scene.read(path).contains(&entry), "{}", scene.read(path));
    // The entry is recognized later, by `import` too.
    let again = scene.swb(&["adopt", "codex", "--yes"]);
    assert!(again.expect_success().contains("has `switchboard`, which runs Switchboard"));
    let imported = scene.swb(&["import", "codex", "--dry-run"]);
    assert!(imported.expect_success().contains("`switchboard` was skipped"), "{}", imported.stdout);
}

#[test]
fn changes_since_the_adoption_are_kept_or_the_undo_is_refused() {
    let scene = scene_with_swb();
    let (_, path, text, _) = CLIENTS[0];
    scene.write(path, text);
    scene.swb(&["adopt", "claude-code", "--yes"]).expect_success();
    let adopted = scene.read(path);
    // The client counts its starts in the same file.
    scene.write(path, &adopted.replace("\"numStartups\": 12", "\"numStartups\": 13"));
    let status = scene.swb(&["adopt", "status"]);
    assert!(status.expect_success().contains("changed"), "{}", status.stdout);
    let undone = scene.swb(&["adopt", "--undo"]);
    assert!(undone.expect_success().contains("changes made since are kept"), "{}", undone.stdout);
    assert_eq!(scene.read(path), text.replace("\"numStartups\": 12", "\"numStartups\": 13"));

    scene.write(path, text);
    scene.swb(&["adopt", "claude-code", "--yes"]).expect_success();
    let changed = scene.read(path).replace("\"--pool\"", "\"--pool\", \"--sharing\", \"session\"");
    scene.write(path, &changed);
    let settings = scene.read(USER);
    let refused = scene.swb(&["adopt", "--undo"]);
    let message = refused.expect_failure(6);
    assert!(message.contains("changed since the adoption, so nothing was restored"), "{message}");
    assert!(message.contains("--force"), "{message}");
    assert_eq!((scene.read(path), scene.read(USER)), (changed.clone(), settings));
    scene.swb(&["adopt", "--undo", "--force"]).expect_success();
    assert_eq!(scene.read(path), text);
    let replaced =
        scene.path("~/.local/state/switchboard/adopt/1-claude-code-.claude.json.replaced");
    assert_eq!(std::fs::read_to_string(replaced).expect("a copy"), changed);
}

#[test]
fn an_undo_leaves_servers_that_were_changed_or_that_another_client_uses() {
    let scene = scene_with_swb();
    let server = r#"{"mcpServers": {"one": {"command": "one"}, "two": {"command": "two"}}}"#;
    scene.write("~/.cursor/mcp.json", server).write("~/.codeium/windsurf/mcp_config.json", server);
    scene.swb(&["adopt", "--yes"]).expect_success();
    scene.swb(&["adopt", "--undo", "cursor"]).expect_success();
    assert_eq!(states(&scene, &[]).len(), 2, "windsurf still uses both");
    scene.write(USER, &scene.read(USER).replace("\"two\"\n", "\"two\", \"timeout\": 5\n"));
    let undone = scene.swb(&["adopt", "--undo"]);
    undone.expect_success();
    assert!(undone.stderr.contains("`two` was changed since; it stays"), "{}", undone.stderr);
    assert_eq!(states(&scene, &[]).len(), 1);
    assert_eq!(scene.read("~/.codeium/windsurf/mcp_config.json"), server);
}

#[test]
fn servers_of_one_project_go_to_the_local_scope_and_disabled_ones_stay_disabled() {
    let scene = scene_with_swb();
    let project = scene.project().display().to_string();
    let text = format!(
        r#"{{"mcpServers": {{"shared": {{"command": "x"}}}}, "projects": {{"{project}": {{"mcpServers": {{"ours": {{"command": "y"}}}}, "disabledMcpServers": ["ours", "shared"]}}}}}}"#
    );
    scene.write("~/.claude.json", &text);
    scene.swb(&["adopt", "claude-code", "--yes"]).expect_success();
    let local = local_settings(&scene);
    let settings = std::fs::read_to_string(&local).expect("local settings");
    assert!(settings.contains("\"ours\"") && settings.contains("disabledMcpServers"), "{settings}");
    assert_eq!(states(&scene, &[]), ["ours local disabled", "shared user disabled"]);
    scene.swb(&["adopt", "--undo"]).expect_success();
    assert_eq!(scene.read("~/.claude.json"), text);
    let settings = std::fs::read_to_string(&local).expect("local settings");
    assert!(!settings.contains("ours") && !settings.contains("shared"), "{settings}");
}

#[test]
fn a_file_of_the_project_is_changed_only_on_request_and_its_servers_need_approval() {
    let scene = scene_with_swb();
    let text = "{\n  \"mcpServers\": {\n    \"team\": { \"command\": \"x\" }\n  }\n}\n";
    scene.write(".cursor/mcp.json", text);
    let left = scene.swb(&["adopt", "--yes"]);
    assert!(left.expect_success().contains("--project changes it too"), "{}", left.stdout);
    assert_eq!(scene.read(".cursor/mcp.json"), text);
    scene.swb(&["adopt", "--yes", "--project"]).expect_success();
    assert!(scene.read(".cursor/mcp.json").contains("\"command\": \"swb\""));
    assert_eq!(states(&scene, &[]), ["team project pending"]);
    scene.swb(&["adopt", "--undo"]).expect_success();
    assert_eq!(scene.read(".cursor/mcp.json"), text);
    scene.swb(&["adopt", "--yes", "--project", "--carry-approvals"]).expect_success();
    assert_eq!(states(&scene, &[]), ["team project ready"]);
}

#[test]
fn a_link_stays_and_its_target_is_changed() {
    let scene = scene_with_swb();
    let (_, path, text, _) = CLIENTS[7];
    scene.write("~/dotfiles/zed.json", text);
    std::fs::create_dir_all(scene.path("~/.config/zed")).expect("a folder");
    symlink("../../dotfiles/zed.json", scene.path(path)).expect("a link");
    scene.swb(&["adopt", "zed", "--yes"]).expect_success();
    assert!(scene.path(path).symlink_metadata().expect("a link").is_symlink());
    assert!(scene.read("~/dotfiles/zed.json").contains("--pool"));
    scene.swb(&["adopt", "--undo"]).expect_success();
    assert!(scene.path(path).symlink_metadata().expect("a link").is_symlink());
    assert_eq!(scene.read("~/dotfiles/zed.json"), text);
}

#[test]
fn a_malformed_file_is_named_with_its_line_and_nothing_is_changed() {
    for (path, text, position) in [
        (
            "~/.cursor/mcp.json",
            "{\n  \"mcpServers\": {\n    \"a\": {}\n    \"b\": {}\n",
            "mcp.json:3:",
        ),
        ("~/.codex/config.toml", "a = 1\n[mcp_servers.x\n", "config.toml:2:"),
        ("~/.config/goose/config.yaml", "a: 1\nextensions: [\n", "config.yaml:"),
    ] {
        let scene = scene_with_swb();
        let (_, other, good, _) = CLIENTS[8];
        scene.write(other, good).write(path, text);
        let failed = scene.swb(&["adopt", "--yes"]);
        let message = failed.expect_failure(3);
        assert!(message.contains(position) && message.contains("nothing was changed"), "{message}");
        assert_eq!((scene.read(other), scene.read(path)), (good.to_owned(), text.to_owned()));
        assert!(!scene.path(USER).exists());
    }
}

#[test]
fn under_an_enterprise_lock_nothing_is_adopted_or_restored() {
    let scene = scene_with_swb();
    let (_, path, text, _) = CLIENTS[3];
    scene.write(path, text);
    scene.swb(&["adopt", "--yes"]).expect_success();
    let adopted = scene.read(path);
    scene.write("managed/managed-mcp.json", r#"{"mcpServers": {}}"#);
    for words in [&["adopt", "--yes"][..], &["adopt", "--dry-run"], &["adopt", "--undo", "--force"]]
    {
        let failed = scene.swb(words);
        let message = failed.expect_failure(4);
        let lock =
            "enterprise MCP configuration is active and has exclusive control over MCP servers";
        assert!(message.contains(lock), "{message}");
        assert_eq!(scene.read(path), adopted);
    }
}

#[test]
fn a_named_client_without_a_file_gets_one_and_loses_it_again() {
    let scene = scene_with_swb();
    let missing = scene.swb(&["adopt", "zed", "--yes"]);
    let message = missing.expect_failure(5);
    assert!(message.contains("no configuration of Zed was found"), "{message}");
    std::fs::create_dir_all(scene.path("~/.config/zed")).expect("a folder");
    scene.swb(&["adopt", "zed", "--yes"]).expect_success();
    assert!(scene.read("~/.config/zed/settings.json").contains("context_servers"));
    scene.swb(&["adopt", "--undo", "zed"]).expect_success();
    assert!(!scene.path("~/.config/zed/settings.json").exists());
}

#[test]
fn a_different_server_of_the_same_name_stays_with_the_client() {
    let scene = scene_with_swb();
    scene.write_servers(USER, r#""db": {"command": "mine"}"#);
    scene.write_servers(
        "~/.cursor/mcp.json",
        r#""db": {"command": "theirs"}, "same": {"command": "s"}"#,
    );
    let ran = scene.swb(&["adopt", "--yes"]);
    let shown = ran.expect_success();
    let reason = "db stays there: the user scope has a different server of that name";
    assert!(shown.contains(reason), "{shown}");
    let file = scene.read("~/.cursor/mcp.json");
    assert!(file.contains("theirs") && !file.contains("\"same\""), "{file}");
}
