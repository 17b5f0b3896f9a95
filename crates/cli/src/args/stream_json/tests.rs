//! The command lines of the public agent SDKs, as they write them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use switchboard::config::permission::PermissionMode;
use switchboard::sources::loader::{SettingSources, SourceUse};

use super::parse;
use crate::args::Cli;
use crate::commands::print::{EffortLevel, OutputFormat, PromptTool, ThinkingMode};
use crate::invocation::session_flags::ToolSelection;

/// What programs of both SDKs begin with.
const START: [&str; 5] =
    ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

fn words(options: &[&str]) -> Vec<OsString> {
    std::iter::once("swb").chain(options.iter().copied()).map(OsString::from).collect()
}

/// Parses a command line that has no unknown options.
#[track_caller]
fn parsed(options: &[&str]) -> Cli {
    let parsed = parse(words(options)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(parsed.ignored, [""; 0]);
    parsed.cli
}

#[track_caller]
fn refused(options: &[&str]) -> ErrorKind {
    parse(words(options)).expect_err("it is refused").kind()
}

#[test]
fn the_plain_command_lines_of_both_sdks_are_parsed() {
    let python = [
        "--output-format",
        "stream-json",
        "--verbose",
        "--system-prompt",
        "",
        "--input-format",
        "stream-json",
    ];
    for options in [&python[..], &START] {
        let conversation = parsed(options).conversation;
        assert!(conversation.sdk.reads_stream_json() && conversation.sdk.verbose);
        assert!(conversation.is_without_screen() && conversation.print.is_none());
        assert_eq!(conversation.output_format, Some(OutputFormat::StreamJson));
        assert_eq!(conversation.sdk.tool_selection(), ToolSelection::All);
    }
    assert_eq!(parsed(&python).conversation.system_prompt.as_deref(), Some(""));
}

#[test]
fn every_option_of_the_python_sdk_is_parsed() {
    let mut options = vec!["--output-format", "stream-json", "--verbose"];
    options.extend(["--append-system-prompt", "- be brief", "--tools", "Read,Bash"]);
    options.extend(["--allowedTools", "Read,Bash(git status:*)", "--max-turns", "3"]);
    options.extend(["--max-budget-usd", "0.5", "--disallowedTools", "Write,mcp__s__t"]);
    options.extend(["--task-budget", "1000", "--model", "m", "--fallback-model", "n"]);
    options.extend(["--betas", "a,b", "--permission-prompt-tool", "stdio"]);
    options.extend(["--permission-mode", "acceptEdits", "--resume=abc", "--session-id=s-1"]);
    options.extend(["--settings", r#"{"sandbox": {"enabled": true}}"#, "--add-dir", "/a"]);
    options.extend(["--add-dir", "/b", "--mcp-config", r#"{"mcpServers": {}}"#]);
    options.extend(["--include-partial-messages", "--include-hook-events"]);
    options.extend(["--strict-mcp-config", "--fork-session", "--resume-session-at=u"]);
    options.extend(["--resume-drops-turn=", "--session-mirror"]);
    options.extend(["--setting-sources=user,project", "--plugin-dir", "/p", "--plugin-dir", "/q"]);
    options.extend(["--max-thinking-tokens", "2048", "--thinking-display", "summarized"]);
    options.extend(["--effort", "xhigh", "--json-schema", r#"{"type": "object"}"#]);
    options.extend(["--input-format", "stream-json"]);
    let cli = parsed(&options);
    let conversation = cli.conversation;
    let sdk = &conversation.sdk;
    assert_eq!(conversation.append_system_prompt.as_deref(), Some("- be brief"));
    let tools = ["Read", "Bash"].map(str::to_owned).to_vec();
    assert_eq!(sdk.tool_selection(), ToolSelection::Named(tools));
    assert_eq!(conversation.allowed_tools, ["Read,Bash(git status:*)"]);
    assert_eq!(sdk.disallowed_tools, ["Write,mcp__s__t"]);
    assert_eq!((conversation.max_turns, sdk.max_budget_usd), (Some(3), Some(0.5)));
    assert_eq!(conversation.model.as_deref(), Some("m"));
    assert_eq!(sdk.fallback_model.as_deref(), Some("n"));
    assert_eq!(sdk.permission_prompt_tool, Some(PromptTool::Stdio));
    assert_eq!(conversation.mode(), Some(PermissionMode::AcceptEdits));
    assert_eq!(conversation.resume.as_deref(), Some("abc"));
    assert_eq!(sdk.session_id.as_deref(), Some("s-1"));
    assert!(sdk.fork_session && sdk.include_partial_messages && sdk.include_hook_events);
    assert_eq!(sdk.settings.as_deref(), Some(r#"{"sandbox": {"enabled": true}}"#));
    assert_eq!(sdk.add_dir, [PathBuf::from("/a"), PathBuf::from("/b")]);
    assert_eq!(cli.global.plugin_dir, [PathBuf::from("/p"), PathBuf::from("/q")]);
    assert_eq!(cli.global.mcp_config, [r#"{"mcpServers": {}}"#]);
    assert!(cli.global.strict_mcp_config);
    let sources = SettingSources { local: SourceUse::Ignored, ..SettingSources::default() };
    assert_eq!(sdk.setting_sources, Some(sources));
    assert_eq!((sdk.max_thinking_tokens, sdk.effort), (Some(2048), Some(EffortLevel::ExtraHigh)));
    assert_eq!(sdk.json_schema, Some(serde_json::json!({"type": "object"})));
    assert_eq!(sdk.limit_notices().len(), 2);
    assert_eq!(sdk.unavailable_resume_option(), Some("--resume-session-at"));
    assert_eq!(sdk.unused_options(), ["--betas", "--thinking-display", "--session-mirror"]);
}

#[test]
fn every_option_of_the_typescript_sdk_is_parsed() {
    let mut options = START.to_vec();
    options.extend(["--thinking=adaptive", "--thinking-display=omitted", "--effort=max"]);
    options.extend(["--max-turns=2", "--max-budget-usd=1", "--task-budget=5", "--model=m"]);
    options.extend(["--agent=a", "--betas=b", "--json-schema={}", "--debug-file=/d.log"]);
    options.extend(["--permission-prompt-tool=mcp__s__t", "--permission-prompts=none"]);
    options.extend(["--continue", "--channels=plugin:a@b", "--channels=server:c"]);
    options.extend(["--allowedTools=Read", "--disallowedTools=Write", "--tools=default"]);
    options.extend(["--mcp-config", r#"{"mcpServers": {}}"#, "--setting-sources="]);
    options.extend(["--strict-mcp-config", "--permission-mode=bypassPermissions"]);
    options.extend(["--allow-dangerously-skip-permissions", "--fallback-model=n"]);
    options.extend(["--include-hook-events", "--include-partial-messages", "--session-mirror"]);
    options.extend(["--project-config-root=/r", "--add-dir=/a", "--add-dir=/b"]);
    options.extend(["--await-initialize", "--plugin-dir-no-mcp=/p", "--plugin-dir=/q"]);
    options.extend(["--fork-session", "--resume-session-at=u", "--resume-drops-turn=v"]);
    options.extend(["--session-id=s", "--no-session-persistence"]);
    options.extend(["--initialize-fields=settings,disallowedTools"]);
    options.extend(["--managed-settings-in-initialize", "--managed-settings", "{}"]);
    options.extend(["--settings", "/etc/x.json", "--debug", "--replay-user-messages"]);
    let conversation = parsed(&options).conversation;
    let sdk = &conversation.sdk;
    assert_eq!((sdk.thinking, sdk.effort), (Some(ThinkingMode::Adaptive), Some(EffortLevel::Max)));
    let tool = PromptTool::Tool("mcp__s__t".to_owned());
    assert_eq!(sdk.permission_prompt_tool, Some(tool));
    assert!(conversation.continue_last && sdk.no_session_persistence && sdk.await_initialize);
    assert_eq!(channels(&conversation), ["plugin:a@b", "server:c"]);
    assert_eq!(sdk.tool_selection(), ToolSelection::All);
    let nothing = SourceUse::Ignored;
    let sources = SettingSources { user: nothing, project: nothing, local: nothing };
    assert_eq!(sdk.setting_sources, Some(sources));
    assert_eq!(conversation.mode(), Some(PermissionMode::Bypass));
    assert_eq!(sdk.initialize_fields, ["settings", "disallowedTools"]);
    assert_eq!(sdk.debug.as_deref(), Some(""));
    let global = sdk.with_log(crate::invocation::options::GlobalOptions::default());
    assert_eq!(global.log.as_deref(), Some("debug"));
    assert_eq!(global.log_file, Some(PathBuf::from("/d.log")));
}

#[test]
fn both_ways_to_write_a_value_and_both_spellings_mean_the_same() {
    for pair in [
        ["--allowedTools", "a,b"],
        ["--allowed-tools", "a,b"],
        ["--disallowedTools", "a,b"],
        ["--disallowed-tools", "a,b"],
        ["--permissionMode", "plan"],
        ["--permission-mode", "plan"],
        ["--maxTurns", "3"],
        ["--tools", ""],
        ["--setting-sources", ""],
        ["--append-system-prompt", "-"],
        ["--max-thinking-tokens", "0"],
        ["--thinking", "disabled"],
        ["--add-dir", "x"],
    ] {
        let joined = pair.join("=");
        let of = |options: &[&str]| parsed(&[&START, options].concat()).conversation;
        assert_eq!(format!("{:?}", of(&pair)), format!("{:?}", of(&[&joined])), "{pair:?}");
        let plain = format!("{:?}", of(&[]));
        assert_ne!(format!("{:?}", of(&pair)), plain, "{pair:?}");
    }
}

#[test]
fn unknown_options_are_left_out_with_their_values_where_a_program_sends_stream_json() {
    let options = [
        &["--future", "value", "--other=value", "--flag"],
        &START[..],
        &["--lonely", "--model", "m", "-x", "--last"],
    ];
    let parsed = parse(words(&options.concat())).expect("it is parsed");
    assert_eq!(parsed.ignored, ["--future", "--other", "--flag", "--lonely", "-x", "--last"]);
    assert_eq!(parsed.cli.conversation.model.as_deref(), Some("m"));
    assert!(parsed.cli.command.is_none());
}

#[test]
fn a_word_that_belongs_to_no_option_is_left_out_where_a_program_sends_stream_json() {
    let options =
        ["--channels", "plugin:a@b", "server:c", "--debug", "api", "list", "-", "--", "x"];
    let parsed = parse(words(&[&START[..], &options].concat())).expect("it is parsed");
    assert_eq!(parsed.ignored, ["api", "list", "-", "x"]);
    assert!(parsed.cli.command.is_none());
    assert_eq!(channels(&parsed.cli.conversation), ["plugin:a@b", "server:c"]);
    assert_eq!(parsed.cli.conversation.sdk.debug.as_deref(), Some(""));
    // In front, the word is a command, which has none of these options.
    let error = parse(words(&[&["list"], &START[..]].concat())).expect_err("no such option");
    assert_eq!(error.kind(), ErrorKind::UnknownArgument);
}

#[test]
fn a_prompt_in_front_of_stream_json_is_kept() {
    let parsed = parsed(&[&START[..], &["-p", "hello"]].concat());
    assert_eq!(parsed.conversation.print.as_deref(), Some("hello"));
}

#[test]
fn the_last_value_of_a_repeated_option_counts_where_a_program_sends_stream_json() {
    let repeated = ["--model", "a", "--debug", "--model=b", "--debug=x", "--verbose"];
    let conversation = parsed(&[&START[..], &repeated].concat()).conversation;
    assert_eq!(conversation.model.as_deref(), Some("b"));
    assert_eq!(conversation.sdk.debug.as_deref(), Some("x"));
    assert_eq!(refused(&["-p", "x", "--model", "a", "--model", "b"]), ErrorKind::ArgumentConflict);
}

#[test]
fn a_value_that_looks_like_an_option_stays_a_value() {
    let options = ["--system-prompt", "--future", "--resume=--model"];
    let conversation = parsed(&[&START[..], &options].concat()).conversation;
    assert_eq!(conversation.system_prompt.as_deref(), Some("--future"));
    assert_eq!(conversation.resume.as_deref(), Some("--model"));
    assert_eq!(conversation.model, None);
}

#[test]
fn a_person_is_told_about_unknown_options() {
    assert_eq!(refused(&["-p", "x", "--future"]), ErrorKind::UnknownArgument);
    assert_eq!(refused(&["list", "--permissionMode=plan"]), ErrorKind::UnknownArgument);
    let text = ["-p", "x", "--input-format", "text", "--future"];
    assert_eq!(refused(&text), ErrorKind::UnknownArgument);
    assert_eq!(refused(&["--input-format", "text"]), ErrorKind::MissingRequiredArgument);
}

#[test]
fn options_of_a_run_without_a_screen_need_a_prompt_or_stream_json() {
    let refusal = refused(&["--output-format", "json"]);
    assert_eq!(refusal, ErrorKind::MissingRequiredArgument);
    parsed(&["-p", "x", "--output-format", "json", "--max-turns", "2"]);
    parsed(&["--print", "--output-format", "json", "--input-format", "stream-json"]);
    assert_eq!(refused(&[&START[..], &["--plain"]].concat()), ErrorKind::ArgumentConflict);
}

#[test]
fn invalid_values_are_refused_even_where_unknown_options_are_not() {
    for option in [
        "--effort=huge",
        "--json-schema=[]",
        "--json-schema={",
        "--max-budget-usd=-1",
        "--max-budget-usd=inf",
        "--max-thinking-tokens=many",
        "--setting-sources=users",
        "--permission-mode=never",
        "--max-turns=0",
    ] {
        let kind = refused(&[&START[..], &[option]].concat());
        assert!(
            matches!(kind, ErrorKind::ValueValidation | ErrorKind::InvalidValue),
            "{option}: {kind:?}"
        );
    }
    for mode in ["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto"] {
        parsed(&[&START[..], &["--permission-mode", mode]].concat());
    }
}

fn channels(conversation: &crate::commands::print::ConversationArgs) -> Vec<String> {
    conversation.channels.channels.iter().map(ToString::to_string).collect()
}

#[test]
fn channels_are_written_with_spaces_between_them_and_checked() {
    let plugins = ["--channels", "plugin:a@b", "plugin:c@d", "--model", "m"];
    let conversation = parsed(&plugins).conversation;
    assert_eq!(channels(&conversation), ["plugin:a@b", "plugin:c@d"]);
    assert_eq!(conversation.model.as_deref(), Some("m"));
    let repeated = parsed(&["--channels", "plugin:a@b", "--channels=plugin:c@d"]).conversation;
    assert_eq!(channels(&repeated), ["plugin:a@b", "plugin:c@d"]);
    let option = "--dangerously-load-development-channels";
    let development = parsed(&[&START[..], &[option, "server:a", "plugin:b@c"]].concat());
    let development = development.conversation.channels.dangerously_load_development_channels;
    assert_eq!(development.len(), 2);
    for wrong in ["fakechat", "plugin:fakechat", "server:a b", "list"] {
        assert_eq!(refused(&["--channels", wrong]), ErrorKind::ValueValidation, "{wrong}");
        let program = [&START[..], &["--channels", wrong]].concat();
        assert_eq!(refused(&program), ErrorKind::ValueValidation, "{wrong}");
    }
}
