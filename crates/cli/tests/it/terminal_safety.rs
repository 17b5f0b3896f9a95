//! No text of a server can control a terminal: every command that shows such text, on a pipe and at a terminal, as
//! text and as JSON. The user chose the server's name; every other text of this server is hostile.

use serde_json::{Value as Json, json};
use testkit::{Quirk, Sandbox, Script, ScriptedProgram, Size, Terminal};

use crate::screen_start::screen;
use crate::support::{USER, json as json_of, local_settings, scene};

/// Hostile texts for terminals and readers, short enough that no table truncates them.
const HOSTILE_TEXTS: [&str; 6] = [
    // Clears the screen, moves the cursor, changes colours, writes to the clipboard, sets the window title.
    "\u{1b}[2J\u{1b}[45m\u{1b}[1;1H\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}]0;EVIL\u{1b}\\",
    // A hyperlink, a device control string, an image, a private message, a reset, the alternate screen.
    "\u{1b}]8;;http://evil.example\u{7}\u{1b}P$q\u{1b}\\\u{1b}Pq#0\u{1b}\\\u{1b}^x\u{1b}\\\u{1b}c\u{1b}[?1049h",
    // The same as single-character (C1) controls, and characters that overwrite text.
    "\u{9b}2J\u{9d}0;EVIL\u{9c}\u{90}q\u{84}\u{85}\u{8}\u{8}\u{8}\u{7f}\u{b}\u{c}\rFAKE\t",
    // Bidirectional overrides.
    "\u{202e}live\u{202c}\u{2066}x\u{2069}\u{200f}\u{61c}\u{202a}\u{202b}\u{202d}\u{2067}\u{2068}",
    // Invisible characters.
    "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}\u{34f}\u{180e}\u{3164}\u{ffa0}\u{2800}\u{2028}\u{2029}\u{fe0f}",
    // Text in tag characters.
    "\u{e0001}\u{e0065}\u{e0076}\u{e0069}\u{e006c}\u{e007f}\u{e0100}\u{fff9}\u{fffb}\u{115f}\u{17b4}",
];

/// The control sequences that the program itself prints. None of them is in the hostile texts.
const OWN_SEQUENCES: [&str; 10] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\r\u{1b}[K",
    "\u{1b}[1A",
    "\u{1b}[J",
    "\r",
];

/// A sandbox with a server whose every text is hostile, and these settings.
fn hostile_scene(taint: &str, settings: Json) -> Sandbox {
    let script = Script::legacy()
        .instructions("Be nice.")
        .resources(2)
        .prompts(2)
        .tools(1)
        .quirk(Quirk::HasSayTool)
        .quirk(Quirk::BadToolSchema)
        .taint(taint);
    let crashing = Script::legacy().taint(taint).quirk(Quirk::ExitsAtOnce { code: 3 });
    let unlisting = Script::legacy().taint(taint).quirk(Quirk::FailsToolList);
    let scene = scene();
    let entry = |script: &Script| -> Json {
        serde_json::from_str(&ScriptedProgram::config_entry(script)).expect("an entry is JSON")
    };
    let mut settings = settings;
    settings["mcpServers"] =
        json!({"s": entry(&script), "crashing": entry(&crashing), "unlisting": entry(&unlisting)});
    scene.write(USER, &settings.to_string());
    scene
}

/// The exposed name of a tool of the server `s`, whose own name contains the taint after its first letter.
fn exposed_name(scene: &Sandbox, taint: &str, plain: &str) -> String {
    let name = format!("{}{taint}{}", &plain[..1], &plain[1..]);
    let all = json_of(scene, &["tools", "s", "--json"]);
    let tools = all["tools"].as_array().expect("a list");
    let tool = tools.iter().find(|it| it["tool"] == name.as_str());
    tool.unwrap_or_else(|| panic!("no {plain} in {all}"))["name"].as_str().expect("text").to_owned()
}

