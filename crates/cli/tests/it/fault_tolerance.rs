//! Calls and elicitations under bad conditions: misbehaving hooks, elicitations that are withdrawn or arrive by the
//! hundred, failing disks, invalid results, and many concurrent calls.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use testkit::{
    CommandOutput, Quirk, ResponseFormat, Sandbox, Script, ScriptedProgram, ScriptedServer,
    Terminal,
};

use crate::support::{USER, json as json_of, local_settings, scene, wait_for};

/// A sandbox with these servers and settings.
pub(crate) fn scene_with_servers(servers: &[(&str, &Script)], settings: Json) -> Sandbox {
    let scene = scene();
    let mut settings = settings;
    for (name, script) in servers {
        let entry = ScriptedProgram::config_entry(script);
        settings["mcpServers"][*name] = serde_json::from_str(&entry).expect("an entry is JSON");
    }
    scene.write(USER, &settings.to_string());
    scene
}

fn scene_with_server(script: &Script) -> Sandbox {
    scene_with_servers(&[("s", script)], json!({"permissions": {"allow": ["mcp__s"]}}))
}

fn at_terminal(scene: &Sandbox, arguments: &[&str]) -> Terminal {
    Terminal::start(&scene.command(&scene.project(), arguments))
}

/// The result that the server received for its elicitation.
#[track_caller]
pub(crate) fn answer(shown: &str, key: &str) -> Json {
    let at = shown.rfind("{\"rounds\"").unwrap_or_else(|| panic!("no answer in {shown}"));
    let rounds: Json = serde_json::from_str(shown[at..].trim()).expect("JSON");
    rounds["rounds"][0][key].clone()
}

#[test]
fn the_users_time_does_not_count_against_the_timeout() {
    for script in [Script::legacy(), Script::modern()] {
        let mut scene = scene_with_server(&script);
        scene.set_env("MCP_TOOL_TIMEOUT", "500");
        let mut terminal = at_terminal(&scene, &["call", "mcp__s__ask", "kind=elicitation"]);
        terminal.wait_for_output("What is your name?").wait_for_output(": ");
        let asked = Instant::now();
        wait_for(|| asked.elapsed() > Duration::from_secs(2));
        terminal.send_keys("Ada\r").wait_for_output("Send it?").send_keys("\r");
        let (code, shown) = terminal.wait_for_exit();
        assert_eq!(code, 0, "{shown}");
        assert_eq!(answer(&shown, "elicitation")["content"], json!({"name": "Ada"}), "{shown}");
        let slow = scene.swb(&["call", "mcp__s__slow", "ms:=30000", "steps:=1"]);
        assert!(slow.expect_failure(10).contains("within 0.5 s"), "{}", slow.to_snapshot());
    }
}

#[test]
fn input_for_a_withdrawn_elicitation_answers_no_other() {
    let scene = scene_with_server(&Script::legacy());
    let mut terminal = at_terminal(&scene, &["call", "mcp__s__ask", "kind=withdrawn", "ms:=600"]);
    terminal.wait_for_output("The first question?").wait_for_output(": ").send_keys("half an ans");
    terminal
        .wait_for_output("withdrawn")
        .wait_for_output("The second question?")
        .wait_for_output(": ")
        .send_keys("Ada\r");
    terminal.wait_for_output("Send it?").send_keys("\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert_eq!(answer(&shown, "second")["content"], json!({"name": "Ada"}), "{shown}");
}

#[test]
fn a_hundred_concurrent_elicitations_are_answered_without_blocking() {
    let scene = scene_with_server(&Script::legacy());
    let ran = scene.swb(&["call", "mcp__s__ask", "kind=crowd"]);
    let counts: Json = serde_json::from_str(ran.expect_success().trim()).expect("JSON");
    let (declined, refused) = (counts["decline"].as_u64(), counts["error"].as_u64());
    assert_eq!(declined.unwrap_or(0) + refused.unwrap_or(0), 100, "{}", ran.to_snapshot());
    // The user can cancel all of them.
    let mut terminal = at_terminal(&scene, &["call", "mcp__s__ask", "kind=crowd"]);
    terminal.wait_for_output("Question ").wait_for_output(": ").send_keys("\u{3}");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 130, "{shown}");
}

