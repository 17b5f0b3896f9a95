//! The page about embedding: its examples run, and its tables name what the program knows.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;
use switchboard_chat::control::subtypes::{ACCEPTED_REQUESTS, PRINTED_FRAMES, SENT_REQUESTS};
use testkit::model_service::Reply;
use testkit::real_servers::{self, RealServer};

use crate::docs::docs;
use crate::sdk_support::{SdkRun, call, sandbox, service};
use crate::support::program;

fn page() -> String {
    std::fs::read_to_string(docs().join("embedding.md")).expect("the page exists")
}

/// The first cells of the table behind a marker, without backticks.
fn names(marker: &str) -> Vec<String> {
    let page = page();
    let (_, rest) = page.split_once(marker).expect("the marker exists");
    let rows = rest.lines().skip_while(|it| !it.starts_with("|---"));
    let rows = rows.skip(1).take_while(|it| it.starts_with('|'));
    let cells = rows.filter_map(|it| it.trim_start_matches('|').split('|').next());
    cells.map(|it| it.trim().replace('`', "")).collect()
}

#[test]
fn the_tables_name_every_request_and_every_frame() {
    let of = |list: &[(&str, &str)]| -> Vec<String> {
        list.iter().map(|(name, _)| (*name).to_owned()).collect()
    };
    assert_eq!(names("<!-- requests of the program -->"), of(ACCEPTED_REQUESTS));
    assert_eq!(names("<!-- requests of the session -->"), of(SENT_REQUESTS));
    let frames = PRINTED_FRAMES.iter().map(|(kind, subtype)| format!("{kind} {subtype}"));
    let frames: Vec<String> = frames.map(|it| it.trim_end().to_owned()).collect();
    assert_eq!(names("<!-- frames -->"), frames);
}

/// Runs an example that finds the program in the search path.
#[track_caller]
fn check(path: &Path, command: impl FnOnce(&Path) -> RealServer) {
    let text = std::fs::read_to_string(path).expect("the example exists");
    assert!(page().contains(&text), "the page and {} differ", path.display());
    let service = service([
        call("t1", "mcp__calculator__add", &json!({"a": 2, "b": 3})),
        Reply::text("It is 5."),
    ]);
    let mut sandbox = sandbox(&service);
    let programs = sandbox.root().join("programs");
    std::fs::create_dir_all(&programs).expect("a folder can be made");
    symlink(program(), programs.join("swb")).expect("a link can be made");
    let search_path = std::env::var("PATH").unwrap_or_default();
    sandbox.set_env("PATH", &format!("{}:{search_path}", programs.display()));
    let name = path.file_name().expect("an example is a file");
    let copy = sandbox.project().join(name);
    std::fs::copy(path, &copy).expect("the example can be copied");
    let mut command = command(&copy);
    // The sandbox's search path holds.
    command.env.clear();
    let observed = SdkRun::spawn(&sandbox, &command).finish();
    let expected = "hook: mcp__calculator__add\npermission: mcp__calculator__add\nresult: It is 5.";
    assert_eq!(observed.text, expected, "{}", observed.report());
    assert_eq!(observed.code, 0, "{}", observed.report());
    let sent = service.request_body(1)["messages"].to_string();
    assert!(sent.contains(r#""text":"5""#), "{sent}");
}

#[test]
fn the_example_in_python_runs() {
    check(&docs().join("examples/embed.py"), |copy| real_servers::python_script(copy, &[]));
}

#[test]
fn the_example_in_typescript_runs() {
    check(&docs().join("examples/embed.mjs"), |copy| {
        // Packages are found beside the script.
        let folder = copy.parent().expect("a file is in a folder");
        let packages = folder.join("node_modules");
        symlink(real_servers::node_packages(), packages).expect("a link can be made");
        real_servers::node_script(copy, &[])
    });
}

#[test]
fn the_example_in_rust_runs() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/embed.rs");
    check(&source, |_| {
        let examples = program().parent().map(Path::to_owned).unwrap_or_default();
        let built: PathBuf = examples.join("embed");
        RealServer { command: built.into(), args: Vec::new(), env: Vec::new() }
    });
}
