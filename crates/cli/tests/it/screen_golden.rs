//! Snapshots of every part of the screen, at two terminal sizes. With `SWB_PICTURES=1` screenshots of the smaller one
//! and a recording of the demo are written to `docs/pictures`: `cargo xtask pictures`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use testkit::model_service::{API_KEY, Reply, ReplyPart};
use testkit::{ModelService, Sandbox, Screenshot, Size, Terminal};

use crate::screen_start::screen;
use crate::support::{USER, scene};

const ANSWER: &str = "The notebook is **empty**. What others write down:\n\n| note | kind | how often |\n|---|---|--:|\n\
    | buy tea | errand | 12 |\n| call *Grace* | people | 3 |\n\nTo write one from a script:\n\n```sh\n# never prompts; your rules decide\n\
    swb call mcp__demo__add_note text='buy tea'\n```\n";

fn pictures() -> Option<PathBuf> {
    std::env::var_os("SWB_PICTURES")?;
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures"))
}

fn write(name: &str, svg: &str) {
    if let Some(folder) = pictures() {
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{name}.svg")), svg).expect("a picture");
    }
}

/// Waits for a stable screen, compares it with the snapshot, and takes a screenshot.
#[track_caller]
fn golden(terminal: &mut Terminal, name: &str, size: Size) {
    let screen = settled(&terminal.stable_screen());
    let Size { columns, rows } = size;
    insta::assert_snapshot!(format!("{name}_{columns}x{rows}"), screen);
    if size == Size::STANDARD {
        write(name, &terminal.screenshot().to_svg());
    }
}

/// Replaces times, spinners and the project key, which differ from run to run, without moving the text after them.
fn settled(screen: &str) -> String {
    const TURNING: &str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
    let mut settled = String::new();
    for line in screen.lines() {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for at in 1..words.len() {
            let is_time = words[at - 1].starts_with(|it: char| it.is_ascii_digit())
                && words[at - 1].parse::<f64>().is_ok();
            let ends = words[at].trim_end_matches([',', '.']);
            if is_time && matches!(ends, "ms" | "s") {
                let room = words[at - 1].len() + ends.len() - 2;
                words[at] = words[at].replacen(ends, "s", 1);
                words[at - 1] = "N".to_owned();
                if at + 1 < words.len() {
                    words[at].push_str(&" ".repeat(room));
                }
            }
        }
        for word in &mut words {
            if let Some(at) = word.find("projects/project-") {
                let at = at + "projects/project-".len();
                let end = word[at..].find('/').map_or(word.len(), |it| at + it);
                word.replace_range(at..end, "0123456789abcdef");
            }
        }
        let line = words.join(" ").replace(|it| TURNING.contains(it), "⠋");
        settled.push_str(&format!("{}\n", line.trim_end()));
    }
    // The width of a column depends on its times and moves the columns beside it.
    while settled.contains("READY") && settled.contains("   ") {
        settled = settled.replace("   ", "  ");
    }
    settled
}

/// Waits until a prompt accepts keys: it ignores those that arrive before the user can have read it.
pub fn read(terminal: &mut Terminal) -> &mut Terminal {
    for _ in 0..4 {
        terminal.stable_screen();
    }
    terminal
}