#[test]
fn elicitations_at_two_terminals_are_independent() {
    let (one, two) = (Script::legacy(), Script::modern());
    let servers = [("one", &one), ("two", &two)];
    let scene =
        scene_with_servers(&servers, json!({"permissions": {"allow": ["mcp__one", "mcp__two"]}}));
    // A form of a hundred fields, declined half-way.
    let mut first = at_terminal(&scene, &["call", "mcp__one__ask", "kind=long"]);
    let mut second = at_terminal(&scene, &["call", "mcp__two__ask", "kind=elicitation"]);
    first.wait_for_output("one").wait_for_output("A long form.");
    second
        .wait_for_output("two")
        .wait_for_output("What is your name?")
        .wait_for_output(": ")
        .send_keys("Eve\r");
    for number in 0..50 {
        first.wait_for_output(&format!("field_{number}")).wait_for_output(": ").send_keys("\r");
    }
    first.send_keys(":no\r");
    second.wait_for_output("Send it?").send_keys("\r");
    let (_, shown) = first.wait_for_exit();
    assert_eq!(answer(&shown, "long")["action"], "decline", "{shown}");
    let (_, shown) = second.wait_for_exit();
    assert_eq!(answer(&shown, "elicitation")["content"]["name"], "Eve", "{shown}");
}

#[test]
fn elicitations_of_two_servers_are_shown_in_turn_and_status_does_not_wait() {
    let scene = scene();
    let journals = [scene.path("~/ada"), scene.path("~/eve")];
    let script = |index: usize, name: &str| {
        Script::legacy().name(name).quirk(Quirk::ElicitsOnInitialized).journal(&journals[index])
    };
    let entry = |script: &Script| ScriptedProgram::config_entry(script);
    let (ada, eve) = (entry(&script(0, "ada")), entry(&script(1, "eve")));
    scene.write_servers(USER, &format!("\"ada\": {ada}, \"eve\": {eve}"));
    let (code, shown) = at_terminal(&scene, &["status"]).wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("connected"), "{shown}");
    for journal in &journals {
        std::fs::remove_file(journal).expect("it was written");
    }
    let mut terminal = at_terminal(&scene, &["status", "--watch"]);
    terminal
        .wait_for_output(" asks:")
        .wait_for_output(" wants a name.")
        .wait_for_output("name*: ")
        .send_keys("first\r");
    terminal.wait_for_output("Send it?").send_keys("\r");
    terminal
        .wait_for_output(" asks:")
        .wait_for_output(" wants a name.")
        .wait_for_output("name*: ")
        .send_keys("second\r");
    terminal.wait_for_output("Send it?").send_keys("\r");
    let answered = |journal: &std::path::PathBuf| {
        let heard = testkit::scripted::read_journal(journal);
        heard.iter().find_map(|it| it["result"]["content"]["name"].as_str().map(str::to_owned))
    };
    wait_for(|| journals.iter().all(|it| answered(it).is_some()));
    terminal.send_keys("\u{3}");
    terminal.wait_for_exit();
    let mut names: Vec<_> = journals.iter().filter_map(answered).collect();
    names.sort();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn a_hundred_fields_can_be_filled_in_and_defaults_that_do_not_fit_are_not_offered() {
    let scene = scene_with_server(&Script::legacy());
    let mut terminal = at_terminal(&scene, &["call", "mcp__s__ask", "kind=long"]);
    terminal.wait_for_output("A long form.");
    for number in 0..100 {
        terminal
            .wait_for_output(&format!("field_{number}"))
            .wait_for_output(": ")
            .send_keys(&format!("v{number}\r"));
    }
    terminal.wait_for_output("Send it?").send_keys("\r");
    let (_, shown) = terminal.wait_for_exit();
    let given = answer(&shown, "long")["content"].clone();
    assert_eq!(given.as_object().map(serde_json::Map::len), Some(100), "{shown}");
    assert_eq!(given["field_99"], "v99");
    let mut terminal = at_terminal(&scene, &["call", "mcp__s__ask", "kind=unfit"]);
    terminal
        .wait_for_output("Defaults that do not fit.")
        .wait_for_output("colour*")
        .wait_for_output(": ")
        .send_keys("\r");
    terminal
        .wait_for_output("expected one of red, green")
        .send_keys("2\r")
        .wait_for_output("count*")
        .wait_for_output(": ")
        .send_keys("\r");
    terminal
        .wait_for_output("expected a whole number")
        .send_keys("many\r")
        .wait_for_output("expected a whole number")
        .send_keys("4\r");
    terminal
        .wait_for_output("mail")
        .wait_for_output(": ")
        .send_keys("\r")
        .wait_for_output("Send it?")
        .send_keys("\r");
    let (_, shown) = terminal.wait_for_exit();
    let expected = json!({"colour": "green", "count": 4});
    assert_eq!(answer(&shown, "unfit")["content"], expected, "{shown}");
}

