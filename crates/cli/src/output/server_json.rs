//! Servers, entries, problems and sources as JSON. Secrets are masked here.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use switchboard::config::entry::server::{
    OAuthConfig, OAuthGrant, RemoteConfig, TlsConfig, TransportConfig, TransportKind,
};
use switchboard::config::merge::ResolvedServer;
use switchboard::config::problem::{Problem, Severity};
use switchboard::config::source::Origin;
use switchboard::config::template;
use switchboard::config::template::{LiteralText, ShownText};
use switchboard::connection::ServerView;
use switchboard::sources::loader::{InspectedSource, SourceContent};

use crate::env::ProcessEnv;
use crate::output::channel_text;
use crate::output::connection_json;
use crate::output::entry_text::helper_text;
use crate::output::server_text::{state_id, state_reason, target};

/// A server as JSON, without secrets: its definition, and its connection where there is one. Every command prints this
/// shape, which `json_schema` describes. `state` is that of the connection, or of the definition where there is none.
pub fn server_json(
    env: &ProcessEnv,
    server: &ResolvedServer,
    connection: Option<&ServerView>,
) -> Json {
    let mut json = Map::new();
    json.insert("name".to_owned(), server.name.clone().into());
    json.insert("scope".to_owned(), server.scope().id().into());
    let transport = server.entry.as_ref().map(|entry| entry.transport.kind().id());
    json.insert("type".to_owned(), transport.into());
    json.insert("transport".to_owned(), transport.into());
    json.insert("target".to_owned(), target(server).into());
    json.insert("state".to_owned(), state_id(&server.state).into());
    json.insert("reason".to_owned(), state_reason(env, server).into());
    json.insert("trusted".to_owned(), server.is_trusted().into());
    json.insert("file".to_owned(), Json::Null);
    json.insert("source".to_owned(), Json::Null);
    json.extend(origin_json(&server.origin));
    let problems: Vec<Json> = server.problems.iter().map(problem_json).collect();
    json.insert("problems".to_owned(), problems.into());
    json.extend(connection_json::members(connection));
    let channel = channel_text::channel_json(&env.paths, &server.name, connection);
    json.insert("channel".to_owned(), channel);
    if let Some(view) = connection {
        json.insert("state".to_owned(), view.status.id().into());
    }
    Json::Object(json)
}

/// A position as JSON: `file` (or `source`) and `line`.
pub fn origin_json(origin: &Origin) -> Map<String, Json> {
    let mut json = Map::new();
    match origin.source.path() {
        Some(path) => json.insert("file".to_owned(), path.to_string_lossy().into()),
        None => json.insert("source".to_owned(), origin.source.to_string().into()),
    };
    json.insert("line".to_owned(), origin.position.map(|position| position.line).into());
    json
}

/// A problem as JSON.
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

/// The entry of a server as JSON: expanded, or as written if it cannot be expanded. Everything is masked that came from
/// the environment or is a secret.
pub fn entry_json(server: &ResolvedServer) -> Option<Json> {
    entry_json_with(server, LiteralText::of_scope(server.scope()))
}

/// The same, with the entry's own text in full or masked.
pub fn entry_json_with(server: &ResolvedServer, literals: LiteralText) -> Option<Json> {
    let entry = server.entry.as_ref()?;
    let mut json = match &server.spec {
        Some(spec) => transport_json(&spec.transport, literals),
        None => transport_json(&entry.transport, literals),
    };
    let common = &entry.common;
    json["trust"] = common.trust.into();
    let milliseconds = |it: Option<Duration>| it.map(|it| it.as_millis() as u64);
    json["timeout"] = milliseconds(common.timeout).into();
    json["connectTimeout"] = milliseconds(common.connect_timeout).into();
    json["tools"] = json!({"allow": common.tools.allow, "deny": common.tools.deny});
    json["disabled"] = entry.disabled.into();
    json["description"] = entry.description.clone().into();
    json["unknownKeys"] = common.unknown_keys.clone().into();
    if entry.transport.kind() == TransportKind::Stdio {
        let folder = server.spec.as_ref().and_then(|spec| spec.base_folder.as_ref());
        json["program"] = server.program.as_ref().map(|it| it.to_string_lossy()).into();
        json["baseFolder"] = folder.map(|it| it.to_string_lossy()).into();
        json["loadingVariables"] = entry.transport.loading_variables().into();
    }
    Some(json)
}

