//! Words and JSON for servers and their states, the same in every command. Secrets are masked here.

use serde_json::{Map, Value as Json, json};
use switchboard::config::cascade::{LeftOut, Pending, Server, State};
use switchboard::config::entry::{OAuth, OAuthGrant, Remote, ServerEntry, Stdio, Tls, Transport};
use switchboard::config::policy::{Matcher, Needed, Refusal, Rule};
use switchboard::config::problem::{Problem, Severity};
use switchboard::config::shown;
use switchboard::config::source::Origin;
use switchboard::config::template::Template;
use switchboard::load::{Found, LookedAt};

use crate::session::Session;
use crate::style::Meaning;

/// The one word for a state, in JSON and in tables.
pub fn state_word(state: &State) -> &'static str {
    match state {
        State::Ready => "ready",
        State::Pending(_) => "pending",
        State::Rejected => "rejected",
        State::Refused(_) => "refused",
        State::Disabled(_) => "disabled",
        State::Shadowed { .. } => "shadowed",
        State::Duplicate { .. } => "duplicate",
        State::LeftOut(_) => "left-out",
        State::Invalid => "invalid",
    }
}

/// How good a state is.
pub fn state_meaning(state: &State) -> Meaning {
    match state {
        State::Ready => Meaning::Good,
        State::Pending(_) => Meaning::Doubtful,
        State::Refused(_) | State::Invalid => Meaning::Bad,
        State::Rejected
        | State::Disabled(_)
        | State::Shadowed { .. }
        | State::Duplicate { .. }
        | State::LeftOut(_) => Meaning::Faint,
    }
}

/// A state in a few words, for a table.
pub fn state_text(state: &State) -> String {
    match state {
        State::Ready => "ready to start".to_owned(),
        State::Pending(Pending::New) => "pending approval".to_owned(),
        State::Pending(Pending::Changed) => "pending approval: changed".to_owned(),
        State::Rejected => "rejected".to_owned(),
        State::Refused(_) => "refused by policy".to_owned(),
        State::Disabled(_) => "disabled".to_owned(),
        State::Shadowed { by } => format!("shadowed by {}", by.scope()),
        State::Duplicate { of, .. } => format!("same as {}", shown::printable(of)),
        State::LeftOut(LeftOut::Locked(_)) => "left out: enterprise control".to_owned(),
        State::LeftOut(LeftOut::Strict) => "left out: --strict-mcp-config".to_owned(),
        State::Invalid => "invalid".to_owned(),
    }
}

/// A state in a sentence, with the line that decided and what to do about it.
pub fn state_reason(session: &Session, server: &Server) -> Option<String> {
    let name = shown::printable(&server.name);
    match &server.state {
        State::Ready => None,
        State::Pending(Pending::New) => {
            Some(format!("a project's server runs only once you approved it: swb approve {name}"))
        }
        State::Pending(Pending::Changed) => Some(format!(
            "it is not what you approved any more; look at it, then: swb approve {name}"
        )),
        State::Rejected => {
            Some("you rejected it; `swb reset-project-choices` forgets that".to_owned())
        }
        State::Refused(refusal) => Some(refusal_text(session, refusal)),
        State::Disabled(origin) => {
            Some(format!("switched off in {}", session.shown_origin(origin)))
        }
        State::Shadowed { by } => Some(format!(
            "the {} scope defines the same name in {}",
            by.scope(),
            session.shown_origin(by)
        )),
        State::Duplicate { of, by } => Some(format!(
            "`{}` in {} is the same server",
            shown::printable(of),
            session.shown_origin(by)
        )),
        State::LeftOut(LeftOut::Locked(source)) => {
            let file = session.shown_source(source);
            Some(format!("{file} has exclusive control"))
        }
        State::LeftOut(LeftOut::Strict) => {
            Some("--strict-mcp-config leaves only --mcp-config".to_owned())
        }
        State::Invalid => server
            .problems
            .iter()
            .find(|problem| problem.severity() == Severity::Error)
            .map(|problem| shown::printable(&problem.kind.to_string())),
    }
}

/// Why a policy refuses, with the line that says so.
pub fn refusal_text(session: &Session, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Denied(rule) => {
            format!("denied by {} ({})", session.shown_origin(&rule.origin), rule_text(rule))
        }
        Refusal::EmptyList(origin) => {
            format!("the allow list in {} is empty", session.shown_origin(origin))
        }
        Refusal::Unreadable(source) => {
            let file = session.shown_source(source);
            format!("{file} makes no sense, so nothing may run until it does")
        }
        Refusal::NotAllowed { lists, needed } => {
            let lists: Vec<String> = lists.iter().map(|it| session.shown_origin(it)).collect();
            let kind = match needed {
                Needed::Any => "no entry",
                Needed::Command => "no `serverCommand` entry",
                Needed::Url => "no `serverUrl` entry",
            };
            format!("{kind} of the allow list in {} matches", lists.join(" and "))
        }
    }
}

/// A policy entry in words.
pub fn rule_text(rule: &Rule) -> String {
    let text = match &rule.matcher {
        Matcher::Name(name) => format!("serverName {name}"),
        Matcher::Command(argv) => format!("serverCommand {}", shown::arguments(argv).join(" ")),
        Matcher::Url(pattern) => format!("serverUrl {}", shown::url(&pattern.to_string())),
        Matcher::Broken(_) => "an entry that makes no sense".to_owned(),
    };
    shown::printable(&text)
}