#[test]
fn an_interrupt_during_an_elicitation_ends_the_call_and_is_recorded() {
    let scene = scene_with_server(&Script::legacy());
    let mut terminal = at_terminal(&scene, &["call", "mcp__s__ask", "kind=booking"]);
    terminal.wait_for_output("Your name").wait_for_output(": ").send_keys("Ad\u{3}");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 130, "{shown}");
    let audit = json_of(&scene, &["audit", "--json"]);
    assert_eq!(audit["calls"][0]["outcome"], "cancelled", "{audit}");
    let mut asking = scene_with_servers(&[("s", &Script::legacy())], json!({}));
    asking.set_env("TERM", "dumb");
    let mut terminal = at_terminal(&asking, &["call", "mcp__s__echo", "text=x"]);
    terminal.wait_for_output("? ").send_keys("\u{3}");
    assert_eq!(terminal.wait_for_exit().0, 130);
}

#[test]
fn invalid_utf8_input_does_not_end_the_prompt() {
    let scene = scene_with_server(&Script::legacy());
    let mut terminal = at_terminal(&scene, &["call", "mcp__s__ask", "kind=booking"]);
    terminal.wait_for_output("Your name").wait_for_output(": ").send_bytes(b"Fran\xe7ois\r");
    terminal.wait_for_output("guests").wait_for_output(": ").send_keys(":no\r");
    let (_, shown) = terminal.wait_for_exit();
    assert_eq!(answer(&shown, "booking")["action"], "decline", "{shown}");
}

#[test]
fn a_failed_audit_write_is_reported() {
    let scene = scene_with_server(&Script::legacy());
    let log = scene.path("~/.local/state/switchboard/audit.jsonl");
    std::fs::create_dir_all(&log).expect("a folder in its place");
    let ran = scene.swb(&["call", "mcp__s__echo", "text=hello"]);
    assert_eq!(ran.expect_success(), "hello\n");
    let warning = "warning: 1 call is not in the audit log: ~/.local/state/switchboard/audit.jsonl";
    assert_eq!(ran.stderr.matches(warning).count(), 1, "{}", ran.to_snapshot());
}

