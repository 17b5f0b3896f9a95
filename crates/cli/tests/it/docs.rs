//! Checks the documentation against the program: reference pages, the output of `console` blocks, and links.
//! With `SWB_BLESS=1` the files are regenerated; review the changes before you commit them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{MANAGED_DIR, Sandbox};

use crate::plugin;
use crate::support::{program, scene};

pub fn docs() -> PathBuf {
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
fn docs_reference_pages_match_the_program() {
    for (name, text) in swb_cli::reference::pages() {
        compare(&docs().join("reference").join(name), &text);
    }
}

#[test]
fn docs_configuration_examples_match_the_program() {
    check_page(&docs().join("guide/configuration.md"));
}

#[test]
fn docs_first_steps_match_the_program() {
    check_page(&docs().join("guide/first-steps.md"));
}

#[test]
fn docs_readme_commands_match_the_program() {
    check_page(&docs().join("../README.md"));
}

#[test]
fn docs_permission_examples_match_the_program() {
    check_page(&docs().join("guide/permissions.md"));
}

#[test]
fn docs_elicitation_examples_match_the_program() {
    check_page(&docs().join("guide/elicitation.md"));
}

#[test]
fn docs_adopt_examples_match_the_program() {
    check_page(&docs().join("guide/adopt.md"));
}

#[test]
fn docs_bundles_examples_match_the_program() {
    let scene = scene();
    // Packed once with the real tool, so that its hash stays.
    let bundle = include_bytes!("bundles/notes.mcpb");
    std::fs::write(scene.path("notes.mcpb"), bundle).expect("a file");
    let bin = link_program(&scene);
    check_commands(&docs().join("guide/bundles.md"), |command| run(&scene, &bin, command));
}

#[test]
fn docs_plugins_examples_match_the_program() {
    let scene = scene();
    plugin::copy_folder(&plugin::fixture(), &scene.path("lab"));
    let team = scene.path("~/team");
    plugin::copy_folder(&plugin::fixture(), &team);
    let file = team.join(".claude-plugin/marketplace.json");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text.replace("\"lab\"", "\"team\"")).expect("a file");
    plugin::repository(&scene, &team);
    plugin::git(&scene, &scene.home(), &["clone", "--quiet", "--bare", "team", "team.git"]);
    let bin = link_program(&scene);
    // The page shows where the program is.
    let path = std::env::var_os("PATH").expect("a path");
    let found = std::env::split_paths(&path).map(|it| it.join("python3")).find(|it| it.is_file());
    let python = found.expect("python3 is installed");
    std::os::unix::fs::symlink(python, bin.join("python3")).expect("a link");
    check_commands(&docs().join("guide/plugins.md"), |command| run(&scene, &bin, command));
}

#[test]
fn docs_workspace_examples_match_the_program() {
    check_page(&docs().join("guide/workspace-server.md"));
}

/// Runs every command of the page's `console` blocks in order, in one home folder, and inserts the actual output.
#[track_caller]
fn check_page(page: &Path) {
    let scene = scene();
    let bin = link_program(&scene);
    check_commands(page, |command| run(&scene, &bin, command));
}

/// A folder of the sandbox for `PATH`, with the program as `swb`.
pub fn link_program(scene: &Sandbox) -> PathBuf {
    let bin = scene.home().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(program(), bin.join("swb")).expect("a link");
    bin
}

/// Compares the output of a page's commands with what `run` returns for each of them, in order.
#[track_caller]
pub fn check_commands(page: &Path, mut run: impl FnMut(&str) -> String) {
    let text = std::fs::read_to_string(page).expect("the page is there");
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
                    let output = run(&command);
                    walked.push_str(&format!("{}{output}", with_shell_prompt(&command)));
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

/// The commands of a block: lines that start with `$ `, with their continuation lines, which start with `> `.
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

/// Runs a command in bash. `/etc/switchboard` is replaced by the sandbox's managed folder, and `sudo` is removed.
pub fn run(scene: &Sandbox, bin: &Path, command: &str) -> String {
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

/// Pages outside `docs/` whose links are checked.
const TOP_PAGES: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

#[test]
fn docs_links_resolve() {
    let root = docs().join("..");
    let mut pages: Vec<PathBuf> = TOP_PAGES.map(|name| root.join(name)).into();
    pages.extend(pages_below(&docs()));
    let broken: Vec<String> = pages
        .iter()
        .flat_map(|page| {
            let text = std::fs::read_to_string(page).expect("the page can be read");
            let shown = page.strip_prefix(&root).unwrap_or(page).display().to_string();
            let at = move |(line, target)| format!("{shown}:{line}: {target}");
            broken_links(page, &text).into_iter().map(at).collect::<Vec<_>>()
        })
        .collect();
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn docs_links_in_code_do_not_count_and_headings_have_the_usual_anchors() {
    let text = "# `swb call`: One *call*\n## A\n## A\n```\n# not a heading [x](gone.md)\n```\n\
                `[y](gone.md)` [`z`](#a-1) [w](https://example.com) [v](gone.md) [u](#b)\n";
    let anchors = ["a", "a-1", "swb-call-one-call"].map(str::to_owned);

    assert_eq!(anchors_of(text), BTreeSet::from(anchors));
    let broken = [(7, "gone.md".to_owned()), (7, "#b".to_owned())];
    assert_eq!(broken_links(&docs().join("reference/commands.md"), text), broken);
}

/// Every Markdown file in a folder, recursively.
fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the entry can be read").path()).collect();
    paths.sort();
    let pages = paths.into_iter().flat_map(|path| match path.is_dir() {
        true => pages_below(&path),
        false => vec![path],
    });
    pages.filter(|path| path.extension().is_some_and(|it| it == "md")).collect()
}

/// The relative links of a page whose file or heading does not exist, with their line numbers.
fn broken_links(page: &Path, text: &str) -> Vec<(usize, String)> {
    let folder = page.parent().expect("a page is in a folder");
    let resolves = |target: &str| {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { page.to_owned() } else { folder.join(file) };
        let anchors = || match file.is_empty() {
            true => anchors_of(text),
            false => std::fs::read_to_string(&path).map(|it| anchors_of(&it)).unwrap_or_default(),
        };
        path.exists() && (anchor.is_empty() || anchors().contains(anchor))
    };
    let mut broken = Vec::new();
    for (number, line) in prose(text) {
        // Odd pieces are inline code.
        for piece in line.split('`').step_by(2) {
            let targets = piece.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let relative = targets.filter(|target| !target.contains("://"));
            let unresolved = relative.filter(|target| !resolves(target));
            broken.extend(unresolved.map(|target| (number, target.to_owned())));
        }
    }
    broken
}

/// The anchors that GitHub generates for the headings of a page.
fn anchors_of(text: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some((_, title)) = line.split_once("# ").filter(|(marks, _)| is_heading(marks)) else {
            continue;
        };
        let kept = |it: &char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_');
        let anchor: String =
            title.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
        let seen = times.entry(anchor.clone()).or_default();
        anchors.insert(match *seen {
            0 => anchor,
            more => format!("{anchor}-{more}"),
        });
        *seen += 1;
    }
    anchors
}

fn is_heading(marks: &str) -> bool {
    marks.len() < 6 && marks.bytes().all(|it| it == b'#')
}

/// The lines outside fenced code blocks, with their line numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}