/// The built-in server, one that fails and one that is disabled.
fn several(scene: &Sandbox, size: Size) -> Terminal {
    let settings = json!({
        "mcpServers": {
            "tickets": {"command": "no-such-program", "args": ["--queue", "support"]},
            "search": {"command": "search-server"},
        },
        "disabledMcpServers": ["search"],
    });
    scene.write(USER, &settings.to_string());
    let notes = json!({"mcpServers": {"notes": {"type": "sdk", "name": "demo"}}}).to_string();
    let mut command = scene.command(&scene.project(), &["--mcp-config", &notes]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    Terminal::with_size(&command, size)
}

fn both(check: impl Fn(Size)) {
    check(Size::STANDARD);
    check(Size::LARGE);
}

#[test]
fn the_start_and_the_pages_of_commands() {
    both(|size| {
        let scene = scene();
        let mut terminal = screen(&scene, size);
        terminal.wait_for_screen("1/1 server");
        golden(&mut terminal, "start", size);
        terminal.send_keys("/help\r").wait_for_screen("Commands");
        golden(&mut terminal, "help", size);
        terminal.send_keys("q").send_keys("/tools\r").wait_for_screen("mcp__demo__echo");
        golden(&mut terminal, "tools", size);
    });
}

#[test]
fn the_panel_and_a_server_in_it() {
    both(|size| {
        let scene = scene();
        let mut terminal = several(&scene, size);
        terminal
            .wait_for_screen("1/2 servers")
            .send_keys("/mcp\r")
            .wait_for_screen("3 servers, 1 connected");
        terminal.wait_for_screen("✗ failed");
        golden(&mut terminal, "panel", size);
        terminal.send_keys("\r").wait_for_screen("Defined in:");
        golden(&mut terminal, "server", size);
    });
}

#[test]
fn permission_prompts_and_elicitations() {
    both(|size| {
        let scene = scene();
        let mut terminal = screen(&scene, size);
        terminal
            .wait_for_screen("1/1 server")
            .send_keys("/call mcp__demo__rewrite_note id:=1 text='Buy tea'\r");
        terminal.wait_for_screen("demo wants to run rewrite_note");
        read(&mut terminal).send_keys("\x1b[C\x1b[C").wait_for_screen("▸3");
        golden(&mut terminal, "permission", size);
        terminal
            .send_keys("\x1b")
            .wait_for_screen("not allowed")
            .send_keys("/call mcp__demo__book_table\r");
        read(terminal.wait_for_screen("demo wants to run book_table"))
            .send_keys("\r")
            .wait_for_screen("demo asks");
        read(&mut terminal).send_keys("Ada\tmonday\t").wait_for_screen("a date like");
        golden(&mut terminal, "form", size);
        terminal
            .send_keys("\x1b")
            .wait_until_absent("demo asks")
            .send_keys("/call mcp__demo__sign_guestbook\r");
        read(terminal.wait_for_screen("demo wants to run sign_guestbook"))
            .send_keys("\r")
            .wait_for_screen("asks you to open");
        golden(&mut terminal, "url_elicitation", size);
    });
}

#[test]
fn servers_of_a_project() {
    both(|size| {
        let scene = scene();
        let entries = r#""tickets": {"command": "./tools/tickets", "args": ["--read-only"], "env": {"TICKETS_TOKEN": "${TICKETS_TOKEN}"}},
            "wiki": {"type": "http", "url": "https://wiki.example.com/mcp"}"#;
        scene.write_servers(".mcp.json", entries);
        let mut terminal = screen(&scene, size);
        terminal.wait_for_screen("Servers of this project");
        read(&mut terminal).send_keys("a").wait_for_screen("[approve]");
        golden(&mut terminal, "project", size);
    });
}

#[test]
fn an_entry_of_a_project_as_it_will_run() {
    both(|size| {
        let scene = scene();
        let entry = r#""build": {"command": "${NPX:-./tools/npx}", "args": ["-c", "${PKG:-payload}"],
            "env": {"LD_PRELOAD": "./x.so", "TOKEN": "${TOKEN:-none}"}}"#;
        scene.write_servers(".mcp.json", entry);
        let mut terminal = screen(&scene, size);
        terminal.wait_for_screen("Servers of this project");
        golden(read(&mut terminal), "project_expanded", size);
    });
}

#[test]
fn a_response_with_a_table_and_code() {
    both(|size| {
        let call = ReplyPart::tool_call("1", "mcp__demo__list_notes", &json!({}));
        let reply = [Reply::message([ReplyPart::text("I look."), call]), Reply::text(ANSWER)];
        let service = ModelService::start(reply).expect("it starts");
        let mut scene = scene();
        scene.write(USER, &json!({"permissions": {"allow": ["mcp__demo"]}}).to_string());
        scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
        let mut terminal = screen(&scene, size);
        terminal
            .wait_for_screen("1/1 server")
            .wait_for_screen("claude")
            .send_keys("what is in my notes?\r");
        terminal.wait_for_screen("mcp__demo__add_note").wait_until_absent("working");
        golden(&mut terminal, "answer", size);
    });
}

/// Takes screenshots of the demo while it runs.
#[test]
fn the_demo_shows_each_of_its_steps() {
    let scene = scene();
    let mut command = scene.command(&scene.project(), &["demo", "--speed", "3"]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::with_size(&command, Size { columns: 90, rows: 26 });
    let mut film: Vec<(Screenshot, Duration)> = Vec::new();
    let moments = [
        ("Type a message", 1200),
        ("> Hello! What time", 900),
        ("in my notes?", 900),
        ("both at once", 1200),
        ("There are no notes", 1600),
        ("waits for your word", 2600),
        ("> Please write down", 900),
        ("wants to run add_note", 2600),
        ("Note 1 is written down", 1500),
        ("read it back", 1600),
        ("1 server, 1 connected", 2000),
        ("Defined in:", 2000),
        ("draw_clock", 2000),
        ("something that takes", 900),
        ("counted to 3", 900),
        ("counted to 6", 900),
        ("wants to run book_table", 2000),
        ("Switchboard Inn?", 1600),
        ("● terrace", 1800),
        ("Booked (not really)", 2000),
        ("What you have seen", 1800),
        ("Add a server of your own", 3500),
    ];
    for (text, milliseconds) in moments {
        terminal.wait_for_screen(text);
        film.push((terminal.screenshot(), Duration::from_millis(milliseconds)));
    }
    write("demo", &Screenshot::to_animated_svg(&film));
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
}