#[test]
fn damaged_or_unwritable_pins_are_reported_and_calls_continue() {
    let scene = scene_with_server(&Script::legacy());
    let place = "~/.local/state/switchboard/pins.json";
    scene.write(place, "{\"s/sha256:1\": {\"turn\"");
    let call = ["call", "mcp__s__echo", "text=hello"];
    let ran = scene.swb(&call);
    assert_eq!(ran.expect_success(), "hello\n");
    assert!(
        ran.stderr.contains("changes to them are not detected: ~/.local"),
        "{}",
        ran.to_snapshot()
    );
    assert_eq!(scene.swb(&call).stderr, "", "it is written anew");
    std::fs::remove_file(scene.path(place)).expect("it is there");
    std::fs::create_dir(scene.path(place)).expect("a folder in its place");
    let ran = scene.swb(&call);
    assert_eq!(ran.expect_success(), "hello\n");
    assert!(ran.stderr.contains("could not be stored"), "{}", ran.to_snapshot());
}

#[test]
fn a_permanent_rule_that_cannot_be_written_applies_to_this_run_and_is_reported() {
    let scene = scene_with_servers(&[("s", &Script::legacy())], json!({}));
    // No file can be created below a dangling link, not even by root.
    let settings = local_settings(&scene);
    let folder = settings.parent().expect("it is in a folder");
    std::fs::create_dir_all(folder.parent().expect("which is in one")).expect("made");
    std::os::unix::fs::symlink("/proc/nowhere/at/all", folder).expect("a link");
    let mut terminal = at_terminal(&scene, &["call", "mcp__s__echo", "text=hello"]);
    terminal
        .wait_for_output("always")
        .wait_for_output("? ")
        .send_keys("a\r")
        .wait_for_output("] ")
        .send_keys("\r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("the rule holds for this session only"), "{shown}");
}

#[test]
fn many_calls_at_once_lose_no_pin_no_record_and_no_rule() {
    let scene = scene_with_server(&Script::legacy().tools(12));
    let start = |number: usize| {
        let tool = format!("mcp__s__tool_{number}");
        let rule = format!("mcp__s__tool_{number}(subject=b)");
        let call = scene.command(&scene.project(), &["call", &tool, "subject=a"]).spawn();
        let add = scene.command(&scene.project(), &["permissions", "add", "ask", &rule]).spawn();
        [call.expect("it starts"), add.expect("it starts")]
    };
    let running: Vec<_> = (0..12).flat_map(start).collect();
    for mut child in running {
        child.wait().expect("it ends");
    }
    let audit = json_of(&scene, &["audit", "--json"]);
    assert_eq!(audit["calls"].as_array().map(Vec::len), Some(12), "{audit}");
    let rules = std::fs::read_to_string(local_settings(&scene)).expect("rules");
    let pins = scene.read("~/.local/state/switchboard/pins.json");
    let allowed: Vec<&Json> = audit["calls"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| it["outcome"] == "ok")
        .collect();
    for number in 0..12 {
        assert!(rules.contains(&format!("tool_{number}(subject=b)")), "{rules}");
    }
    assert_eq!(allowed.len(), 12, "{audit}");
    for call in allowed {
        let tool = call["tool"].as_str().expect("a name");
        assert!(pins.contains(&format!("\"{tool}\"")), "{tool}\n{pins}");
    }
}

/// Runs the program and samples its memory. Returns the exit code, the output and the peak in megabytes.
fn run_measuring_memory(scene: &Sandbox, arguments: &[&str]) -> (CommandOutput, u64) {
    let mut command = scene.command(&scene.project(), arguments);
    let command = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("it starts");
    let status = format!("/proc/{}/status", child.id());
    let ending = std::thread::spawn(move || child.wait_with_output().expect("it ends"));
    let mut peak = 0;
    while !ending.is_finished() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|it| it.strip_prefix("VmHWM:"));
        let kilobytes =
            line.and_then(|it| it.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) / 1024);
        std::thread::sleep(Duration::from_millis(2)); // waits for another process
    }
    let output = ending.join().expect("it was waited for");
    (scene.normalized_output(output.status.code(), &output.stdout, &output.stderr), peak)
}

/// The maximum memory of a call: the largest accepted message, in a buffer that grows by doubling, and the program.
const MAX_MEMORY_MB: u64 = 192;

