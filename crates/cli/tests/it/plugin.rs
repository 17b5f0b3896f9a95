//! `swb plugin`: marketplaces in folders and git repositories, installing, configuring, approving, updating and removing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value as Json, json as value};
use testkit::{Sandbox, Terminal};

use crate::support::{USER, json, local_settings, scene, wait_for};

const SERVER: &str = "plugin:notes:search";
const FILE_SECRETS: [&str; 2] = ["--secrets", "file"];

/// The marketplace of the guide.
pub fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/plugins/lab")
}

/// Copies a folder of the fixture.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in from.read_dir().expect("a folder").map(|it| it.expect("an entry")) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => {
                fs::copy(entry.path(), target).expect("a file");
            }
        }
    }
}

/// Name, scope and state of every server that a project or a plugin defines.
#[track_caller]
pub fn states(scene: &Sandbox, more: &[&str]) -> Vec<String> {
    let all = crate::support::states(scene, more);
    all.into_iter().filter(|it| !it.contains(" dynamic ")).collect()
}

/// A sandbox with the marketplace in `lab` of the project.
fn with_marketplace() -> Sandbox {
    let scene = scene();
    copy_folder(&fixture(), &scene.path("lab"));
    scene
}

/// The same, with the marketplace added.
fn with_lab() -> Sandbox {
    let scene = with_marketplace();
    scene.swb(&["plugin", "marketplace", "add", "./lab"]).expect_success();
    scene
}

/// A sandbox in which the plugin is installed, configured and approved.
fn with_notes() -> Sandbox {
    let scene = with_lab();
    let arguments = ["plugin", "install", "notes@lab", "--config", "folder=~/notes", "--yes"];
    scene.swb(&arguments).expect_success();
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin ready")]);
    scene
}

/// What the plugin's server says about itself.
#[track_caller]
fn show(scene: &Sandbox) -> Json {
    let ran = scene.swb(&["call", "mcp__plugin_notes_search__show", "--mode", "bypass"]);
    serde_json::from_str(ran.expect_success()).expect("the tool returns JSON")
}

/// Changes a file of the marketplace in the project.
fn edit(scene: &Sandbox, file: &str, from: &str, to: &str) {
    let text = scene.read(file);
    assert!(text.contains(from), "{file}: {text}");
    scene.write(file, &text.replace(from, to));
}

const MANIFEST: &str = "lab/plugins/notes/.claude-plugin/plugin.json";

