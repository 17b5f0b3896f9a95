//! The dashboard in Chromium: screens with hostile texts, login, approvals, calls from the form, keyboard, other origins.
//! `dashboard_browser.mjs` drives the browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value as Json, json};
use testkit::real_servers::{self, ServerTransport};
use testkit::scripted::quirk::Quirk;
use testkit::{Sandbox, Script, ScriptedProgram};

use crate::http_gateway::HttpGateway;
use crate::support::{USER, json as json_of, real_entry, scene};

/// Set to make the pictures of the documentation again.
const PICTURES_VARIABLE: &str = "SWB_PICTURES";
const EVIL: &str = "<img src=x onerror=globalThis.pwned=1>";

/// How many tools a server has beside the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ManyTools {
    None,
    TenThousand,
}

/// Servers with hostile names, and with hostile texts everywhere.
fn hostile_scene(many_tools: ManyTools) -> Sandbox {
    let scene = scene();
    let hostile = Script::legacy()
        .name(&format!("{EVIL}\u{202e}\u{1b}[31m"))
        .instructions(&format!("</script><script>globalThis.pwned=1</script>{EVIL}\u{202e}\u{7}"))
        .tool(EVIL)
        .tool("\u{202e}fdp.exe\u{200b}")
        .tool("\u{1b}]0;title\u{7}")
        .tool(&"very_long_name_".repeat(60))
        .quirk(Quirk::StderrLines { n: 40 });
    let taint = format!("{EVIL}\u{202e}\u{1b}[2J");
    let tainted = Script::legacy().resources(3).prompts(2).taint(&taint);
    let many = Script::legacy().tools(match many_tools {
        ManyTools::None => 0,
        ManyTools::TenThousand => 10_000,
    });
    let servers = format!(
        "\"hostile\": {}, \"tainted\": {}, \"many\": {}, \"broken\": {{\"command\": \"no-such-program\"}}",
        ScriptedProgram::config_entry(&hostile),
        ScriptedProgram::config_entry(&tainted),
        ScriptedProgram::config_entry(&many)
    );
    let permissions = json!({
        "allow": ["mcp__hostile__echo(text=free*)"],
        "deny": ["mcp__hostile__echo(text=forbidden*)"],
    });
    scene
        .write(USER, &format!("{{\"mcpServers\": {{{servers}}}, \"permissions\": {permissions}}}"));
    scene
}

fn start(scene: &Sandbox) -> HttpGateway {
    HttpGateway::start(scene, &["--pool", "--no-auth", "--ui"])
}

fn login_link(scene: &Sandbox) -> String {
    let json = json_of(scene, &["ui", "--json"]);
    json["dashboards"][0]["link"].as_str().expect("a link").to_owned()
}

#[track_caller]
fn run(scenario: &str, settings: &Json) {
    let driver = real_servers::dashboard_browser(scenario, &settings.to_string());
    let mut command = Command::new(&driver.command);
    command.args(&driver.args).env_clear().envs(driver.env.iter().cloned());
    // Chromium keeps its profile there.
    let home = tempfile::tempdir().expect("a temp folder");
    command.env("HOME", home.path()).env("TMPDIR", home.path());
    let output = command.output().expect("node can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.trim() == "done", "{scenario}:\n{text}\n{errors}");
}

/// Runs a scenario with a gateway of its own.
#[track_caller]
fn check(scenario: &str) {
    check_with(scenario, ManyTools::None);
}

#[track_caller]
fn check_with(scenario: &str, many_tools: ManyTools) {
    let scene = hostile_scene(many_tools);
    let gateway = start(&scene);
    gateway.wait_until_ready();
    let origin = format!("http://{}", gateway.address);
    run(scenario, &json!({"origin": origin, "link": login_link(&scene)}));
    gateway.terminate();
}

#[test]
fn every_screen_shows_hostile_texts_as_text_in_light_dark_and_narrow() {
    check_with("screens", ManyTools::TenThousand);
}

#[test]
fn a_login_link_works_once_in_the_browser_and_every_page_needs_the_session() {
    check("login");
}

#[test]
fn a_waiting_call_appears_in_the_page_and_goes_on_when_it_is_allowed_there() {
    check("approval");
}

#[test]
fn a_call_from_the_form_passes_the_rules() {
    check("call");
}

#[test]
fn the_dashboard_can_be_used_with_the_keyboard_alone() {
    check("keyboard");
}

#[test]
fn a_page_of_another_origin_cannot_use_the_session() {
    check("otherOrigin");
}

#[test]
fn the_page_of_a_server_follows_its_state_and_log() {
    check("server");
}

#[test]
fn pages_can_be_read_and_forms_sent_without_script() {
    check("withoutScript");
}

/// The folder of the pictures, where they are to be made again.
fn pictures_folder() -> Option<PathBuf> {
    std::env::var_os(PICTURES_VARIABLE)?;
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    Some(package.ancestors().nth(2)?.join("docs").join("pictures"))
}

#[test]
fn the_pictures_of_the_documentation_can_be_made() {
    let scene = scene();
    let entry = |server| real_entry(&server);
    let settings = json!({
        "mcpServers": {
            "everything": entry(real_servers::everything(ServerTransport::Stdio)),
            "time": entry(real_servers::time()),
            "memory": entry(real_servers::memory(&scene.path("memory.json"))),
            "postgres": {"command": "postgres-mcp"},
        },
        "permissions": {
            "allow": ["mcp__time", "mcp__everything__echo"],
            "ask": ["mcp__everything__get-sum"],
            "deny": ["mcp__memory__delete_*"],
        },
    });
    scene.write(USER, &settings.to_string());
    let gateway = start(&scene);
    gateway.wait_until_ready();
    let origin = format!("http://{}", gateway.address);
    let folder = pictures_folder();
    run("pictures", &json!({"origin": origin, "link": login_link(&scene), "folder": folder}));
    gateway.terminate();
}
