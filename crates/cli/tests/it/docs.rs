//! The documentation says what the program does: reference pages are compared, and walks are walked.
//! With `SWB_BLESS=1` the files are written anew; look at what changed before you commit it.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{MANAGED_DIR, Sandbox};

use crate::support::{program, scene};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn should_bless() -> bool {
    std::env::var_os("SWB_BLESS").is_some()
}

#[track_caller]
fn compare(path: &Path, expected: &str) {
    if should_bless() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, expected).expect("the page can be written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(found, expected, "{} is out of date: run `cargo xtask docs`", path.display());
}

#[test]
fn docs_reference_pages_are_what_the_program_says() {
    for (name, text) in swb_cli::reference::pages() {
        compare(&docs().join("reference").join(name), &text);
    }
}

#[test]
fn docs_walk_through_the_configuration_is_what_happens() {
    check_page(&docs().join("configuration.md"));
}

#[test]
fn docs_first_steps_are_what_happens() {
    check_page(&docs().join("first-steps.md"));
}

#[test]
fn docs_commands_of_the_readme_print_what_it_says() {
    check_page(&docs().join("../README.md"));
}

#[test]
fn docs_walk_through_permissions_is_what_happens() {
    check_page(&docs().join("permissions.md"));
}

#[test]
fn docs_questions_without_a_person_are_what_happens() {
    check_page(&docs().join("questions.md"));
}

#[test]
fn docs_walk_through_the_workspace_is_what_happens() {
    check_page(&docs().join("workspace.md"));
}

/// Runs every command of the page's `console` blocks in order, in one home, and puts in what it really printed.
#[track_caller]
fn check_page(page: &Path) {
    let text = std::fs::read_to_string(page).expect("the page is there");
    let scene = scene();
    let bin = scene.home().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(program(), bin.join("swb")).expect("a link");
    let mut walked = String::new();
    let mut block: Option<Vec<&str>> = None;
    let mut commands = 0;
    for line in text.lines() {
        match &mut block {
            None => {
                walked.push_str(&format!("{line}\n"));
                if line == "```console" {
                    block = Some(Vec::new());
                }
            }
            Some(lines) if line == "```" => {
                for command in commands_in(lines) {
                    commands += 1;
                    walked.push_str(&format!(
                        "{}{}",
                        with_shell_prompt(&command),
                        run(&scene, &bin, &command)
                    ));
                }
                walked.push_str("```\n");
                block = None;
            }
            Some(lines) => lines.push(line),
        }
    }
    assert!(commands > 0, "{} has no commands", page.display());
    compare(page, &walked);
}

/// The commands of a block: lines behind `$ `, and behind `> ` what goes on.
fn commands_in(lines: &[&str]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.to_owned());
            goes_on = true;
        } else if let (Some(more), true) = (line.strip_prefix("> "), goes_on) {
            let last = commands.last_mut().expect("a command goes on");
            last.push_str(&format!("\n{more}"));
        } else {
            goes_on = false;
        }
    }
    commands
}

fn with_shell_prompt(command: &str) -> String {
    format!("$ {}\n", command.replace('\n', "\n> "))
}

/// `/etc/switchboard` is the scene's administrator's folder here, and `sudo` does nothing special.
fn run(scene: &Sandbox, bin: &Path, command: &str) -> String {
    let managed = scene.managed().display().to_string();
    let script = command.replace("sudo ", "").replace(MANAGED_DIR, &managed);
    let mut shell = Command::new("bash");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    shell.args(["-c", &format!("exec 2>&1\n{script}")]).current_dir(scene.project()).env_clear();
    shell.env("HOME", scene.home()).env("PATH", path).env("SWB_TESTBED_MANAGED", &managed);
    let output = shell.output().expect("bash can be run");
    let ran = scene.normalized_output(output.status.code(), &output.stdout, &output.stderr);
    let mut text = ran.stdout.replace("[ROOT]/person", "~");
    if ran.code != 0 && command.contains("swb") {
        text.push_str(&format!("[exit code {}]\n", ran.code));
    }
    text
}