fn transport_json<T: ShownText>(transport: &TransportConfig<T>, literals: LiteralText) -> Json {
    match transport {
        TransportConfig::Stdio(stdio) => {
            let mut words =
                template::shown_command(&stdio.command, &stdio.args, literals).into_iter();
            json!({
                "type": "stdio",
                "command": words.next(),
                "args": words.collect::<Vec<_>>(),
                "env": pairs_json(&stdio.env, literals),
                "cwd": stdio.cwd.as_ref().map(template::shown_text),
            })
        }
        TransportConfig::Sdk { name } => json!({"type": "sdk", "name": name}),
        TransportConfig::Sse(remote)
        | TransportConfig::Http(remote)
        | TransportConfig::Ws(remote)
        | TransportConfig::ConnectorProxy(remote) => {
            remote_json(transport.kind().id(), remote, literals)
        }
        TransportConfig::SseIde(ide) | TransportConfig::WsIde(ide) => json!({
            "type": transport.kind().id(),
            "url": template::shown_url(&ide.url, literals),
            "ideName": ide.ide_name,
            "authToken": secret_json(&ide.auth_token, literals),
        }),
    }
}

fn remote_json<T: ShownText>(kind: &str, remote: &RemoteConfig<T>, literals: LiteralText) -> Json {
    json!({
        "type": kind,
        "url": template::shown_url(&remote.url, literals),
        "headers": pairs_json(&remote.headers, literals),
        "headersHelper": remote.headers_helper.as_ref().map(|it| helper_text(it, literals)),
        "oauth": remote.oauth.as_ref().map(|oauth| oauth_json(oauth, literals)),
        "tls": remote.tls.as_ref().map(tls_json),
    })
}

fn tls_json<T: ShownText>(tls: &TlsConfig<T>) -> Json {
    let path = |it: &Option<T>| it.as_ref().map(template::shown_text);
    json!({
        "caFile": path(&tls.ca_file),
        "clientCertificate": path(&tls.client_certificate),
        "clientKey": path(&tls.client_key),
    })
}

fn oauth_json<T: ShownText>(oauth: &OAuthConfig<T>, literals: LiteralText) -> Json {
    let metadata = oauth.auth_server_metadata_url.as_ref();
    let document = oauth.client_metadata_url.as_ref();
    json!({
        "clientId": oauth.client_id.as_ref().map(template::shown_text),
        "clientSecret": secret_json(&oauth.client_secret, literals),
        "callbackPort": oauth.callback_port,
        "authServerMetadataUrl": metadata.map(|it| template::shown_url(it, literals)),
        "clientMetadataUrl": document.map(|it| template::shown_url(it, literals)),
        "scopes": oauth.scopes,
        "xaa": oauth.xaa,
        "grant": OAuthGrant::NAMES.iter().find(|(_, it)| *it == oauth.grant).map(|(word, _)| *word),
        "privateKey": secret_json(&oauth.private_key, literals),
        "workloadToken": secret_json(&oauth.workload_token, literals),
    })
}

fn secret_json<T: ShownText>(secret: &Option<T>, literals: LiteralText) -> Option<String> {
    secret.as_ref().map(|secret| template::shown_value("secret", secret, literals))
}

fn pairs_json<T: ShownText>(pairs: &[(String, T)], literals: LiteralText) -> Json {
    let pairs = pairs
        .iter()
        .map(|(key, value)| (key.clone(), template::shown_value(key, value, literals).into()));
    Json::Object(pairs.collect())
}

/// An inspected source as JSON.
pub fn looked_at_json(it: &InspectedSource) -> Json {
    let place = match it.source.path() {
        Some(path) => path.to_string_lossy().into_owned(),
        None => it.source.to_string(),
    };
    let (found, servers) = match it.content {
        SourceContent::Nothing => ("nothing", None),
        SourceContent::Servers(count) => ("servers", Some(count)),
        SourceContent::Failure => ("failure", None),
    };
    json!({"scope": it.source.scope.id(), "place": place, "found": found, "servers": servers})
}