/// Checks that the output consists of printable text, line ends and tabs.
#[track_caller]
fn check_harmless(shown: &str, what: &str) {
    // Tabs are part of what tools print and do not leave the line.
    let is_bad =
        |c: &char| !matches!(c, '\n' | '\t') && switchboard_config::display::is_unprintable(*c);
    let bad = shown.chars().find(is_bad);
    assert_eq!(bad, None, "{what}\n{shown:?}");
}

/// Replaces the tab with which completions separate a value from its description.
fn without_our_tabs(shown: &str) -> String {
    let lines = shown.lines().map(|line| line.replacen('\t', " ", 1) + "\n");
    lines.collect()
}

/// Checks that the output contains escaped hostile text.
#[track_caller]
fn check_has_taint(shown: &str, what: &str) {
    assert!(
        shown.contains("\\u"),
        "nothing hostile was shown, so nothing is proved: {what}\n{shown}"
    );
}

/// Like [`check_harmless`] at a terminal, where our own control sequences are allowed.
#[track_caller]
fn check_harmless_at_terminal(shown: &str, what: &str) {
    assert!(!shown.contains("\rFAKE"), "{what}\n{shown:?}");
    let mut rest = shown.to_owned();
    for ours in OWN_SEQUENCES {
        rest = rest.replace(ours, "");
    }
    check_harmless(&rest, what);
}