#[test]
fn two_hundred_megabytes_of_result_are_refused_in_little_memory() {
    let json = ScriptedServer::http(Script::legacy().response_format(ResponseFormat::Json));
    let events = ScriptedServer::http(Script::modern().response_format(ResponseFormat::Sse));
    let remote = |served: &ScriptedServer| json!({"type": "http", "url": served.url()});
    let program: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    let servers = json!({"program": program, "json": remote(&json), "events": remote(&events)});
    let allow = json!({"allow": ["mcp__program", "mcp__json", "mcp__events"]});
    let scene = scene();
    scene.write(USER, &json!({"permissions": allow, "mcpServers": servers}).to_string());
    for server in ["program", "json", "events"] {
        let tool = format!("mcp__{server}__big");
        let (ran, peak) = run_measuring_memory(&scene, &["call", &tool, "bytes:=200000000"]);
        let said = format!("the response of `{server}` exceeds the limit of 64 MB");
        assert!(ran.expect_failure(10).contains(&said), "{}", ran.to_snapshot());
        assert!(peak > 0 && peak < MAX_MEMORY_MB, "{server}: {peak} MB");
        // The result is truncated, and stored in full.
        let (ran, peak) = run_measuring_memory(&scene, &["call", &tool, "bytes:=40000000"]);
        assert!(ran.stderr.contains("100000 of 40000000 characters"), "{}", ran.stderr);
        assert!(peak > 0 && peak < MAX_MEMORY_MB, "{server}: {peak} MB");
    }
}

/// Calls a tool that returns this result.
fn call_returning(scene: &Sandbox, result: &Json) -> CommandOutput {
    scene.write("result.json", &result.to_string());
    scene.swb(&["call", "mcp__s__say", "result:=@result.json"])
}

