//! Servers, their states and policy decisions as text. Secrets are masked here.

use switchboard::config::display;
use switchboard::config::entry::server::{StdioConfig, TransportConfig};
use switchboard::config::merge::{Exclusion, PendingReason, ResolvedServer, ServerState};
use switchboard::config::policy::{CommandDoubt, Matcher, MatcherKind, PolicyRule, Refusal};
use switchboard::config::problem::Severity;
use switchboard::config::scope::Scope;
use switchboard::config::template;
use switchboard::config::template::{LiteralText, ShownText};
use switchboard::sources::loader::SourceContent;

use crate::env::ProcessEnv;
use crate::output::style::TextStyle;
use switchboard::config::display::{pluralize, printable};

/// The name of a state in JSON.
pub fn state_id(state: &ServerState) -> &'static str {
    match state {
        ServerState::Ready => "ready",
        ServerState::Pending(_) => "pending",
        ServerState::Rejected => "rejected",
        ServerState::Refused(_) => "refused",
        ServerState::Disabled(_) => "disabled",
        ServerState::Shadowed { .. } => "shadowed",
        ServerState::Duplicate { .. } => "duplicate",
        ServerState::Excluded(_) => "left-out",
        ServerState::NeedsConfig(_) => "needs-config",
        ServerState::Invalid => "invalid",
    }
}

/// The style of a state.
pub fn state_style(state: &ServerState) -> TextStyle {
    match state {
        ServerState::Ready => TextStyle::Success,
        ServerState::Pending(_) | ServerState::NeedsConfig(_) => TextStyle::Warning,
        ServerState::Refused(_) | ServerState::Invalid => TextStyle::Error,
        ServerState::Rejected
        | ServerState::Disabled(_)
        | ServerState::Shadowed { .. }
        | ServerState::Duplicate { .. }
        | ServerState::Excluded(_) => TextStyle::Dim,
    }
}

/// A state in a few words, for tables.
pub fn state_text(state: &ServerState) -> String {
    match state {
        ServerState::Ready => "ready to start".to_owned(),
        ServerState::Pending(PendingReason::New) => "pending approval".to_owned(),
        ServerState::Pending(PendingReason::Changed) => "pending approval: changed".to_owned(),
        ServerState::Pending(PendingReason::ProgramChanged) => {
            "pending approval: other program".to_owned()
        }
        ServerState::Rejected => "rejected".to_owned(),
        ServerState::Refused(_) => "refused by policy".to_owned(),
        ServerState::Disabled(_) => "disabled".to_owned(),
        ServerState::Shadowed { by } => format!("shadowed by {}", by.scope()),
        ServerState::Duplicate { of, .. } => format!("same as {}", display::printable(of)),
        ServerState::Excluded(Exclusion::ManagedFile(_)) => {
            "left out: enterprise control".to_owned()
        }
        ServerState::Excluded(Exclusion::Strict) => "left out: --strict-mcp-config".to_owned(),
        ServerState::NeedsConfig(_) => "needs config".to_owned(),
        ServerState::Invalid => "invalid".to_owned(),
    }
}

/// Why a server is in its state, with the position that decided and what to do.
pub fn state_reason(env: &ProcessEnv, server: &ResolvedServer) -> Option<String> {
    let name = display::printable(&server.name);
    match &server.state {
        ServerState::Ready => None,
        ServerState::Pending(PendingReason::New) => Some(match server.plugin {
            None => {
                format!("servers of a project run only after you approve them: swb approve {name}")
            }
            Some(_) => {
                format!("servers of a plugin run only after you approve them: swb approve {name}")
            }
        }),
        ServerState::Pending(PendingReason::Changed) => {
            Some(format!("it changed since you approved it; look at it, then: swb approve {name}"))
        }
        ServerState::Pending(PendingReason::ProgramChanged) => {
            let now = match &server.program {
                Some(program) => display::printable(&program.to_string_lossy()),
                None => "no program".to_owned(),
            };
            Some(format!(
                "its command runs {now} now, not the program that you approved; look at it, then: swb approve {name}"
            ))
        }
        ServerState::Rejected => {
            Some("you rejected it; `swb reset-project-choices` forgets that".to_owned())
        }
        ServerState::Refused(refusal) => Some(refusal_text(env, refusal)),
        ServerState::Disabled(origin) => {
            Some(format!("disabled in {}", env.display_origin(origin)))
        }
        ServerState::Shadowed { by } => Some(format!(
            "the {} scope defines the same name in {}",
            by.scope(),
            env.display_origin(by)
        )),
        ServerState::Duplicate { of, by } => Some(format!(
            "`{}` in {} is the same server",
            display::printable(of),
            env.display_origin(by)
        )),
        ServerState::Excluded(Exclusion::ManagedFile(source)) => {
            let file = env.display_source(source);
            Some(format!("{file} has exclusive control"))
        }
        ServerState::Excluded(Exclusion::Strict) => {
            Some("--strict-mcp-config leaves only --mcp-config".to_owned())
        }
        ServerState::NeedsConfig(keys) => {
            let keys: Vec<String> = keys.iter().map(|key| printable(key)).collect();
            let values: Vec<String> =
                keys.iter().map(|key| shell_quoted(&format!("{key}=VALUE"))).collect();
            let (owner, command) = match (server.scope(), &server.bundle) {
                (Scope::Plugin, None) => ("plugin", "plugin"),
                (Scope::Plugin, Some(_)) => ("bundle", "plugin"),
                (_, _) => ("bundle", "bundle"),
            };
            Some(format!(
                "its {owner} needs {}; set {}: swb {command} configure {name} {}",
                keys.join(", "),
                if keys.len() == 1 { "it" } else { "them" },
                values.join(" ")
            ))
        }
        ServerState::Invalid => server
            .problems
            .iter()
            .find(|problem| problem.severity() == Severity::Error)
            .map(|problem| display::printable(&problem.kind.to_string())),
    }
}