/// Every command that shows text of a server, with the names that contain this taint, and whether its output must
/// contain hostile text.
fn commands(scene: &Sandbox, taint: &str) -> Vec<(Vec<String>, ExpectedText)> {
    let tool = |plain: &str| exposed_name(scene, taint, plain);
    let uri = format!("scripted://resource/0{taint}");
    let template = format!("scripted://resource/{{number}}{taint}");
    let prompt = format!("p{taint}rompt_0");
    let [echo, slow, fail, explode, say, ask, number] =
        ["echo", "slow", "fail", "explode", "say", "ask", "tool_0"].map(tool);
    let result = json!({
        "content": [
            {"type": "text", "text": "a text\nof two lines"},
            {"type": "image", "data": "bm8gcGljdHVyZQ==", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x://y", "mimeType": "text/plain", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "x://y", "mimeType": "a/b", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "x://y", "name": "a link", "title": "t", "description": "d"},
            {"type": format!("holo\u{1b}[2J{taint}gram"), "text": "unknown"},
        ],
        "structuredContent": {"key": "value"},
    });
    let said = format!("result:={result}");
    let cases: Vec<(Vec<&str>, ExpectedText)> = vec![
        (vec!["status"], ExpectedText::Hostile),
        (vec!["status", "s"], ExpectedText::Nothing),
        (vec!["doctor"], ExpectedText::Hostile),
        (vec!["doctor", "crashing"], ExpectedText::Hostile),
        (vec!["doctor", "unlisting"], ExpectedText::Hostile),
        (vec!["ping", "s"], ExpectedText::Nothing),
        (vec!["ping", "crashing"], ExpectedText::Hostile),
        (vec!["logs", "s"], ExpectedText::Hostile),
        (vec!["logs", "crashing"], ExpectedText::Hostile),
        (vec!["tools"], ExpectedText::Hostile),
        (vec!["tools", "s"], ExpectedText::Hostile),
        (vec!["search", "text"], ExpectedText::Hostile),
        (vec!["resources"], ExpectedText::Hostile),
        (vec!["prompts"], ExpectedText::Hostile),
        (vec!["prompt", "s", &prompt, "topic=x"], ExpectedText::Hostile),
        (vec!["prompt", "s", "nothing"], ExpectedText::Nothing),
        (vec!["read", "s", &uri], ExpectedText::Hostile),
        (vec!["read", "s", "scripted://blob"], ExpectedText::Hostile),
        (vec!["read", "s", "scripted://none"], ExpectedText::Hostile),
        (vec!["complete", "s", "--prompt", &prompt, "topic", "a"], ExpectedText::Hostile),
        (vec!["complete", "s", "--template", &template, "number"], ExpectedText::Hostile),
        (vec!["subscribe", "s", &uri, "--once", "--read"], ExpectedText::Hostile),
        (vec!["call", &echo, "text=hello"], ExpectedText::Hostile),
        (vec!["call", &echo, "text:=5"], ExpectedText::Nothing),
        (vec!["call", &number, "limit:=1.5"], ExpectedText::Nothing),
        (vec!["call", &slow, "ms:=120"], ExpectedText::Hostile),
        (vec!["call", &fail], ExpectedText::Hostile),
        (vec!["call", &explode, r#"data:={"a": "because"}"#], ExpectedText::Hostile),
        (vec!["call", &say, &said], ExpectedText::Hostile),
        (vec!["call", &ask, "kind=booking"], ExpectedText::Hostile),
        (vec!["call", &ask, "kind=url"], ExpectedText::Hostile),
        (vec!["call", &ask, "kind=gate"], ExpectedText::Hostile),
        (vec!["call", &ask, "kind=sampling"], ExpectedText::Hostile),
        (vec!["call", "mcp__s__e"], ExpectedText::Nothing),
        (vec!["audit"], ExpectedText::Hostile),
        (vec!["permissions", "explain", &echo, "text=x"], ExpectedText::Nothing),
        (vec!["permissions", "simulate"], ExpectedText::Nothing),
        (vec!["permissions", "list"], ExpectedText::Nothing),
        (vec!["list"], ExpectedText::Nothing),
        (vec!["get", "s"], ExpectedText::Nothing),
        (vec!["__complete", "words", "swb", "call", "mcp"], ExpectedText::Nothing),
        (vec!["__complete", "words", "swb", "prompt", "s", ""], ExpectedText::Nothing),
        (vec!["__complete", "words", "swb", "read", "s", ""], ExpectedText::Nothing),
        (vec!["__complete", "bash", "swb read s ", ":="], ExpectedText::Nothing),
    ];
    let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
    cases.into_iter().map(|(words, sees)| (owned(words), sees)).collect()
}

/// Whether the output of a command contains hostile text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ExpectedText {
    /// Hostile text, escaped.
    Hostile,
    /// Possibly none.
    Nothing,
}

/// Settings that allow every tool of the server.
fn allow_all_settings() -> Json {
    json!({"permissions": {"allow": ["mcp__s"]}})
}

#[track_caller]
fn check_on_a_pipe(taint: &str) {
    let scene = hostile_scene(taint, allow_all_settings());
    for (words, sees) in commands(&scene, taint) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = scene.swb(&words);
        let what = format!("{words:?}");
        assert_ne!(ran.code, 101, "{}", ran.to_snapshot());
        let for_shell = words[0] == "__complete";
        let shown =
            if for_shell { without_our_tabs(&ran.to_snapshot()) } else { ran.to_snapshot() };
        check_harmless(&shown, &what);
        if sees == ExpectedText::Hostile {
            check_has_taint(&ran.to_snapshot(), &what);
        }
        if for_shell {
            continue;
        }
        let json_words = [&words[..], &["--json"]].concat();
        let ran = scene.swb(&json_words);
        check_harmless(&ran.to_snapshot(), &format!("{json_words:?}"));
        for document in ran.stdout.lines().filter(|_| words[0] == "subscribe") {
            serde_json::from_str::<Json>(document).expect("each line is JSON");
        }
        if words[0] != "subscribe" && !ran.stdout.is_empty() {
            serde_json::from_str::<Json>(&ran.stdout).expect("it is JSON");
        }
    }
}

#[test]
fn screens_clipboards_and_titles_are_safe_on_a_pipe() {
    check_on_a_pipe(HOSTILE_TEXTS[0]);
}

#[test]
fn links_pictures_and_resets_are_safe_on_a_pipe() {
    check_on_a_pipe(HOSTILE_TEXTS[1]);
}

#[test]
fn single_controls_and_overwriting_are_safe_on_a_pipe() {
    check_on_a_pipe(HOSTILE_TEXTS[2]);
}

#[test]
fn turned_hidden_and_tagged_text_is_safe_on_a_pipe() {
    check_on_a_pipe(&HOSTILE_TEXTS[3..].concat());
}

/// Runs all commands at a terminal, where colours, progress and prompts are drawn too.
#[track_caller]
fn check_at_a_terminal(taint: &str) {
    let scene = hostile_scene(taint, allow_all_settings());
    for (words, sees) in commands(&scene, taint) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let what = format!("{words:?}");
        let mut terminal = Terminal::start(&scene.command(&scene.project(), &words));
        match words.last().copied() {
            Some("kind=booking") => {
                terminal.wait_for_output(" asks:").wait_for_output("\\u").send_keys(":no\r");
            }
            Some("kind=url" | "kind=gate") => {
                terminal
                    .wait_for_output("It asks you to open")
                    .wait_for_output("? ")
                    .send_keys("n\r");
            }
            Some(_) | None => {}
        }
        let (code, shown) = terminal.wait_for_exit();
        assert_ne!(code, 101, "{shown}");
        let for_shell = words[0] == "__complete";
        let shown = if for_shell { without_our_tabs(&shown) } else { shown };
        check_harmless_at_terminal(&shown, &what);
        if sees == ExpectedText::Hostile {
            check_has_taint(&shown, &what);
        }
    }
}

