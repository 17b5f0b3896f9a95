//! Programs that misbehave during the connect: their status and the reported failure.

use std::fs;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::catalogue::{ListIssueKind, ListKind};
use switchboard::connection::{RetryPolicy, Status};
use switchboard::wire::connect::Fallback;
use switchboard::{ConnectionFailure, Evidence, FailureKind};
use testkit::{Cursors, Quirk, Script, ScriptedProgram, processes};

use crate::support::{TIMEOUT, TestHost, cause, is_connected, tools, with_member};

/// Long enough for a program to start on a busy machine, short enough to wait for.
const SHORT: u64 = 1500;

fn stderr_of(cause: &ConnectionFailure) -> String {
    let stderr_of = cause.evidence.iter().find_map(|it| match it {
        Evidence::Stderr(text) => Some(text.clone()),
        Evidence::NotAMessage(_)
        | Evidence::SearchedPath(_)
        | Evidence::Body(_)
        | Evidence::Challenge(_)
        | Evidence::RetryAfter(_)
        | Evidence::Detail(_) => None,
    });
    stderr_of.unwrap_or_default()
}

fn exited(code: i32) -> FailureKind {
    FailureKind::Exited { code: Some(code), signal: None }
}

#[tokio::test]
async fn a_program_without_a_handshake_reports_the_cause() {
    let test_host = TestHost::with(|options| {
        options.retry_policy = RetryPolicy::NoRetry;
        options.max_concurrent_local = 20;
    });
    let silent = FailureKind::Timeout(Duration::from_millis(SHORT));
    let on_start = |quirk| Script::legacy().quirk(quirk).quirks_on("initialize");
    let cases = [
        (
            "at-once",
            Script::legacy()
                .quirk(Quirk::StderrLines { n: 3 })
                .quirk(Quirk::ExitsAtOnce { code: 3 }),
            exited(3),
        ),
        ("first", Script::legacy().quirk(Quirk::ExitsOnFirstMessage), exited(70)),
        ("half", on_start(Quirk::TruncatesAnswer), exited(70)),
        ("mute", Script::legacy().quirk(Quirk::NeverAnswers), silent.clone()),
        ("wrong-ids", Script::legacy().quirk(Quirk::WrongIds), silent),
        (
            "holds-on",
            Script::legacy()
                .quirk(Quirk::ForksGrandchildren { n: 1 })
                .quirk(Quirk::ExitsOnFirstMessage),
            exited(70),
        ),
    ];
    let servers: Vec<(&str, String)> = cases
        .iter()
        .map(|(name, script, _)| {
            (
                *name,
                with_member(&ScriptedProgram::config_entry(script), "connectTimeout", json!(SHORT)),
            )
        })
        .collect();
    test_host.apply(&servers).await;
    let snapshot = test_host.settled().await;
    for (name, _, expected) in &cases {
        let view = &snapshot.servers[*name];
        assert!(matches!(view.status, Status::Failed(_)), "{name}: {view:#?}");
        assert_eq!(&cause(view).kind, expected, "{name}: {view:#?}");
    }
    assert_eq!(
        stderr_of(cause(&snapshot.servers["at-once"])),
        "line 1 of 3\nline 2 of 3\nline 3 of 3"
    );
    test_host.stop().await;
}

