//! Servers, their states and policy decisions as text. Secrets are masked here.

use switchboard::config::display;
pub use switchboard::config::display::pluralize;
use switchboard::config::entry::server::{
    OAuthConfig, OAuthGrant, RemoteConfig, ServerEntry, StdioConfig, TlsConfig, TransportConfig,
};
use switchboard::config::merge::{Exclusion, PendingReason, ResolvedServer, ServerState};
use switchboard::config::policy::{Matcher, MatcherKind, PolicyRule, Refusal};
use switchboard::config::problem::Severity;
use switchboard::config::template::Template;
use switchboard::sources::loader::SourceContent;

use crate::env::ProcessEnv;
use crate::output::plural::pluralize;
use crate::output::style::TextStyle;

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
        ServerState::Invalid => "invalid",
    }
}

/// The style of a state.
pub fn state_style(state: &ServerState) -> TextStyle {
    match state {
        ServerState::Ready => TextStyle::Success,
        ServerState::Pending(_) => TextStyle::Warning,
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
        ServerState::Rejected => "rejected".to_owned(),
        ServerState::Refused(_) => "refused by policy".to_owned(),
        ServerState::Disabled(_) => "disabled".to_owned(),
        ServerState::Shadowed { by } => format!("shadowed by {}", by.scope()),
        ServerState::Duplicate { of, .. } => format!("same as {}", display::printable(of)),
        ServerState::Excluded(Exclusion::ManagedFile(_)) => {
            "left out: enterprise control".to_owned()
        }
        ServerState::Excluded(Exclusion::Strict) => "left out: --strict-mcp-config".to_owned(),
        ServerState::Invalid => "invalid".to_owned(),
    }
}