/// Runs git in a folder of the sandbox.
pub fn git(scene: &Sandbox, folder: &Path, arguments: &[&str]) -> String {
    let ran = Command::new("git")
        .args([
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.com",
            "-c",
            "commit.gpgsign=false",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("HOME", scene.home())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git starts");
    let shown = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "git {arguments:?}: {shown}");
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

/// Makes a repository of a folder, and returns its URL.
pub fn repository(scene: &Sandbox, folder: &Path) -> String {
    git(scene, folder, &["init", "--quiet", "--initial-branch=main"]);
    commit(scene, folder);
    url::Url::from_file_path(folder).expect("an absolute path").to_string()
}

/// Commits everything in a repository, and returns the commit.
pub fn commit(scene: &Sandbox, folder: &Path) -> String {
    git(scene, folder, &["add", "--all"]);
    git(scene, folder, &["commit", "--quiet", "--allow-empty", "--message=change"]);
    git(scene, folder, &["rev-parse", "HEAD"])
}

/// No file of an installation that was refused, and no draft.
#[track_caller]
pub fn expect_nothing_left(scene: &Sandbox) {
    let store = scene.path("~/.local/share/switchboard/installed-plugins");
    let left: Vec<String> = walk(&store)
        .into_iter()
        .filter(|it| it.contains("/cache/") || it.contains(".draft-"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    assert!(!scene.path(USER).exists() || !scene.read(USER).contains("@lab"));
}

/// Every file below a folder.
pub fn walk(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|it| it.is_dir()) {
            true => found.extend(walk(&entry.path())),
            false => found.push(entry.path().display().to_string()),
        }
    }
    found
}

#[test]
fn a_plugin_of_a_folder_is_installed_configured_approved_called_changed_and_removed() {
    let scene = with_lab();
    let installed = scene.swb(&["plugin", "install", "notes@lab"]);
    installed.expect_success();
    assert!(installed.stdout.contains("Installed notes@lab 1.2.0 for you"), "{}", installed.stdout);
    assert!(installed.stderr.contains("not used here: its skills"), "{}", installed.stderr);
    // A missing option is a state with the command that mends it, in every command.
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin needs-config")]);
    let hint = "swb plugin configure plugin:notes:search folder=VALUE";
    assert!(
        scene.swb(&["get", SERVER]).stdout.contains(hint),
        "{}",
        scene.swb(&["get", SERVER]).stdout
    );
    assert!(scene.swb(&["list"]).stderr.contains("swb plugin configure plugin:notes:search"));
    let configure = ["plugin", "configure", SERVER, "folder=~/notes", "token=hunter2$HOME"];
    scene.swb(&[&configure[..], &FILE_SECRETS].concat()).expect_success();
    assert!(!scene.read(USER).contains("hunter2"), "{}", scene.read(USER));
    // Nothing runs before the approval.
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin pending")]);
    let refused = scene.swb(&["call", "mcp__plugin_notes_search__show", "--mode", "bypass"]);
    assert!(refused.expect_failure(7).contains("swb approve"), "{}", refused.to_snapshot());
    let shown = scene.swb(&["get", SERVER]);
    assert!(
        shown.stdout.contains("[ROOT]/person/project/lab/plugins/notes/server.py"),
        "{}",
        shown.stdout
    );
    scene.swb(&["approve", SERVER]).expect_success();
    let data = "[ROOT]/person/.local/share/switchboard/installed-plugins/data/lab/notes";
    assert_eq!(
        show(&scene),
        value!({
            "CLAUDE_PLUGIN_ROOT": "[ROOT]/person/project/lab/plugins/notes",
            "CLAUDE_PLUGIN_DATA": data,
            "CLAUDE_PROJECT_DIR": "[ROOT]/person/project",
            "NOTES_TOKEN": "hunter2$HOME",
            "args": ["[ROOT]/person/notes"],
            "data": true,
        })
    );
    // The folder is read in place: a changed definition asks again, the same one in another version does not.
    edit(&scene, MANIFEST, "1.2.0", "1.3.0");
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin ready")]);
    edit(&scene, MANIFEST, "\"NOTES_TOKEN\"", "\"LD_PRELOAD\": \"x.so\", \"NOTES_TOKEN\"");
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin pending")]);
    let updated = scene.swb(&["plugin", "update", "notes@lab"]);
    assert!(
        updated.expect_success().contains("Updated notes@lab from 1.2.0 to 1.3.0"),
        "{}",
        updated.stdout
    );
    assert!(
        updated.stdout.contains("plugin:notes:search changed since you approved it"),
        "{}",
        updated.stdout
    );
    assert!(scene.swb(&["get", SERVER]).stdout.contains("LD_PRELOAD"));
    // Uninstalling leaves nothing.
    scene.swb(&["plugin", "uninstall", "notes@lab"]).expect_success();
    assert_eq!(states(&scene, &[]), Vec::<String>::new());
    let settings = scene.read(USER);
    assert!(!settings.contains("notes"), "{settings}");
    assert!(!scene.path("~/.local/share/switchboard/installed-plugins/data/lab/notes").exists());
    let secrets = scene.path("~/.config/switchboard/secrets");
    assert_eq!(walk(&secrets), Vec::<String>::new());
    assert!(!scene.read("~/.local/state/switchboard/approvals.json").contains("notes"));
}

#[test]
fn a_plugin_of_a_repository_is_updated_and_asks_again_only_when_its_definition_changed() {
    let scene = with_marketplace();
    let folder = scene.path("lab");
    let url = repository(&scene, &folder);
    let added = scene.swb(&["plugin", "marketplace", "add", &url]);
    assert!(
        added.expect_success().contains("Added the marketplace `lab` with 2 plugins"),
        "{}",
        added.stdout
    );
    scene
        .swb(&["plugin", "install", "notes@lab", "--config", "folder=/n", "--yes"])
        .expect_success();
    let root = show(&scene)["CLAUDE_PLUGIN_ROOT"].as_str().expect("a path").to_owned();
    assert!(root.ends_with("installed-plugins/cache/lab/notes/1.2.0"), "{root}");
    // Until the update, nothing of the repository counts.
    edit(&scene, MANIFEST, "1.2.0", "2.0.0");
    commit(&scene, &folder);
    assert!(show(&scene)["CLAUDE_PLUGIN_ROOT"].as_str().expect("a path").ends_with("1.2.0"));
    let updated = scene.swb(&["plugin", "update", "notes@lab"]);
    assert!(updated.expect_success().contains("from 1.2.0 to 2.0.0"), "{}", updated.stdout);
    assert!(show(&scene)["CLAUDE_PLUGIN_ROOT"].as_str().expect("a path").ends_with("2.0.0"));
    edit(&scene, MANIFEST, "\"${user_config.folder}\"", "\"${user_config.folder}\", \"--all\"");
    edit(&scene, MANIFEST, "2.0.0", "2.1.0");
    commit(&scene, &folder);
    let updated = scene.swb(&["plugin", "update"]);
    assert!(
        updated.expect_success().contains("changed since you approved it"),
        "{}",
        updated.stdout
    );
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin pending")]);
    scene.swb(&["approve", SERVER]).expect_success();
    assert_eq!(show(&scene)["args"], value!(["/n", "--all"]));
    scene.swb(&["plugin", "marketplace", "remove", "lab"]).expect_success();
    assert_eq!(states(&scene, &[]), Vec::<String>::new());
    expect_nothing_left(&scene);
}

#[test]
fn sources_in_repositories_are_fetched_by_branch_folder_and_commit() {
    let scene = with_marketplace();
    let repo = scene.path("~/repo");
    copy_folder(&scene.path("lab/plugins"), &repo);
    let url = repository(&scene, &repo);
    let first = git(&scene, &repo, &["rev-parse", "HEAD"]);
    fs::write(repo.join("notes/late.txt"), "x").expect("a file");
    git(&scene, &repo, &["checkout", "--quiet", "-b", "next"]);
    commit(&scene, &repo);
    let entry = |name: &str, more: Json| {
        let mut entry =
            value!({"name": name, "source": {"source": "git-subdir", "url": url, "path": "notes"}});
        for (key, value) in more.as_object().expect("an object") {
            entry["source"][key] = value.clone();
        }
        entry
    };
    let marketplace = value!({"name": "lab", "owner": {"name": "A"}, "plugins": [
        entry("by-branch", value!({"ref": "next"})),
        entry("by-commit", value!({"sha": first})),
        entry("no-branch", value!({"ref": "nowhere"})),
        entry("no-folder", value!({"path": "nowhere"})),
    ]});
    scene.write("lab/.claude-plugin/marketplace.json", &marketplace.to_string());
    scene.swb(&["plugin", "marketplace", "add", "./lab"]).expect_success();
    let late = |name: &str| {
        scene.swb(&["plugin", "install", &format!("{name}@lab")]).expect_success();
        let root = scene
            .path(&format!("~/.local/share/switchboard/installed-plugins/cache/lab/{name}/1.2.0"));
        assert!(root.join("server.py").exists() && !root.join(".git").exists());
        root.join("late.txt").exists()
    };
    assert!(late("by-branch"));
    assert!(!late("by-commit"));
    // What git itself says is shown.
    let failed = scene.swb(&["plugin", "install", "no-branch@lab"]);
    let text = failed.expect_failure(10);
    assert!(text.contains("git: fatal: couldn't find remote ref nowhere"), "{text}");
    let failed = scene.swb(&["plugin", "install", "no-folder@lab"]);
    assert!(failed.expect_failure(3).contains("there is no folder `nowhere`"), "{}", failed.stderr);
}

#[test]
fn a_failed_update_leaves_the_old_marketplace_and_shows_what_git_says() {
    let scene = with_marketplace();
    let folder = scene.path("lab");
    let url = repository(&scene, &folder);
    scene.swb(&["plugin", "marketplace", "add", &url]).expect_success();
    fs::rename(&folder, scene.path("gone")).expect("it is moved");
    let failed = scene.swb(&["plugin", "marketplace", "update", "lab"]);
    let text = failed.expect_failure(10);
    assert!(
        text.contains(
            "git: fatal: '[ROOT]/person/project/lab' does not appear to be a git repository"
        ),
        "{text}"
    );
    let listed = json(&scene, &["plugin", "list", "--available", "--json"]);
    assert_eq!(listed["available"].as_array().expect("a list").len(), 2);
    let found = json(&scene, &["plugin", "marketplace", "list", "--json"]);
    assert_eq!(found["marketplaces"][0]["state"], "ok");
}

#[test]
fn a_renamed_plugin_is_found_by_its_old_name_and_follows_on_update() {
    let scene = with_lab();
    let installed = json(&scene, &["plugin", "install", "notebook@lab", "--json"]);
    assert_eq!(installed["installed"], "notes@lab");
    edit(
        &scene,
        "lab/.claude-plugin/marketplace.json",
        "\"name\": \"notes\"",
        "\"name\": \"jotter\"",
    );
    edit(
        &scene,
        "lab/.claude-plugin/marketplace.json",
        "\"notebook\": \"notes\"",
        "\"notes\": \"jotter\"",
    );
    let listed = scene.swb(&["plugin", "list"]);
    assert!(
        listed.stderr.contains("the marketplace does not list the plugin"),
        "{}",
        listed.to_snapshot()
    );
    let updated = scene.swb(&["plugin", "update", "notes@lab"]);
    assert!(
        updated.expect_success().contains("notes@lab is called jotter@lab now"),
        "{}",
        updated.stdout
    );
    assert_eq!(states(&scene, &[]), ["plugin:jotter:search plugin needs-config"]);
}

#[test]
fn a_renamed_plugin_keeps_its_switches_its_values_and_its_secrets() {
    let scene = with_lab();
    let install =
        ["plugin", "install", "notes@lab", "--config", "folder=/n", "--config", "token=hunter2"];
    scene.swb(&[&install[..], &FILE_SECRETS].concat()).expect_success();
    scene.swb(&["plugin", "disable", "notes@lab", "--scope", "local"]).expect_success();
    // The user knew the new name already.
    let settings = scene.read(USER);
    let settings = settings.replacen(
        "\"pluginConfigs\": {",
        "\"pluginConfigs\": {\"jotter@lab\": {\"options\": {\"folder\": \"/typed\"}},",
        1,
    );
    scene.write(USER, &settings);
    let market = "lab/.claude-plugin/marketplace.json";
    edit(&scene, market, "\"name\": \"notes\"", "\"name\": \"jotter\"");
    edit(&scene, market, "\"notebook\": \"notes\"", "\"notes\": \"jotter\"");
    scene.swb(&["plugin", "update", "notes@lab"]).expect_success();
    assert_eq!(states(&scene, &[]), Vec::<String>::new(), "it is still disabled here");
    scene.swb(&["plugin", "enable", "jotter@lab", "--scope", "local"]).expect_success();
    scene.swb(&["approve", "plugin:jotter:search"]).expect_success();
    let ran = scene.swb(&["call", "mcp__plugin_jotter_search__show", "--mode", "bypass"]);
    let shown: Json = serde_json::from_str(ran.expect_success()).expect("the tool returns JSON");
    assert_eq!((&shown["args"], &shown["NOTES_TOKEN"]), (&value!(["/typed"]), &value!("hunter2")));
    scene.swb(&["plugin", "uninstall", "jotter@lab"]).expect_success();
    assert_eq!(walk(&scene.path("~/.config/switchboard/secrets")), Vec::<String>::new());
    assert!(!scene.read(USER).contains("@lab"), "{}", scene.read(USER));
}

#[test]
fn an_installation_that_is_refused_changes_nothing_that_runs() {
    let scene = with_marketplace();
    let folder = scene.path("lab");
    let url = repository(&scene, &folder);
    scene.swb(&["plugin", "marketplace", "add", &url]).expect_success();
    let install = ["plugin", "install", "notes@lab", "--config", "folder=/n", "--yes"];
    scene.swb(&install).expect_success();
    let store = scene.path("~/.local/share/switchboard/installed-plugins");
    let bundles = || json(&scene, &["bundle", "list", "--json"])["bundles"].clone();
    let script = store.join("cache/lab/notes/1.2.0/server.py");
    let before = fs::read_to_string(&script).expect("it is installed");
    // The same version with other files, and with a bundle.
    edit(&scene, "lab/plugins/notes/server.py", "\"data\"", "\"other\"");
    edit(&scene, MANIFEST, "\"mcpServers\": {", "\"mcpServers\": [\"./packed.mcpb\", {");
    edit(
        &scene,
        MANIFEST,
        "\"${user_config.token}\" }\n    }\n  },",
        "\"${user_config.token}\" }\n    }\n  }],",
    );
    let bundle = include_bytes!("bundles/notes.mcpb");
    fs::write(scene.path("lab/plugins/notes/packed.mcpb"), bundle).expect("a file");
    commit(&scene, &folder);
    scene.swb(&["plugin", "marketplace", "update"]).expect_success();
    let refused = scene.swb(&["plugin", "install", "notes@lab", "--config", "floder=/x"]);
    assert!(refused.expect_failure(2).contains("did you mean `folder`?"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&script).expect("it is there"), before);
    assert_eq!(bundles(), value!([]));
    scene.swb(&install).expect_success();
    assert!(fs::read_to_string(&script).expect("it is there").contains("other"));
    assert_eq!(bundles().as_array().map(Vec::len), Some(1));
    let left = walk(&store).into_iter().filter(|it| it.contains(".draft-"));
    assert_eq!(left.count(), 0);
}

/// Starts the program, and kills it as soon as a file below a folder is there whose path contains a text.
fn kill_when(scene: &Sandbox, arguments: &[&str], folder: &Path, text: &str) {
    let mut command = scene.command(&scene.project(), arguments);
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    wait_for(|| walk(folder).iter().any(|it| it.contains(text)));
    child.kill().expect("it runs");
    let ended = child.wait().expect("it ends");
    assert!(!ended.success(), "it was interrupted");
}

#[test]
fn an_interrupted_installation_leaves_what_was_there_and_its_files_are_removed_later() {
    let mut scene = with_marketplace();
    let folder = scene.path("lab");
    let url = repository(&scene, &folder);
    scene.swb(&["plugin", "marketplace", "add", &url]).expect_success();
    let install = ["plugin", "install", "notes@lab", "--config", "folder=/n", "--yes"];
    scene.swb(&install).expect_success();
    let before = show(&scene);
    edit(&scene, MANIFEST, "1.2.0", "2.0.0");
    commit(&scene, &folder);
    // A git that never ends once it has fetched something.
    let bin = scene.path("~/bin");
    fs::create_dir_all(&bin).expect("a folder");
    let script = "#!/bin/sh\nfor word; do case $word in fetch) slow=1;; esac; done\n\
                  PATH=${PATH#*:}\nexport PATH\ngit \"$@\" || exit\n\
                  if test \"$slow\"; then touch \"$PWD/fetched\"; parent=$PPID\n\
                  while kill -0 $parent 2>/dev/null; do sleep 0.1; done; fi\n";
    fs::write(bin.join("git"), script).expect("a file");
    make_executable(&bin.join("git"));
    let path = std::env::var("PATH").expect("a search path");
    scene.set_env("PATH", &format!("{}:{path}", bin.display()));
    let store = scene.path("~/.local/share/switchboard/installed-plugins");
    for arguments in [&["plugin", "update"][..], &["plugin", "marketplace", "update"], &install] {
        kill_when(&scene, arguments, &store, "repository/fetched");
        assert_eq!(show(&scene), before, "{arguments:?}");
        let drafts: Vec<PathBuf> = store
            .read_dir()
            .expect("a folder")
            .flatten()
            .map(|it| it.path())
            .filter(|it| it.to_string_lossy().contains(".draft-"))
            .collect();
        assert_eq!(drafts.len(), 1, "{arguments:?}");
        let long_ago =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        fs::File::open(&drafts[0]).expect("a folder").set_modified(long_ago).expect("a time");
    }
    fs::remove_file(bin.join("git")).expect("it is there");
    let updated = scene.swb(&["plugin", "update"]);
    assert!(updated.expect_success().contains("from 1.2.0 to 2.0.0"), "{}", updated.stdout);
    let left = walk(&store).into_iter().filter(|it| it.contains(".draft-"));
    assert_eq!(left.count(), 0);
}

#[cfg(unix)]
fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

#[test]
fn a_plugin_that_asks_for_trust_is_shown_with_that() {
    let scene = with_lab();
    edit(&scene, MANIFEST, "\"command\": \"python3\"", "\"trust\": true, \"command\": \"python3\"");
    let installed = scene.swb(&["plugin", "install", "notes@lab", "--config", "folder=/n"]);
    let warning = "Warning:      once approved, its tools run without a prompt (`trust: true`)";
    assert!(installed.expect_success().contains(warning), "{}", installed.stdout);
}

#[test]
fn no_password_of_a_repository_is_printed_or_written_for_everyone() {
    let scene = with_lab();
    let url = "https://ada:hunter2@git.example/tools.git";
    let offer = value!({"tools": {"source": {"source": "git", "url": url}}});
    scene.write(USER, &value!({"extraKnownMarketplaces": offer}).to_string());
    let known = "~/.local/share/switchboard/known_marketplaces.json";
    let state = scene.path("~/.local/share/switchboard");
    let known = match scene.path(known).exists() {
        true => scene.path(known),
        false => PathBuf::from(
            walk(&state)
                .into_iter()
                .find(|it| it.ends_with("known_marketplaces.json"))
                .expect("one is known"),
        ),
    };
    let text = fs::read_to_string(&known).expect("a file");
    let mut json_of_known: Json = serde_json::from_str(&text).expect("JSON");
    let mut other = json_of_known["lab"].clone();
    other["source"] = value!({"source": "git", "url": url});
    json_of_known["private"] = other;
    fs::write(&known, json_of_known.to_string()).expect("a file");
    for arguments in [&["--json"][..], &[]] {
        let all = [&["plugin", "marketplace", "list"][..], arguments].concat();
        let ran = scene.swb(&all);
        assert!(ran.expect_success().contains("git.example/tools.git"), "{}", ran.to_snapshot());
        assert!(!ran.to_snapshot().contains("hunter2"), "{}", ran.to_snapshot());
    }
    let refused = scene.swb(&["plugin", "marketplace", "add", url, "--scope", "project"]);
    assert!(
        refused.expect_failure(2).contains("the URL contains a password"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_plugin_cannot_start_an_installed_bundle_with_variables_of_its_own() {
    let scene = with_lab();
    let bundle = include_bytes!("bundles/notes.mcpb");
    fs::write(scene.path("notes.mcpb"), bundle).expect("a file");
    scene.swb(&["bundle", "install", "notes.mcpb"]).expect_success();
    let hash = json(&scene, &["bundle", "list", "--json"])["bundles"][0]["hash"]
        .as_str()
        .expect("a hash")
        .to_owned();
    scene.write("~/secret", "hunter2");
    let values = value!({"folders": ["/n"], "token": "${file:~/secret}"});
    let entry = value!({"bundle": hash, "userConfig": values, "env": {"T": "${cmd:touch canary}"}});
    let inline = value!({"name": "notes", "mcpServers": {"inline": entry}});
    scene.write(MANIFEST, &inline.to_string());
    scene.write("lab/plugins/notes/.mcp.json", &value!({"file": entry}).to_string());
    let installed = scene.swb(&["plugin", "install", "notes@lab", "--yes"]);
    installed.expect_success();
    assert_eq!(
        states(&scene, &[]),
        ["plugin:notes:file plugin invalid", "plugin:notes:inline plugin invalid"]
    );
    for name in ["file", "inline"] {
        let got = scene.swb(&["get", &format!("plugin:notes:{name}")]);
        let shown = got.to_snapshot();
        assert!(shown.contains("a plugin may not name an installed bundle"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert!(!scene.path("canary").exists());
}

#[test]
fn a_plugin_is_installed_for_a_project_and_removed_from_one_scope_at_a_time() {
    let scene = with_lab();
    let install = |scope: &str| {
        let arguments =
            ["plugin", "install", "notes@lab", "--config", "folder=/n", "--scope", scope];
        scene.swb(&arguments).expect_success().to_owned()
    };
    assert!(install("project").contains("for everyone in this project"));
    assert!(scene.read(".mcp.json").contains("notes@lab"), "{}", scene.read(".mcp.json"));
    assert!(install("local").contains("for you, in this project"));
    let local = fs::read_to_string(local_settings(&scene)).expect("a file");
    assert!(local.contains("notes@lab"), "{local}");
    assert!(!scene.read(USER).contains("\"notes@lab\": true"), "{}", scene.read(USER));
    // Elsewhere it is not used.
    let elsewhere = scene.home().join("elsewhere");
    fs::create_dir_all(&elsewhere).expect("a folder");
    let listed = scene.command(&elsewhere, &["list", "--all", "--json"]).output().expect("it runs");
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("plugin:notes"));
    let several = scene.swb(&["plugin", "uninstall", "notes@lab"]);
    let text = several.expect_failure(6);
    assert!(text.contains("is installed in several scopes: project, local"), "{text}");
    let wrong = scene.swb(&["plugin", "uninstall", "notes@lab", "--scope", "user"]);
    assert!(
        wrong.expect_failure(5).contains("is not installed in the user scope"),
        "{}",
        wrong.stderr
    );
    let removed = scene.swb(&["plugin", "uninstall", "notes@lab", "--scope", "project"]);
    assert_eq!(removed.expect_success(), "Removed notes@lab from the project scope\n");
    assert!(!scene.read(".mcp.json").contains("notes@lab"), "{}", scene.read(".mcp.json"));
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin pending")]);
    scene.swb(&["plugin", "uninstall", "notes@lab", "--scope", "local"]).expect_success();
    assert_eq!(states(&scene, &[]), Vec::<String>::new());
}

#[test]
fn the_nearest_scope_decides_and_a_disabled_plugin_stays_installed() {
    let scene = with_notes();
    scene.swb(&["plugin", "disable", "notes@lab", "--scope", "local"]).expect_success();
    assert_eq!(states(&scene, &[]), Vec::<String>::new());
    let listed = json(&scene, &["plugin", "list", "--json"]);
    assert_eq!(listed["plugins"][0]["state"], "disabled");
    // Another project is not affected.
    let other = scene.home().join("other");
    fs::create_dir_all(other.join(".git")).expect("a folder");
    let elsewhere = scene.swb_in(&other, &["list", "--json"]);
    assert!(elsewhere.expect_success().contains("\"state\": \"ready\""), "{}", elsewhere.stdout);
    let text = fs::read_to_string(local_settings(&scene)).expect("a file");
    assert!(text.contains("\"notes@lab\": false"), "{text}");
    scene.swb(&["plugin", "enable", "notes@lab", "--scope", "local"]).expect_success();
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin ready")]);
}

#[test]
fn a_project_that_enables_a_plugin_runs_nothing_before_its_approval() {
    for file in [".claude/settings.json", ".claude/settings.local.json", ".mcp.json"] {
        let scene = with_notes();
        scene.swb(&["plugin", "disable", "notes@lab", "--scope", "user"]).expect_success();
        scene.write(
            file,
            r#"{"enabledPlugins": {"notes@lab": true, "ghost@lab": true, "x@far": true},
                "extraKnownMarketplaces": {"far": {"source": {"source": "github", "repo": "far/away"}}}}"#,
        );
        assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin pending")], "{file}");
        scene
            .swb(&["call", "mcp__plugin_notes_search__show", "--mode", "bypass"])
            .expect_failure(7);
        let listed = scene.swb(&["plugin", "list"]);
        assert!(listed.stdout.contains("the project"), "{}", listed.to_snapshot());
        assert!(
            listed.stderr.contains("enables it: swb plugin install ghost@lab"),
            "{}",
            listed.stderr
        );
        let markets = scene.swb(&["plugin", "marketplace", "list"]);
        assert!(
            markets.stderr.contains("offers the marketplace `far` (github far/away)"),
            "{}",
            markets.stderr
        );
        // The approval is of this project's file, and can be taken back with its other choices.
        scene.swb(&["approve", SERVER]).expect_success();
        assert_eq!(show(&scene)["args"], value!(["[ROOT]/person/notes"]));
        scene.swb(&["reset-project-choices"]).expect_success();
        assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin pending")], "{file}");
        // A user's own word is nearer than the project's.
        scene.swb(&["plugin", "disable", "notes@lab"]).expect_success();
        assert_eq!(states(&scene, &[]), Vec::<String>::new(), "{file}");
        let local = fs::read_to_string(local_settings(&scene)).expect("a file");
        assert!(local.contains("\"notes@lab\": false"), "{local}");
        // Uninstalling takes back what was approved for the project, too.
        scene.swb(&["plugin", "enable", "notes@lab", "--scope", "local"]).expect_success();
        scene.swb(&["plugin", "disable", "notes@lab", "--scope", "user"]).expect_success();
        fs::remove_file(local_settings(&scene)).expect("it is there");
        scene.swb(&["approve", SERVER]).expect_success();
        let approvals = "~/.local/state/switchboard/approvals.json";
        assert!(scene.read(approvals).contains(SERVER), "{}", scene.read(approvals));
        scene.swb(&["plugin", "uninstall", "notes@lab"]).expect_success();
        assert!(!scene.read(approvals).contains(SERVER), "{}", scene.read(approvals));
    }
}

#[test]
fn the_three_folders_are_exported_whatever_folder_the_settings_are_in() {
    let mut scene = with_marketplace();
    let elsewhere = scene.home().join("else where");
    scene.set_env("SWITCHBOARD_CONFIG_DIR", &elsewhere.display().to_string());
    scene.set_env("CLAUDE_CONFIG_DIR", &scene.home().join("third").display().to_string());
    scene.swb(&["plugin", "marketplace", "add", "./lab"]).expect_success();
    scene
        .swb(&["plugin", "install", "notes@lab", "--config", "folder=/n", "--yes"])
        .expect_success();
    let shown = show(&scene);
    assert_eq!(shown["CLAUDE_PLUGIN_ROOT"], "[ROOT]/person/project/lab/plugins/notes");
    assert_eq!(shown["CLAUDE_PROJECT_DIR"], "[ROOT]/person/project");
    let data = "[ROOT]/person/else where/data/installed-plugins/data/lab/notes";
    assert_eq!((&shown["CLAUDE_PLUGIN_DATA"], &shown["data"]), (&value!(data), &value!(true)));
}

#[test]
fn values_of_options_in_a_project_do_not_count() {
    let scene = with_lab();
    scene.swb(&["plugin", "install", "notes@lab"]).expect_success();
    let text = r#"{"pluginConfigs": {"notes@lab": {"options": {"folder": "/etc"}}}}"#;
    for file in [".mcp.json", ".claude/settings.json"] {
        scene.write(file, text);
    }
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin needs-config")]);
}

#[test]
fn a_changed_option_that_the_user_types_keeps_the_approval() {
    let scene = with_notes();
    scene.swb(&["plugin", "configure", "notes@lab", "folder=/elsewhere"]).expect_success();
    assert_eq!(show(&scene)["args"], value!(["/elsewhere"]));
    // The same change by another program asks again.
    let text = scene.read(USER).replace("/elsewhere", "/third");
    scene.write(USER, &text);
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin pending")]);
    let bad = scene.swb(&["plugin", "configure", "notes@lab", "floder=/x"]);
    assert!(bad.expect_failure(2).contains("did you mean `folder`?"), "{}", bad.stderr);
}

#[test]
fn an_administrator_decides_about_marketplaces_and_servers() {
    let scene = with_notes();
    let blocked =
        value!({"blockedMarketplaces": [{"source": "pathPattern", "pathPattern": "lab$"}]});
    scene.write("managed/managed-settings.json", &blocked.to_string());
    assert_eq!(states(&scene, &[]), Vec::<String>::new());
    let listed = scene.swb(&["plugin", "list"]);
    assert!(
        listed.stderr.contains("`blockedMarketplaces` in /etc/switchboard/managed-settings.json"),
        "{}",
        listed.stderr
    );
    scene.swb(&["plugin", "update"]).expect_failure(4);
    scene.swb(&["plugin", "install", "clock@lab"]).expect_failure(4);
    scene.write("managed/managed-settings.json", r#"{"strictKnownMarketplaces": []}"#);
    assert_eq!(states(&scene, &[]), Vec::<String>::new());
    scene.swb(&["plugin", "marketplace", "add", "./lab"]).expect_failure(4);
    scene.write(
        "managed/managed-settings.json",
        r#"{"deniedMcpServers": [{"serverName": "plugin:notes:search"}]}"#,
    );
    assert_eq!(states(&scene, &[]), [format!("{SERVER} plugin refused")]);
    let why = scene.swb(&["policy", "why", SERVER]);
    assert!(why.stdout.contains("managed-settings.json"), "{}", why.to_snapshot());
    scene.write("managed/managed-settings.json", r#"{"enabledPlugins": {"notes@lab": false}}"#);
    assert_eq!(states(&scene, &[]), Vec::<String>::new());
    scene.write("managed/managed-mcp.json", r#"{"mcpServers": {}}"#);
    for arguments in [
        &["plugin", "install", "clock@lab"][..],
        &["plugin", "uninstall", "notes@lab"],
        &["plugin", "marketplace", "add", "./lab"],
    ] {
        let refused = scene.swb(arguments);
        assert!(refused.expect_failure(4).contains("exclusive control"), "{}", refused.stderr);
    }
}

#[test]
fn every_form_of_servers_in_a_manifest_is_read_and_the_root_file_always() {
    let scene = with_lab();
    let bundle = include_bytes!("bundles/notes.mcpb");
    fs::write(scene.path("lab/plugins/notes/packed.mcpb"), bundle).expect("a file");
    scene.write(
        MANIFEST,
        r#"{"name": "notes", "mcpServers": ["./more.json", "./packed.mcpb", {"inline": {"command": "c"}}]}"#,
    );
    scene.write(
        "lab/plugins/notes/more.json",
        r#"{"mcpServers": {"file": {"command": "f"}, "root": {"command": "r2"}}}"#,
    );
    scene.write("lab/plugins/notes/.mcp.json", r#"{"root": {"command": "r"}}"#);
    scene.swb(&["plugin", "install", "notes@lab", "--yes"]).expect_success();
    assert_eq!(
        states(&scene, &[]),
        [
            "plugin:notes:file plugin ready",
            "plugin:notes:inline plugin ready",
            "plugin:notes:notes plugin needs-config",
            "plugin:notes:root plugin ready",
        ]
    );
    let root = scene.swb(&["get", "plugin:notes:root"]);
    assert!(root.stdout.contains("r2"), "{}", root.stdout);
    let configure = ["plugin", "configure", "plugin:notes:notes", "folders=/a", "token=t"];
    scene.swb(&[&configure[..], &FILE_SECRETS].concat()).expect_success();
    let packed = json(&scene, &["get", "plugin:notes:notes", "--json"]);
    assert_eq!(packed["definitions"][0]["state"], "pending", "{packed}");
    // Removing the plugin removes its bundle.
    scene.swb(&["plugin", "uninstall", "notes@lab"]).expect_success();
    assert_eq!(json(&scene, &["bundle", "list", "--json"])["bundles"], value!([]));
}

#[test]
fn an_entry_that_is_not_strict_is_everything() {
    let scene = with_marketplace();
    let entry = value!({"name": "lab", "owner": {"name": "A"}, "plugins": [
        {"name": "notes", "source": "./plugins/notes", "strict": false, "mcpServers": {"own": {"command": "o"}}},
        {"name": "plain", "source": "./plain", "strict": false, "version": "7", "mcpServers": {"own": {"command": "${CLAUDE_PLUGIN_ROOT}/run"}}},
        {"name": "clock", "source": "./plugins/clock", "mcpServers": {"more": {"command": "m"}}, "defaultEnabled": false},
    ]});
    scene.write("lab/.claude-plugin/marketplace.json", &entry.to_string());
    scene.write("lab/plain/readme", "x");
    scene.swb(&["plugin", "marketplace", "add", "./lab"]).expect_success();
    let refused = scene.swb(&["plugin", "install", "notes@lab"]);
    assert!(
        refused.expect_failure(3).contains("the plugin's own manifest has components"),
        "{}",
        refused.stderr
    );
    let plain = json(&scene, &["plugin", "install", "plain@lab", "--yes", "--json"]);
    assert_eq!(
        (&plain["version"], &plain["servers"][0]["name"]),
        (&value!("7"), &value!("plugin:plain:own"))
    );
    scene.swb(&["plugin", "install", "clock@lab", "--yes"]).expect_success();
    assert_eq!(
        states(&scene, &[]),
        [
            "plugin:clock:clock plugin ready",
            "plugin:clock:more plugin ready",
            "plugin:plain:own plugin ready"
        ]
    );
}

#[test]
fn a_plugin_is_used_for_one_run_from_a_folder_and_from_an_archive() {
    let scene = with_marketplace();
    let folder = ["--plugin-dir", "lab/plugins/clock"];
    let listed = json(&scene, &[&["list", "--json"][..], &folder].concat());
    assert_eq!(listed["servers"][0]["name"], "plugin:clock:clock");
    assert_eq!(listed["servers"][0]["state"], "ready");
    let both = scene.swb(&["list", "--plugin-dir-no-mcp", "lab/plugins/clock"]);
    assert!(!both.stdout.contains("plugin:clock"), "{}", both.stdout);
    assert!(!scene.swb(&["list"]).stdout.contains("plugin:clock"));
    zip_folder(&scene.path("lab/plugins/clock"), &scene.path("clock.zip"));
    let zipped = json(&scene, &["list", "--json", "--plugin-dir", "clock.zip"]);
    assert_eq!(zipped["servers"][0]["name"], "plugin:clock:clock");
    let missing = scene.swb(&["list", "--plugin-dir", "nowhere"]);
    assert!(
        missing.expect_failure(2).contains("--plugin-dir: nowhere cannot be used"),
        "{}",
        missing.stderr
    );
}

/// Packs a folder with one folder around it, as code hosts do.
fn zip_folder(folder: &Path, to: &Path) {
    let script = "import os, sys, zipfile\n\
        z = zipfile.ZipFile(sys.argv[2], 'w')\n\
        for at, _, names in os.walk(sys.argv[1]):\n\
        \x20   for name in names:\n\
        \x20       p = os.path.join(at, name)\n\
        \x20       z.write(p, 'around/' + os.path.relpath(p, sys.argv[1]))\n\
        z.close()\n";
    let ran = Command::new("python3").arg("-c").arg(script).args([folder, to]).status();
    assert!(ran.expect("python starts").success());
}

#[test]
fn rules_for_a_plugin_s_server_apply_to_no_server_that_looks_alike() {
    let scene = with_notes();
    scene.write("lab/plugins/notes/.mcp.json", r#"{"plugin_x": {"command": "x"}}"#);
    scene.write_servers(
        ".mcp.json",
        r#""plugin_notes_search": {"command": "x"}, "plugin:notes:search": {"command": "x"}"#,
    );
    let states = states(&scene, &[]);
    assert!(states.contains(&format!("{SERVER} plugin ready")), "{states:?}");
    assert!(states.contains(&"plugin_notes_search project invalid".to_owned()), "{states:?}");
    assert!(states.contains(&format!("{SERVER} project invalid")), "{states:?}");
    let decision = |tool: &str| {
        let explained =
            json(&scene, &["permissions", "explain", tool, "--mode", "dontAsk", "--json"]);
        explained["decision"].as_str().map(str::to_owned)
    };
    // Names that look alike, and the ones of the entries that are refused.
    let others = [
        "mcp__plugin_notes_plugin_x__show",
        "mcp__plugin_notes__search__show",
        "mcp__plugin_notes_searching__show",
        "mcp__notes__show",
    ];
    let tool = "mcp__plugin_notes_search__show";
    assert_ne!(decision(tool).as_deref(), Some("allow"));
    let before = others.map(decision);
    scene
        .swb(&["permissions", "add", "allow", "mcp__plugin_notes_search__*", "--scope", "user"])
        .expect_success();
    assert_eq!(decision(tool).as_deref(), Some("allow"));
    assert_eq!(others.map(decision), before);
    assert!(!before.contains(&Some("allow".to_owned())), "{before:?}");
    let ran = scene.swb(&["call", tool, "--mode", "dontAsk"]);
    ran.expect_success();
}

#[test]
fn plugins_of_claude_code_are_imported_without_approving_them() {
    let scene = with_marketplace();
    let lab = scene.path("lab").display().to_string();
    copy_folder(&scene.path("lab"), &scene.path("~/.claude/plugins/marketplaces/far"));
    let far = scene.path("~/.claude/plugins/marketplaces/far");
    let text = fs::read_to_string(far.join(".claude-plugin/marketplace.json")).expect("a file");
    fs::write(far.join(".claude-plugin/marketplace.json"), text.replace("\"lab\"", "\"far\""))
        .expect("a file");
    scene.write(
        "~/.claude/plugins/known_marketplaces.json",
        &value!({
            "lab": {"source": {"source": "directory", "path": lab}, "installLocation": lab, "lastUpdated": "x"},
            "far": {"source": {"source": "github", "repo": "far/away"}, "installLocation": far, "lastUpdated": "x"},
            "odd": {"source": {"source": "command"}},
        })
        .to_string(),
    );
    let cached = scene.path("~/.claude/plugins/cache/far/clock/0.3.0");
    copy_folder(&scene.path("lab/plugins/clock"), &cached);
    scene.write(
        "~/.claude/plugins/installed_plugins.json",
        &value!({"version": 2, "plugins": {
            "notes@lab": [{"scope": "user", "installPath": scene.path("lab/plugins/notes"), "version": "1.2.0"}],
            "clock@far": [{"scope": "user", "installPath": cached, "version": "0.3.0"}],
            "x@odd": [{"scope": "user", "installPath": "/nowhere"}],
        }})
        .to_string(),
    );
    scene.write(
        "~/.claude/settings.json",
        r#"{"enabledPlugins": {"notes@lab": true, "clock@far": true}}"#,
    );
    let plan = scene.swb(&["plugin", "import", "--dry-run"]);
    insta::assert_snapshot!(plan.expect_success(), @r"
    marketplace lab from lab
    marketplace far from github far/away
    plugin notes@lab (enabled)
    plugin clock@far (enabled)
    left out odd: the kind of source is unknown
    left out x@odd: its marketplace is not imported
    Nothing was written.
    ");
    assert_eq!(states(&scene, &[]), Vec::<String>::new());
    scene.swb(&["plugin", "import", "--yes"]).expect_success();
    assert_eq!(
        states(&scene, &[]),
        ["plugin:clock:clock plugin pending", "plugin:notes:search plugin needs-config"]
    );
    // What was imported does not depend on the other program.
    fs::remove_dir_all(scene.path("~/.claude")).expect("it is removed");
    assert_eq!(states(&scene, &[]).len(), 2);
}

#[test]
fn a_plugin_and_a_marketplace_are_validated_for_their_authors() {
    let scene = with_marketplace();
    let valid = scene.swb(&["plugin", "validate", "lab"]);
    insta::assert_snapshot!(valid.expect_success(), @r"
    Marketplace lab with 2 plugins
    notes: notes with 1 server: plugin:notes:search
    clock: clock with 1 server: plugin:clock:clock
    lab is valid
    ");
    scene.write(MANIFEST, r#"{"name": "notes", "mcpServers": "../x.json"}"#);
    let invalid = scene.swb(&["plugin", "validate", "lab/plugins/notes"]);
    assert_eq!(invalid.code, 3, "{}", invalid.to_snapshot());
    assert!(
        invalid.stdout.contains("a path in `mcpServers` cannot be used: it contains `..`"),
        "{}",
        invalid.stdout
    );
    let as_json = scene.swb(&["plugin", "validate", "lab", "--json"]);
    let found: Json = serde_json::from_str(&as_json.stdout).expect("it is JSON");
    assert_eq!((&found["valid"], &found["kind"]), (&value!(false), &value!("marketplace")));
}

#[test]
fn every_action_has_json_and_says_what_it_did() {
    let scene = with_marketplace();
    let added =
        json(&scene, &["plugin", "marketplace", "add", "./lab", "--json", "--scope", "user"]);
    assert_eq!((&added["added"], &added["plugins"]), (&value!("lab"), &value!(2)));
    assert!(scene.read(USER).contains("extraKnownMarketplaces"));
    let installed = json(&scene, &["plugin", "install", "clock", "--json"]);
    assert_eq!(installed["servers"][0]["state"], "pending");
    let details = json(&scene, &["plugin", "details", "clock", "--json"]);
    assert_eq!((&details["version"], &details["scopes"]), (&value!("0.3.0"), &value!(["user"])));
    let offered = json(&scene, &["plugin", "details", "notes@lab", "--json"]);
    assert_eq!(
        (&offered["state"], &offered["source"]),
        (&value!("available"), &value!("./plugins/notes"))
    );
    let disabled = json(&scene, &["plugin", "disable", "clock@lab", "--json"]);
    assert_eq!(disabled["inUse"], false);
    let enabled = json(&scene, &["plugin", "enable", "clock@lab", "--json"]);
    assert_eq!(enabled["inUse"], true);
    let updated = json(&scene, &["plugin", "update", "--yes", "--json"]);
    assert_eq!(updated["updated"][0]["servers"][0]["state"], "ready");
    let removed = json(&scene, &["plugin", "uninstall", "clock@lab", "--keep-data", "--json"]);
    assert_eq!(removed["dataKept"], true);
    assert!(scene.path("~/.local/share/switchboard/installed-plugins/data/lab/clock").exists());
    let removed = json(&scene, &["plugin", "marketplace", "remove", "lab", "--json"]);
    assert_eq!(removed["removed"], "lab");
    assert!(!scene.read(USER).contains("lab"), "{}", scene.read(USER));
    for arguments in [
        &["plugin", "install", "x@nowhere"][..],
        &["plugin", "uninstall", "x@y"],
        &["plugin", "details", "x"],
    ] {
        scene.swb(arguments).expect_failure(5);
    }
}

#[test]
fn a_user_at_a_terminal_is_asked_for_options_and_shown_what_would_run() {
    let scene = with_lab();
    let command =
        scene.command(&scene.project(), &["plugin", "install", "notes@lab", "--secrets", "file"]);
    let mut terminal = Terminal::start(&command);
    terminal.wait_for_output("Folder - Where the notes are (required): ").send_keys("/n\r");
    terminal
        .wait_for_output("Token - For notes that are shared (optional): ")
        .send_keys("hunter2\r");
    terminal.wait_for_output("May it run as shown?");
    let screen = terminal.screen();
    assert!(screen.contains("server.py"), "{screen}");
    assert!(!screen.contains("hunter2"), "a secret is typed without echo: {screen}");
    terminal.send_keys("y\r").wait_for_output("Installed notes@lab 1.2.0");
    let (code, _) = terminal.wait_for_exit();
    assert_eq!(code, 0);
    assert_eq!(show(&scene)["NOTES_TOKEN"], "hunter2");
}