#[tokio::test]
async fn a_program_that_cannot_be_started_reports_what_was_tried() {
    let test_host = TestHost::without_retries();
    let plain = test_host.folder.path().join("plain.txt");
    fs::write(&plain, "no program").expect("a file");
    let plain = plain.canonicalize().expect("it is there").display().to_string();
    test_host
        .apply(&[
            ("absent", r#"{"command": "no-such-program-anywhere"}"#.to_owned()),
            ("homeless", r#"{"command": "sh", "cwd": "nowhere"}"#.to_owned()),
            ("plain", json!({"command": plain}).to_string()),
        ])
        .await;
    let snapshot = test_host.settled().await;
    let absent = cause(&snapshot.servers["absent"]);
    let command = "no-such-program-anywhere".to_owned();
    assert_eq!(absent.kind, FailureKind::CommandNotFound { command });
    let path = std::env::var("PATH").expect("a path");
    assert!(absent.evidence.contains(&Evidence::SearchedPath(path)), "{absent:?}");
    let homeless = cause(&snapshot.servers["homeless"]);
    assert!(
        matches!(&homeless.kind, FailureKind::FolderNotFound { folder } if folder.ends_with("nowhere")),
        "{homeless:?}"
    );
    let why = std::io::ErrorKind::PermissionDenied;
    assert_eq!(
        cause(&snapshot.servers["plain"]).kind,
        FailureKind::CommandNotRunnable { command: plain, why }
    );
    test_host.stop().await;
}

#[tokio::test]
async fn a_program_with_minor_faults_still_connects() {
    let test_host = TestHost::with(|options| {
        options.retry_policy = RetryPolicy::NoRetry;
        options.max_concurrent_local = 20;
    });
    let cases = [
        ("prints", Quirk::PrintsBeforeProtocol),
        ("garbage", Quirk::FloodsStdoutWithGarbage { lines: 20_000 }),
        ("duplicates", Quirk::DuplicateIds),
        ("twice", Quirk::AnswersTwice),
        ("batches", Quirk::AnswersInBatches),
        ("drips", Quirk::SlowDrip),
        ("unknown", Quirk::UnknownContent),
        ("bad-text", Quirk::BadUtf8),
    ];
    let mut servers = Vec::new();
    for (name, quirk) in cases {
        for (era, script) in [("legacy", Script::legacy()), ("modern", Script::modern())] {
            let script = script.tools(2).quirk(quirk.clone());
            servers.push((format!("{name}-{era}"), ScriptedProgram::config_entry(&script)));
        }
    }
    let pairs: Vec<(&str, String)> =
        servers.iter().map(|(name, entry)| (name.as_str(), entry.clone())).collect();
    test_host.apply(&pairs).await;
    let snapshot = test_host.settled().await;
    for (name, view) in &snapshot.servers {
        assert!(is_connected(view), "{name}: {view:#?}");
        assert!(tools(view).contains(&"tool_1"), "{name}: {view:#?}");
    }
    test_host.stop().await;
}

#[tokio::test]
async fn output_that_is_not_a_message_is_quoted() {
    let test_host = TestHost::without_retries();
    let garbage = "printf 'loading \\033[31mmodel\\n'; exec \"$@\"";
    let script = Script::legacy();
    let connects = json!({
        "command": "sh",
        "args": ["-c", garbage, "sh", testkit::scripted::program(), script.to_json()],
    });
    let exits =
        json!({"command": "sh", "args": ["-c", "echo usage: server FILE; read -r line; exit 2"]});
    test_host.apply(&[("connects", connects.to_string()), ("exits", exits.to_string())]).await;
    let snapshot = test_host.settled().await;
    let view = &snapshot.servers["connects"];
    assert!(is_connected(view), "{view:#?}");
    assert_eq!(view.malformed_output.as_deref(), Some("loading \u{1b}[31mmodel"));
    assert!(view.notes().iter().any(|note| note.contains("loading")), "{:?}", view.notes());
    let evidence = &cause(&snapshot.servers["exits"]).evidence;
    let quoted = Evidence::NotAMessage("usage: server FILE".to_owned());
    assert!(evidence.contains(&quoted), "{evidence:?}");
    let [_, log] = test_host.host.stderr_log().files("connects");
    let _folder = test_host.folder.clone();
    test_host.stop().await;
    let text = fs::read_to_string(log).expect("a log");
    assert!(text.contains("loading \\u{1b}[31mmodel"), "{text}");
}

#[tokio::test]
async fn a_program_that_exits_on_the_probe_is_restarted_and_not_probed_again() {
    let test_host = TestHost::without_retries();
    let journal = test_host.folder.path().join("journal");
    let script = Script::legacy().quirk(Quirk::ExitsOnProbe).journal(&journal);
    let servers = [("shy", ScriptedProgram::config_entry(&script))];
    test_host.apply(&servers).await;
    let view = test_host.view("shy").await;
    assert!(is_connected(&view), "{view:#?}");
    assert_eq!(view.fallback, Some(Fallback::Restarted));
    let folder = test_host.folder.clone();
    test_host.stop().await;
    let probes = || {
        let received = testkit::scripted::read_journal(&journal);
        received.iter().filter(|it| it["method"] == "server/discover").count()
    };
    assert_eq!(probes(), 1);
    let again = TestHost::in_folder(folder, |_| {});
    again.apply(&servers).await;
    let view = again.view("shy").await;
    assert!(is_connected(&view), "{view:#?}");
    assert_eq!((view.fallback, probes()), (None, 1));
    again.stop().await;
}

#[tokio::test]
async fn an_endless_message_is_rejected_and_not_buffered() {
    let test_host = TestHost::without_retries();
    let flood = "read -r line; head -c 69206016 /dev/zero; cat >/dev/null";
    test_host.apply(&[("huge", json!({"command": "sh", "args": ["-c", flood]}).to_string())]).await;
    let view = test_host.view("huge").await;
    assert_eq!(cause(&view).kind, FailureKind::MessageTooLarge(64 << 20), "{view:#?}");
    test_host.stop().await;
}

fn resident_kilobytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|it| it.parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_stderr_flood_costs_neither_time_nor_memory() {
    let test_host = TestHost::without_retries();
    let flood = "head -c 209715200 /dev/zero | tr '\\0' 'x' >&2; exec \"$@\"";
    let script = Script::legacy().quirk(Quirk::StderrLines { n: 2 });
    let entry = json!({
        "command": "sh",
        "args": ["-c", flood, "sh", testkit::scripted::program(), script.to_json()],
    });
    let before = resident_kilobytes();
    test_host.apply(&[("loud", entry.to_string())]).await;
    let view = test_host.view("loud").await;
    assert!(is_connected(&view), "{view:#?}");
    let grown = resident_kilobytes().saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} kB more");
    let files = test_host.host.stderr_log().files("loud");
    let _folder = test_host.folder.clone();
    test_host.stop().await;
    let logged_bytes: u64 =
        files.iter().filter_map(|it| fs::metadata(it).ok()).map(|it| it.len()).sum();
    assert!((1..=65 << 20).contains(&logged_bytes), "{logged_bytes} bytes on disk");
}

#[tokio::test]
async fn a_programs_stderr_output_is_in_its_log() {
    let test_host = TestHost::without_retries();
    let script = Script::legacy().quirk(Quirk::StderrLines { n: 500 });
    test_host.apply(&[("talks", ScriptedProgram::config_entry(&script))]).await;
    test_host.view("talks").await;
    let [_, newer] = test_host.host.stderr_log().files("talks");
    let _folder = test_host.folder.clone();
    test_host.stop().await;
    let text = fs::read_to_string(newer).expect("a log");
    assert!(text.contains("line 1 of 500\n") && text.contains("line 500 of 500\n"), "{text}");
    assert!(text.contains("] connected after "), "{text}");
}

#[tokio::test]
async fn a_stubborn_program_is_killed_with_its_descendants() {
    let test_host = TestHost::new();
    let marker = format!("ZOO_MARK=stubborn-{}", std::process::id());
    let env = json!({"ZOO_MARK": marker.strip_prefix("ZOO_MARK=")});
    let entry = |quirks: &[Quirk]| {
        let script = quirks.iter().fold(Script::legacy(), |it, quirk| it.quirk(quirk.clone()));
        with_member(&ScriptedProgram::config_entry(&script), "env", env.clone())
    };
    test_host
        .apply(&[
            ("deaf", entry(&[Quirk::IgnoresSigterm, Quirk::IgnoresStdinClose])),
            ("open", entry(&[Quirk::IgnoresStdinClose])),
            ("parent", entry(&[Quirk::ForksGrandchildren { n: 3 }])),
        ])
        .await;
    let snapshot = test_host.settled().await;
    assert!(snapshot.servers.values().all(|it| is_connected(it)), "{snapshot:#?}");
    processes::wait_until(TIMEOUT, "all processes are running", || {
        (processes::processes_with_environment(&marker).len() == 7).then_some(())
    });
    test_host.stop().await;
    assert_eq!(processes::processes_with_environment(&marker), [0; 0]);
}

#[tokio::test]
async fn descendants_outside_the_process_group_are_killed_too() {
    let test_host = TestHost::without_retries();
    let marker = format!("ZOO_MARK=mute-{}", std::process::id());
    let script =
        Script::legacy().quirk(Quirk::ForksGrandchildren { n: 1 }).quirk(Quirk::NeverAnswers);
    let env = json!({"ZOO_MARK": marker.strip_prefix("ZOO_MARK=")});
    let entry = with_member(&ScriptedProgram::config_entry(&script), "env", env);
    let there = |count: usize| {
        processes::wait_until(TIMEOUT, "as many are there", || {
            (processes::processes_with_environment(&marker).len() == count).then_some(())
        });
    };
    test_host.apply(&[("mute", entry.clone())]).await;
    tokio::task::yield_now().await;
    let until_there = async {
        let mut watch = test_host.host.watch();
        loop {
            if processes::processes_with_environment(&marker).len() == 3 {
                return;
            }
            let _woken = tokio::time::timeout(Duration::from_millis(20), watch.changed()).await;
        }
    };
    tokio::time::timeout(TIMEOUT, until_there).await.expect("it starts");
    // Removed in the middle of the first request.
    test_host.apply(&[]).await;
    test_host.stop().await;
    there(0);
}

#[tokio::test]
async fn a_program_that_closes_its_output_fails_at_once() {
    let test_host = TestHost::without_retries();
    let script = Script::legacy().quirk(Quirk::ClosesStreamMidAnswer).quirks_on("initialize");
    test_host.apply(&[("closes", ScriptedProgram::config_entry(&script))]).await;
    let view = test_host.view("closes").await;
    // It exits when its input closes, or a little later.
    assert!([FailureKind::Closed, exited(0)].contains(&cause(&view).kind), "{view:#?}");
    test_host.stop().await;
}

#[tokio::test]
async fn endless_lists_are_truncated_and_marked() {
    let test_host = TestHost::without_retries();
    // Only resources: fetching endless tools would take long, and all lists behave alike.
    let endless = |cursors| {
        let script = Script::legacy().quirk(Quirk::FailsToolList).prompts(3);
        ScriptedProgram::config_entry(&script.quirk(Quirk::EndlessPages { cursors }))
    };
    test_host.apply(&[("same", endless(Cursors::Same)), ("fresh", endless(Cursors::Fresh))]).await;
    let snapshot = test_host.settled().await;
    for (name, oddity, count) in
        [("same", ListIssueKind::CursorLoop, 3), ("fresh", ListIssueKind::Unbounded, 6000)]
    {
        let view = &snapshot.servers[name];
        assert!(is_connected(view), "{name}: {:?}", view.status);
        let issues: Vec<_> = view.catalogue.issues().map(|it| (it.list, &it.kind)).collect();
        assert!(issues.contains(&(ListKind::Prompts, &oddity)), "{name}: {issues:?}");
        assert_eq!(view.catalogue.items(ListKind::Prompts).len(), count, "{name}");
    }
    test_host.stop().await;
}

/// Responds from files: `initialize`, and a page of tools for each cursor.
const PAGED: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  cursor=0
  case $line in *'"cursor":"'*) cursor=${line#*\"cursor\":\"}; cursor=${cursor%%\"*} ;; esac
  case $line in
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,' "$id"; cat "page-$cursor" ;;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,' "$id"; cat begin ;;
    *'"id"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}" ;;
  esac
done"#;

#[tokio::test]
async fn ten_thousand_tools_in_pages_are_all_fetched() {
    let test_host = TestHost::without_retries();
    let write = |name: &str, result: Json| {
        let text = json!({"result": result}).to_string();
        let path = test_host.folder.path().join(name);
        fs::write(path, format!("{}\n", &text[1..])).expect("a file");
    };
    let server = json!({"name": "paged", "version": "1"});
    write(
        "begin",
        json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}),
    );
    for page in 0..100 {
        let tools: Vec<Json> = (page * 100..page * 100 + 100)
            .map(|it| json!({"name": format!("tool_{it}"), "inputSchema": {"type": "object"}}))
            .collect();
        let mut result = json!({"tools": tools});
        if page < 99 {
            result["nextCursor"] = json!((page + 1).to_string());
        }
        write(&format!("page-{page}"), result);
    }
    test_host.apply(&[("s", json!({"command": "sh", "args": ["-c", PAGED]}).to_string())]).await;
    let view = test_host.view("s").await;
    let names = tools(&view);
    assert_eq!(names.len(), 10_000, "{:?}", view.status);
    assert_eq!((names[0], names[9_999]), ("tool_0", "tool_9999"));
    assert_eq!(view.catalogue.issues().count(), 0);
    test_host.stop().await;
}