#[test]
fn every_command_is_safe_at_a_terminal_whatever_the_sequences() {
    check_at_a_terminal(&HOSTILE_TEXTS[..2].concat());
}

#[test]
fn every_command_is_safe_at_a_terminal_whatever_the_characters() {
    check_at_a_terminal(HOSTILE_TEXTS[2]);
}

#[test]
fn nothing_hidden_reaches_a_terminal() {
    check_at_a_terminal(&HOSTILE_TEXTS[3..].concat());
}

/// Removes the sequences that start with `ESC [`, with which the screen is drawn. Only text may remain.
fn without_drawing(shown: &str) -> String {
    let mut left = String::new();
    let mut rest = shown.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' && rest.next_if_eq(&'[').is_some() {
            for c in rest.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&c) {
                    break;
                }
            }
        } else {
            left.push(c);
        }
    }
    left
}

/// Opens every page, panel, card and dialog that shows text of a server.
#[track_caller]
fn check_on_the_screen(taint: &str) {
    let scene = hostile_scene(taint, allow_all_settings());
    let [echo, fail, ask] = ["echo", "fail", "ask"].map(|it| exposed_name(&scene, taint, it));
    let calls = [
        format!("/call {echo} text=hello\r"),
        format!("/call {fail}\r"),
        format!("/call {ask} kind=booking\r"),
        format!("/call {ask} kind=url\r"),
    ];
    let pages = ["/tools\r", "/resources\r", "/doctor\r", "/logs crashing\r", "/logs s\r"];
    // The panel, the details of the first server with their pages, and those of the next one.
    let panel = ["/mcp\r", "\r", "2", "3", "4", "5", "\x1b", "\x1b[B", "\r", "2", "3", "4", "5"];
    let mut terminal = screen(&scene, Size::LARGE);
    terminal.wait_for_screen("servers (not:");
    let mut seen = String::new();
    let mut step = |keys: &str| {
        seen.push_str(&terminal.send_keys(keys).stable_screen());
    };
    for keys in pages {
        step(keys);
        step("\x1b");
    }
    panel.into_iter().for_each(&mut step);
    step("\x1b");
    step("\x1b");
    for keys in &calls {
        step(keys);
        // A dialog ignores keys that arrive before the user can have read it.
        step("");
        step("");
        step("\x1b");
    }
    for shown in [" asks", "hello", "[1 Overview]", "[5 Log]", "scripted://resource/"] {
        assert!(seen.contains(shown), "`{shown}` was not on the screen\n{seen}");
    }
    terminal.send_keys("/quit\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("\u{1b}[45m") && !shown.contains("\rFAKE"), "{shown:?}");
    check_harmless(&without_drawing(&shown).replace('\r', ""), "the screen");
    check_has_taint(&seen, "the screen");
}

#[test]
fn the_screen_is_safe_whatever_the_sequences() {
    check_on_the_screen(&HOSTILE_TEXTS[..3].concat());
}

#[test]
fn nothing_hidden_reaches_the_screen() {
    check_on_the_screen(&HOSTILE_TEXTS[2..].concat());
}

#[test]
fn a_form_with_hostile_labels_choices_and_defaults_can_be_filled_in() {
    let taint = HOSTILE_TEXTS.concat();
    let scene = hostile_scene(&taint, allow_all_settings());
    let ask = exposed_name(&scene, &taint, "ask");
    let words = ["call", &ask, "kind=booking"];
    let mut terminal = Terminal::start(&scene.command(&scene.project(), &words));
    terminal
        .wait_for_output("asks:")
        .wait_for_output("our name")
        .wait_for_output(": ")
        .send_keys("Ada\u{1b}[2J\r");
    terminal.wait_for_output("uests").wait_for_output(": ").send_keys("\r"); // misspelt on purpose
    terminal
        .wait_for_output("utside")
        .wait_for_output("eat")
        .wait_for_output(": ")
        .send_keys("2\r");
    terminal
        .wait_for_output("ail")
        .wait_for_output(": ")
        .send_keys("\r")
        .wait_for_output("ews")
        .wait_for_output(": ")
        .send_keys("\r");
    terminal.wait_for_output("This goes to").wait_for_output("Send it?").send_keys("y\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    // The terminal echoes the user's input in an escaped form.
    check_harmless_at_terminal(&shown, "a form");
    assert!(shown.contains(r#""name":"Ada"#) && shown.contains(r#""seat":"out""#), "{shown}");
}

#[test]
fn a_permission_prompt_with_a_definition_diff_is_safe() {
    let taint = HOSTILE_TEXTS.concat();
    let scene = hostile_scene(&taint, json!({}));
    let echo = exposed_name(&scene, &taint, "echo");
    let text = format!("text=mine {taint}");
    let words = ["call", &echo, &text];
    let start = || Terminal::start(&scene.command(&scene.project(), &words));
    let mut terminal = start();
    terminal
        .wait_for_output("to run")
        .wait_for_output("warning:")
        .wait_for_output("? ")
        .send_keys("v\r")
        .wait_for_output("? ");
    terminal
        .send_keys("a\r")
        .wait_for_output("Which calls?")
        .wait_for_output("] ")
        .send_keys("1\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    check_harmless_at_terminal(&shown, "a permission");
    let listed = scene.swb(&["permissions", "list"]);
    check_harmless(&listed.to_snapshot(), "permissions list");
    assert!(local_settings(&scene).exists());
    // Changes the pinned description, so that the old and the new text are both hostile.
    let place = "~/.local/state/switchboard/pins.json";
    let pins = scene.read(place).replace("eturns its text", "eturned its text");
    let mut pins: Json = serde_json::from_str(&pins).expect("JSON");
    let servers = pins.as_object_mut().expect("servers");
    for page in servers.values_mut() {
        for tool in page["tools"].as_object_mut().expect("tools").values_mut() {
            tool["digest"] = "another".into();
        }
    }
    scene.write(place, &pins.to_string());
    let mut terminal = start();
    terminal
        .wait_for_output("It changed since it was approved")
        .wait_for_output("eturned")
        .wait_for_output("eturns")
        .wait_for_output("? ")
        .send_keys("n\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 4, "{shown}");
    check_harmless_at_terminal(&shown, "a difference");
    check_has_taint(&shown, "a difference");
}

#[test]
fn a_watch_of_servers_with_hostile_causes_is_safe() {
    let taint = HOSTILE_TEXTS.concat();
    let scene = hostile_scene(&taint, allow_all_settings());
    let mut terminal =
        Terminal::start(&scene.command(&scene.project(), &["status", "--watch", "crashing"]));
    terminal.wait_for_output("crashing").wait_for_output("exited with code 3").send_keys("\u{3}");
    let (_, shown) = terminal.wait_for_exit();
    let movements: String =
        (1..20).fold(shown, |text, lines| text.replace(&format!("\u{1b}[{lines}A"), ""));
    check_harmless_at_terminal(&movements, "a watch");
}