#[test]
fn a_result_may_be_anything_at_all() {
    let scene = scene_with_server(&Script::legacy().quirk(Quirk::HasSayTool));
    let content = |it: Json| json!({"content": [it]});
    let picture =
        |data: &str| content(json!({"type": "image", "data": data, "mimeType": "image/png"}));
    // Headers of images without pixel data: one of 65,535 × 65,535 pixels, one of 10^9 × 1.
    let bomb = "iVBORw0KGgoAAAANSUhEUgAA//8AAP//CAYAAAA=";
    let wide = "iVBORw0KGgoAAAANSUhEUjuaygAAAAABCAYAAAA=";
    for result in [
        json!({}),
        json!({"content": null}),
        json!({"content": "text"}),
        json!({"content": {"type": "text"}}),
        json!({"content": [null, 5, "x", [], {}]}),
        json!({"content": [], "isError": "maybe"}),
        json!({"content": [], "structuredContent": [1, {"a": null}]}),
        content(json!({"type": 5})),
        content(json!({"type": "text"})),
        content(json!({"type": "text", "text": 5})),
        content(json!({"type": "text", "text": "x".repeat(300_000)})),
        content(json!({"type": "resource"})),
        content(
            json!({"type": "resource", "resource": {"uri": "../../../etc/passwd", "blob": "AAAA"}}),
        ),
        content(
            json!({"type": "resource", "resource": {"uri": "file:///etc/passwd", "blob": "not base64!", "mimeType": "../../x"}}),
        ),
        content(json!({"type": "resource_link"})),
        content(json!({"type": "audio", "data": "AAAA", "mimeType": "audio/../../../x"})),
        content(json!({"type": "audio", "data": 7, "mimeType": 7})),
        picture(""),
        picture("bm8gcGljdHVyZQ=="),
        picture("not base64!"),
        picture(bomb),
        picture(wide),
        picture(&"A".repeat(15_000_000)),
        json!({"content": vec![json!({"type": "image", "data": bomb, "mimeType": "image/png"}); 500]}),
        json!({"content": vec![json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}); 500]}),
    ] {
        let ran = call_returning(&scene, &result);
        let about: String = result.to_string().chars().take(200).collect();
        assert!([0, 9, 10].contains(&ran.code), "{about}\n{}", ran.to_snapshot());
        assert!(!ran.stderr.contains("panicked"), "{about}\n{}", ran.stderr);
        assert!(ran.to_snapshot().len() < 1_000_000, "{about}");
    }
    assert!(!scene.home().join("x").exists());
    let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
    let deep = format!("{{\"content\":[],\"structuredContent\":{deep}}}");
    scene.write("result.json", &deep);
    let ran = scene.swb(&["call", "mcp__s__say", "result:=@result.json"]);
    assert!(ran.expect_failure(2).contains("is not valid JSON"), "{}", ran.to_snapshot());
    // Stored results are in the data folder, readable only by their owner.
    let kept = scene.path("~/.local/share/switchboard");
    let mode = kept.metadata().expect("something was kept").permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn invalid_arguments_are_reported_and_no_call_is_made() {
    let scene = scene_with_server(&Script::legacy().tools(1));
    scene.write("bytes", "plain");
    std::fs::write(scene.path("bytes"), b"\xff\xfe").expect("written");
    std::fs::File::create(scene.path("large"))
        .and_then(|it| it.set_len(200 << 20))
        .expect("a hole");
    std::fs::create_dir(scene.path("folder")).expect("a folder");
    let nested = "a.".repeat(3000) + "b=1";
    let deep = format!("a:={}1{}", "[".repeat(5000), "]".repeat(5000));
    for words in [
        &["text=@bytes"][..],
        &["text=@large"],
        &["text=@folder"],
        &["text=@/dev/zero"],
        &["text=@"],
        &["text=@\u{1b}[2J"],
        &[&nested],
        &[&deep],
        &["{\"text\": 1} trailing"],
        &["[1]"],
        &["text"],
        &["text=a", "text=b"],
        &["text=a", "text.b=c"],
        &["text:=nul"],
        &["limit:=1e400"],
        &["limit:=-1"],
        &["limit=one"],
        &["subject:={}"],
    ] {
        let all = [&["call", "mcp__s__tool_0"][..], words].concat();
        let ran = scene.swb(&all);
        let about: String = words.concat().chars().take(100).collect();
        assert_eq!(ran.code, 2, "{about}: {}", ran.to_snapshot());
        assert!(!ran.to_snapshot().contains('\u{1b}'), "{about}: {}", ran.to_snapshot());
    }
    let audit = json_of(&scene, &["audit", "--json", "--outcome", "ok"]);
    assert_eq!(audit["calls"], json!([]));
}

#[test]
fn invalid_scripted_answers_are_refused_before_any_server_starts() {
    let scene = scene_with_server(&Script::legacy());
    for text in [
        "",
        "[1]",
        "5",
        "{\"answers\": 5}",
        "{\"answers\": [5]}",
        "{\"answers\": [{\"server\": 5}]}",
        "{\"answers\": [{\"action\": \"perhaps\"}]}",
        "\u{feff}{",
    ] {
        scene.write("answers.json", text);
        let ran = scene.swb(&["call", "mcp__s__ask", "kind=booking", "--answers", "answers.json"]);
        assert_eq!(ran.code, 2, "{text}: {}", ran.to_snapshot());
    }
    std::fs::File::create(scene.path("answers.json"))
        .and_then(|it| it.set_len(1 << 30))
        .expect("a hole");
    let ran = scene.swb(&["call", "mcp__s__ask", "kind=booking", "--answers", "answers.json"]);
    assert!(ran.expect_failure(2).contains("larger"), "{}", ran.to_snapshot());
    let ran = scene.swb(&["call", "mcp__s__ask", "kind=booking", "--answers", "/dev/zero"]);
    assert_eq!(ran.code, 2, "{}", ran.to_snapshot());
}