/// Why a server is in its state, with the position that decided and what to do.
pub fn state_reason(env: &ProcessEnv, server: &ResolvedServer) -> Option<String> {
    let name = display::printable(&server.name);
    match &server.state {
        ServerState::Ready => None,
        ServerState::Pending(PendingReason::New) => Some(format!(
            "servers of a project run only after you approve them: swb approve {name}"
        )),
        ServerState::Pending(PendingReason::Changed) => {
            Some(format!("it changed since you approved it; look at it, then: swb approve {name}"))
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

/// A policy rule as text.
pub fn rule_text(rule: &PolicyRule) -> String {
    let text = match &rule.matcher {
        Matcher::Name(name) => format!("serverName {name}"),
        Matcher::Command(argv) => {
            format!("serverCommand {}", display::masked_arguments(argv).join(" "))
        }
        Matcher::Url(pattern) => format!("serverUrl {}", display::masked_url(&pattern.to_string())),
        Matcher::Invalid(_) => "an invalid entry".to_owned(),
    };
    display::printable(&text)
}

/// The command or URL of a server, in one line.
pub fn target(entry: &ServerEntry) -> String {
    match &entry.transport {
        TransportConfig::Stdio(stdio) => command_line(stdio).join(" "),
        TransportConfig::Sdk { name } => display::printable(&format!("in this process: {name}")),
        TransportConfig::Sse(_)
        | TransportConfig::Http(_)
        | TransportConfig::Ws(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::ConnectorProxy(_) => {
            entry.transport.url().map(display::masked_url_template).unwrap_or_default()
        }
    }
}

/// Command and arguments, masked, and quoted for a shell.
pub fn command_line(stdio: &StdioConfig<Template>) -> Vec<String> {
    let command = display::masked_command(&stdio.command.masked_with(str::to_owned));
    let arguments = display::masked_arguments(&stdio.args);
    std::iter::once(command).chain(arguments).map(|word| shell_quoted(&word)).collect()
}

fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@=+,%$~•…{}[]*?&#".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A server for programs. No secret is in it.
pub fn server_json(session: &Invocation, server: &ResolvedServer) -> Json {
    let mut json = Map::new();
    json.insert("name".to_owned(), server.name.clone().into());
    json.insert("scope".to_owned(), server.scope().id().into());
    let transport = server.entry.as_ref().map(|entry| entry.transport.kind().id());
    json.insert("transport".to_owned(), transport.into());
    json.insert("target".to_owned(), server.entry.as_ref().map(target).into());
    json.insert("state".to_owned(), state_id(&server.state).into());
    json.insert("reason".to_owned(), state_reason(session, server).into());
    json.insert("trusted".to_owned(), server.is_trusted().into());
    json.extend(origin_json(&server.origin));
    let problems: Vec<Json> = server.problems.iter().map(problem_json).collect();
    json.insert("problems".to_owned(), problems.into());
    Json::Object(json)
}

/// A place for programs: `file` (or `source`) and `line`.
pub fn origin_json(origin: &Origin) -> Map<String, Json> {
    let mut json = Map::new();
    match origin.source.path() {
        Some(path) => json.insert("file".to_owned(), path.to_string_lossy().into()),
        None => json.insert("source".to_owned(), origin.source.to_string().into()),
    };
    json.insert("line".to_owned(), origin.position.map(|position| position.line).into());
    json
}

/// A problem for programs.
pub fn problem_json(problem: &Problem) -> Json {
    let severity = match problem.severity() {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut json = Map::new();
    json.insert("severity".to_owned(), severity.into());
    json.insert("server".to_owned(), problem.server.clone().into());
    json.insert("key".to_owned(), problem.key.clone().into());
    json.insert("message".to_owned(), problem.kind.to_string().into());
    json.insert("hint".to_owned(), problem.hint().into());
    json.extend(origin_json(&problem.origin));
    let column = problem.origin.position.map(|position| position.column);
    json.insert("column".to_owned(), column.into());
    Json::Object(json)
}

/// An entry for programs: its keys, with every value that may be secret masked.
pub fn entry_json(entry: &ServerEntry) -> Json {
    let mut json = match &entry.transport {
        TransportConfig::Stdio(stdio) => json!({
            "type": "stdio",
            "command": display::masked_command(&stdio.command.masked_with(str::to_owned)),
            "args": display::masked_arguments(&stdio.args),
            "env": pairs_json(&stdio.env),
            "cwd": stdio.cwd.as_ref().map(|it| it.masked_with(str::to_owned)),
        }),
        TransportConfig::Sdk { name } => json!({"type": "sdk", "name": name}),
        TransportConfig::Sse(remote)
        | TransportConfig::Http(remote)
        | TransportConfig::Ws(remote)
        | TransportConfig::ConnectorProxy(remote) => {
            remote_json(entry.transport.kind().id(), remote)
        }
        TransportConfig::SseIde(ide) | TransportConfig::WsIde(ide) => json!({
            "type": entry.transport.kind().id(),
            "url": display::masked_url_template(&ide.url),
            "ideName": ide.ide_name,
            "authToken": ide.auth_token.as_ref().map(display::masked_template),
        }),
    };
    let common = &entry.common;
    json["trust"] = common.trust.into();
    json["timeout"] = common.timeout.map(|it| it.as_millis() as u64).into();
    json["tools"] = json!({"allow": common.tools.allow, "deny": common.tools.deny});
    json["disabled"] = entry.disabled.into();
    json["description"] = entry.description.clone().into();
    json["unknownKeys"] = common.unknown_keys.clone().into();
    json
}

fn remote_json(kind: &str, remote: &RemoteConfig<Template>) -> Json {
    json!({
        "type": kind,
        "url": display::masked_url_template(&remote.url),
        "headers": pairs_json(&remote.headers),
        "headersHelper": remote.headers_helper.as_ref().map(|it| display::masked_command(it.as_str())),
        "oauth": remote.oauth.as_ref().map(oauth_json),
        "tls": remote.tls.as_ref().map(tls_json),
    })
}

fn tls_json(tls: &TlsConfig<Template>) -> Json {
    let path = |it: &Option<Template>| it.as_ref().map(|it| it.masked_with(str::to_owned));
    json!({
        "caFile": path(&tls.ca_file),
        "clientCertificate": path(&tls.client_certificate),
        "clientKey": path(&tls.client_key),
    })
}

fn oauth_json(oauth: &OAuthConfig<Template>) -> Json {
    json!({
        "clientId": oauth.client_id.as_ref().map(|it| it.masked_with(str::to_owned)),
        "clientSecret": oauth.client_secret.as_ref().map(display::masked_template),
        "callbackPort": oauth.callback_port,
        "authServerMetadataUrl": oauth.auth_server_metadata_url.as_ref().map(display::masked_url_template),
        "scopes": oauth.scopes,
        "xaa": oauth.xaa,
        "grant": OAuthGrant::NAMES.iter().find(|(_, it)| *it == oauth.grant).map(|(word, _)| *word),
        "privateKey": oauth.private_key.as_ref().map(display::masked_template),
        "workloadToken": oauth.workload_token.as_ref().map(display::masked_template),
    })
}

fn pairs_json(pairs: &[(String, Template)]) -> Json {
    let pairs =
        pairs.iter().map(|(key, value)| (key.clone(), display::masked_template(value).into()));
    Json::Object(pairs.collect())
}
/// What was found at a source, in words.
pub fn found_text(found: &SourceContent) -> String {
    match found {
        SourceContent::Nothing => "not found".to_owned(),
        SourceContent::Servers(count) => pluralize(*count, "server", "servers"),
        SourceContent::Failure => "could not be read".to_owned(),
    }
}