/// Why a policy refuses a server, with the position of the rule.
pub fn refusal_text(env: &ProcessEnv, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Denied(rule) => {
            format!("denied by {} ({})", env.display_origin(&rule.origin), rule_text(rule))
        }
        Refusal::CommandNotCovered { rule, doubt } => {
            let place = env.display_origin(&rule.origin);
            format!("{place} ({}) does not cover it: {}", rule_text(rule), doubt_text(env, doubt))
        }
        Refusal::EmptyList(origin) => {
            format!("the allow list in {} is empty", env.display_origin(origin))
        }
        Refusal::Unreadable(source) => {
            let file = env.display_source(source);
            format!("{file} is invalid, so no server may run until it is fixed")
        }
        Refusal::NotAllowed { lists, required: needed } => {
            let lists: Vec<String> = lists.iter().map(|it| env.display_origin(it)).collect();
            let kind = match needed {
                MatcherKind::Any => "no entry",
                MatcherKind::Command => "no `serverCommand` entry",
                MatcherKind::Url => "no `serverUrl` entry",
            };
            format!("{kind} of the allow list in {} matches", lists.join(" and "))
        }
    }
}

/// Why an allow rule for a command does not cover a server with that command.
fn doubt_text(env: &ProcessEnv, doubt: &CommandDoubt) -> String {
    match doubt {
        CommandDoubt::LoadingVariables(names) => {
            let names = display::printable(&names.join(", "));
            format!("its `env` sets {names}, which changes what the program loads or runs")
        }
        CommandDoubt::WorkingFolder => "it sets `cwd`".to_owned(),
        CommandDoubt::RelativePath => "its command is a relative path".to_owned(),
        CommandDoubt::OtherProgram { runs, expected: Some(expected) } => {
            format!("it runs {}, not {}", env.display_path(runs), env.display_path(expected))
        }
        CommandDoubt::OtherProgram { runs, expected: None } => format!(
            "it runs {}, which is not in the folders of `commandPath` in managed settings",
            env.display_path(runs)
        ),
    }
}

/// A policy rule as text.
pub fn rule_text(rule: &PolicyRule) -> String {
    let text = match &rule.matcher {
        Matcher::Name(name) => format!("serverName {name}"),
        Matcher::Command(argv) => {
            format!("serverCommand {}", template::masked_arguments(argv).join(" "))
        }
        Matcher::Url(pattern) => format!("serverUrl {}", display::masked_url(&pattern.to_string())),
        Matcher::Invalid(_) => "an invalid entry".to_owned(),
    };
    display::printable(&text)
}

/// The command or URL of a server, in one line: expanded, or as written if it cannot be expanded. Everything that may
/// be a secret is masked; `swb get` shows a project's text in full.
pub fn target(server: &ResolvedServer) -> Option<String> {
    target_with(server, LiteralText::Masked)
}

/// The command or URL of a server, in one line, with its own text in full or masked.
pub fn target_with(server: &ResolvedServer, literals: LiteralText) -> Option<String> {
    match (&server.spec, &server.entry) {
        (Some(spec), _) => Some(transport_target(&spec.transport, literals)),
        (None, Some(entry)) => Some(transport_target(&entry.transport, literals)),
        (None, None) => None,
    }
}

fn transport_target<T: ShownText>(transport: &TransportConfig<T>, literals: LiteralText) -> String {
    match transport {
        TransportConfig::Stdio(stdio) => command_line(stdio, literals).join(" "),
        TransportConfig::Sdk { name } => display::printable(&format!("in this process: {name}")),
        TransportConfig::Sse(_)
        | TransportConfig::Http(_)
        | TransportConfig::Ws(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::ConnectorProxy(_) => {
            transport.url().map(|url| template::shown_url(url, literals)).unwrap_or_default()
        }
    }
}

/// Command and arguments, quoted for a shell.
pub fn command_line<T: ShownText>(stdio: &StdioConfig<T>, literals: LiteralText) -> Vec<String> {
    let words = template::shown_command(&stdio.command, &stdio.args, literals);
    words.iter().map(|word| shell_quoted(word)).collect()
}

fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@=+,%$~•…{}[]*?&#".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// What an inspected source holds.
pub fn found_text(found: &SourceContent) -> String {
    match found {
        SourceContent::Nothing => "not found".to_owned(),
        SourceContent::Servers(count) => pluralize(*count, "server", "servers"),
        SourceContent::Failure => "could not be read".to_owned(),
    }
}

/// How many servers a note names.
const MAX_NAMES: usize = 5;

/// One line about servers that are left out because they are not approved, with the command that approves them.
pub fn unapproved_note(servers: &[&ResolvedServer]) -> String {
    let names: Vec<String> = servers.iter().map(|it| printable(&it.name)).collect();
    let (shown, more) = names.split_at(names.len().min(MAX_NAMES));
    let listed = match more.len() {
        0 => shown.join(", "),
        count => format!("{} and {count} more", shown.join(", ")),
    };
    let (first, all) = match &names[..] {
        [] => return String::new(),
        [only] => (only, only.as_str()),
        [first, ..] => (first, "--all"),
    };
    format!(
        "note: {} not approved, so left out: {listed}; `swb get {first}` shows what would run, \
         `swb approve {all}` approves\n",
        pluralize(names.len(), "project server is", "project servers are"),
    )
}