/// What a server runs or reaches, in one line.
pub fn target(entry: &ServerEntry) -> String {
    match &entry.transport {
        Transport::Stdio(stdio) => command_line(stdio).join(" "),
        Transport::Sdk { name } => shown::printable(&format!("in this process: {name}")),
        Transport::Sse(_)
        | Transport::Http(_)
        | Transport::Ws(_)
        | Transport::SseIde(_)
        | Transport::WsIde(_)
        | Transport::ConnectorProxy(_) => {
            entry.transport.url().map(shown::url_template).unwrap_or_default()
        }
    }
}

/// Command and arguments, masked, quoted where a shell would need it.
pub fn command_line(stdio: &Stdio<Template>) -> Vec<String> {
    let command = shown::command(&stdio.command.shown(str::to_owned));
    let arguments = shown::arguments(&stdio.args);
    std::iter::once(command).chain(arguments).map(|word| quoted(&word)).collect()
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@=+,%$~•…{}[]*?&#".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A server for programs. No secret is in it.
pub fn server_json(session: &Session, server: &Server) -> Json {
    let mut json = Map::new();
    json.insert("name".to_owned(), server.name.clone().into());
    json.insert("scope".to_owned(), server.scope().id().into());
    let transport = server.entry.as_ref().map(|entry| entry.transport.kind().id());
    json.insert("transport".to_owned(), transport.into());
    json.insert("target".to_owned(), server.entry.as_ref().map(target).into());
    json.insert("state".to_owned(), state_word(&server.state).into());
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
        Transport::Stdio(stdio) => json!({
            "type": "stdio",
            "command": shown::command(&stdio.command.shown(str::to_owned)),
            "args": shown::arguments(&stdio.args),
            "env": pairs_json(&stdio.env),
            "cwd": stdio.cwd.as_ref().map(|it| it.shown(str::to_owned)),
        }),
        Transport::Sdk { name } => json!({"type": "sdk", "name": name}),
        Transport::Sse(remote)
        | Transport::Http(remote)
        | Transport::Ws(remote)
        | Transport::ConnectorProxy(remote) => remote_json(entry.transport.kind().id(), remote),
        Transport::SseIde(ide) | Transport::WsIde(ide) => json!({
            "type": entry.transport.kind().id(),
            "url": shown::url_template(&ide.url),
            "ideName": ide.ide_name,
            "authToken": ide.auth_token.as_ref().map(shown::secret),
        }),
    };
    let common = &entry.common;
    json["trust"] = common.trust.into();
    json["timeout"] = common.timeout.map(|it| it.as_millis() as u64).into();
    json["tools"] = json!({"allow": common.tools.allow, "deny": common.tools.deny});
    json["disabled"] = entry.disabled.into();
    json["description"] = entry.description.clone().into();
    json["unknownKeys"] = common.unknown.clone().into();
    json
}

fn remote_json(kind: &str, remote: &Remote<Template>) -> Json {
    json!({
        "type": kind,
        "url": shown::url_template(&remote.url),
        "headers": pairs_json(&remote.headers),
        "headersHelper": remote.headers_helper.as_ref().map(|it| shown::command(it.written())),
        "oauth": remote.oauth.as_ref().map(oauth_json),
        "tls": remote.tls.as_ref().map(tls_json),
    })
}

fn tls_json(tls: &Tls<Template>) -> Json {
    let path = |it: &Option<Template>| it.as_ref().map(|it| it.shown(str::to_owned));
    json!({
        "caFile": path(&tls.ca_file),
        "clientCertificate": path(&tls.client_certificate),
        "clientKey": path(&tls.client_key),
    })
}

fn oauth_json(oauth: &OAuth<Template>) -> Json {
    json!({
        "clientId": oauth.client_id.as_ref().map(|it| it.shown(str::to_owned)),
        "clientSecret": oauth.client_secret.as_ref().map(shown::secret),
        "callbackPort": oauth.callback_port,
        "authServerMetadataUrl": oauth.auth_server_metadata_url.as_ref().map(shown::url_template),
        "scopes": oauth.scopes,
        "xaa": oauth.xaa,
        "grant": OAuthGrant::WORDS.iter().find(|(_, it)| *it == oauth.grant).map(|(word, _)| *word),
        "privateKey": oauth.private_key.as_ref().map(shown::secret),
        "workloadToken": oauth.workload_token.as_ref().map(shown::secret),
    })
}

fn pairs_json(pairs: &[(String, Template)]) -> Json {
    let pairs = pairs.iter().map(|(key, value)| (key.clone(), shown::secret(value).into()));
    Json::Object(pairs.collect())
}

/// A number with the right word.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What was found at a source, in words.
pub fn found_text(found: &Found) -> String {
    match found {
        Found::Nothing => "not there".to_owned(),
        Found::Servers(count) => counted(*count, "server", "servers"),
        Found::Failure => "could not be read".to_owned(),
    }
}

/// A source that was looked at, for programs.
pub fn looked_at_json(it: &LookedAt) -> Json {
    let place = match it.source.path() {
        Some(path) => path.to_string_lossy().into_owned(),
        None => it.source.to_string(),
    };
    let (found, servers) = match it.found {
        Found::Nothing => ("nothing", None),
        Found::Servers(count) => ("servers", Some(count)),
        Found::Failure => ("failure", None),
    };
    json!({"scope": it.source.scope.id(), "place": place, "found": found, "servers": servers})
}
