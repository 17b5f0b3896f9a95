//! Edits of configuration files by many processes at once, and by processes that are killed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Stdio;
use std::time::Duration;

use switchboard_config::document::Document;

use crate::support::{USER, local_settings, scene};

#[test]
fn many_processes_add_at_once_and_none_is_lost() {
    for scope in ["user", "local", "project"] {
        let scene = scene();
        let names: Vec<String> = (0..24).map(|n| format!("s{n}")).collect();
        let children: Vec<_> = names
            .iter()
            .map(|name| {
                scene
                    .command(&scene.project(), &["add", "--scope", scope, name, "--", "x"])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("the program can be run")
            })
            .collect();
        for mut child in children {
            assert!(child.wait().expect("it ends").success());
        }
        let listed = crate::support::states(&scene, &[]);
        assert_eq!(listed.len(), 24, "{scope}: {listed:?}");
    }
}

/// Kills the program repeatedly around the time at which it writes. The delay grows when the program was killed too
/// early and shrinks when it had finished, so that it converges on any machine.
#[test]
fn a_killed_process_leaves_the_old_file_or_the_new_one() {
    let scene = scene();
    let server = |n: u32| format!("    \"old{n}\": {{\"command\": \"x\"}} /* kept {n} */");
    let filler: Vec<String> = (0..300).map(server).collect();
    let text =
        format!("// begins\n{{\n  \"mcpServers\": {{\n{}\n  }}\n}} // ends\n", filler.join(",\n"));
    scene.write(USER, &text);
    let (mut finished, mut cut_short) = (0, 0);
    let mut delay = Duration::from_millis(2);
    for round in 0..400 {
        let name = format!("new{round}");
        let before = scene.read(USER);
        let mut child = scene
            .command(&scene.project(), &["add", "-s", "user", &name, "--", "x"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program can be run");
        std::thread::sleep(delay); // waits for another process
        let _already_ended = child.kill();
        let ended_by_itself = child.wait().expect("it ends").success();
        let after = scene.read(USER);
        assert!(after.starts_with("// begins\n") && after.ends_with("// ends\n"), "{after}");
        Document::parse(&after).expect("it is still JSON");
        if after == before {
            assert!(!ended_by_itself, "it said yes and wrote nothing");
            cut_short += 1;
            delay = delay.mul_f64(1.05);
        } else {
            assert_eq!(after.matches(&format!("\"{name}\"")).count(), 1);
            assert_eq!(after.matches("/* kept").count(), 300);
            finished += 1;
            delay = delay.mul_f64(0.85);
        }
        if finished >= 20 && cut_short >= 60 {
            break;
        }
    }
    assert!(finished > 0 && cut_short > 0, "{finished} finished, {cut_short} were cut short");
    scene.swb(&["add", "-s", "user", "last", "--", "x"]).expect_success();
    let folder = scene.path("~/.config/switchboard");
    let left: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|it| it.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["settings.json"], "drafts of killed processes are swept");
}

#[test]
fn permissions_links_and_other_bytes_are_preserved() {
    let scene = scene();
    scene.write(
        "~/dotfiles/settings.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}, \"unknown\": [1,  2]}",
    );
    let real = scene.path("~/dotfiles/settings.json");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("rights");
    fs::create_dir_all(scene.path("~/.config/switchboard")).expect("a folder");
    symlink("../../dotfiles/settings.json", scene.path(USER)).expect("a link");
    let owner = real.metadata().expect("it is there").uid();
    scene.swb(&["add", "-s", "user", "b", "--", "y"]).expect_success();
    let metadata = real.metadata().expect("it is there");
    assert_eq!((metadata.permissions().mode() & 0o777, metadata.uid()), (0o640, owner));
    assert!(scene.path(USER).symlink_metadata().expect("it is there").is_symlink());
    assert_eq!(
        scene.read(USER),
        "{\"mcpServers\": {\"a\": {\"command\": \"x\"}, \"b\": {\"type\": \"stdio\", \"command\": \"y\"}}, \"unknown\": [1,  2]}"
    );
}

#[test]
fn an_invalid_file_is_not_changed() {
    let scene = scene();
    scene.write(USER, "{\"mcpServers\": {");
    let ran = scene.swb(&["add", "-s", "user", "s", "--", "x"]);
    assert!(
        ran.expect_failure(3).contains("the file is not valid JSON, so it was not changed"),
        "{}",
        ran.to_snapshot()
    );
    assert_eq!(scene.read(USER), "{\"mcpServers\": {");
    scene.write(USER, "{\"mcpServers\": []}");
    scene.swb(&["add", "-s", "user", "s", "--", "x"]).expect_failure(3);
    assert_eq!(scene.read(USER), "{\"mcpServers\": []}");
}

#[test]
fn a_full_disk_leaves_existing_files_unchanged() {
    let scene = scene();
    scene.swb(&["add", "s", "--", "x"]).expect_success();
    let file = local_settings(&scene);
    let before = fs::read_to_string(&file).expect("it is there");
    let script = "ulimit -f 0; trap '' XFSZ; exec \"$0\" add t -- y";
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", script])
        .arg(crate::support::program())
        .current_dir(scene.project())
        .env_clear();
    command
        .env("HOME", scene.home())
        .env("SWB_TESTBED_MANAGED", scene.managed())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.output().expect("bash can be run");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), before);
}

#[test]
fn a_link_out_of_the_project_is_not_written_through() {
    let scene = scene();
    scene.write_servers(USER, r#""u": {"command": "x"}"#);
    let before = scene.read(USER);
    symlink(scene.path(USER), scene.path(".mcp.json")).expect("a link");
    let ran = scene.swb(&["add", "-s", "project", "s", "--", "x"]);
    assert!(
        ran.expect_failure(3).contains("is a symbolic link that leads out of the project"),
        "{}",
        ran.to_snapshot()
    );
    scene.swb(&["remove", "u", "--scope", "project"]).expect_failure(3);
    assert_eq!(scene.read(USER), before);
}