#[tokio::test]
async fn an_invalid_list_is_dropped_and_the_server_stays() {
    let test_host = TestHost::without_retries();
    test_host
        .apply(&[
            (
                "misshapen",
                ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::BadToolSchema)),
            ),
            (
                "secretive",
                ScriptedProgram::config_entry(
                    &Script::legacy().prompts(1).quirk(Quirk::FailsToolList),
                ),
            ),
        ])
        .await;
    let snapshot = test_host.settled().await;
    let issues = |name: &str| {
        let view = &snapshot.servers[name];
        assert!(is_connected(view), "{view:#?}");
        view.catalogue.issues().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(issues("misshapen"), "1 of tools left out: no name, or one that is taken");
    assert!(
        issues("secretive").starts_with("tools could not be listed: "),
        "{}",
        issues("secretive")
    );
    assert_eq!(snapshot.servers["secretive"].catalogue.items(ListKind::Prompts).len(), 1);
    test_host.stop().await;
}

#[tokio::test]
async fn a_program_gets_its_configured_variables_and_no_inherited_credentials() {
    let test_host = TestHost::with(|options| {
        for name in ["GITHUB_TOKEN", "ANTHROPIC_API_KEY", "MY_PASSWORD", "PLAIN"] {
            options.env.variables.insert(name.to_owned(), "inherited".to_owned());
        }
    });
    let env = json!({"SLACK_TOKEN": "its own"});
    let entry = with_member(&ScriptedProgram::config_entry(&Script::legacy()), "env", env);
    test_host.apply(&[("s", entry)]).await;
    let seen = test_host.call_idempotent("s", "env", json!({})).await.expect("a result");
    let names: Vec<&str> =
        seen["names"].as_array().expect("a list").iter().filter_map(|it| it.as_str()).collect();
    for expected in ["SLACK_TOKEN", "PLAIN", "PATH"] {
        assert!(names.contains(&expected), "{names:?}");
    }
    for unwanted in ["GITHUB_TOKEN", "ANTHROPIC_API_KEY", "MY_PASSWORD", "HOME"] {
        assert!(!names.contains(&unwanted), "{names:?}");
    }
    test_host.stop().await;
}
