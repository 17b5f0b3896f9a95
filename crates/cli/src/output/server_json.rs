//! Servers, entries, problems and sources as JSON. Secrets are masked here.

use serde_json::{Map, Value as Json, json};
use switchboard::config::display;
use switchboard::config::entry::server::{
    OAuthConfig, OAuthGrant, RemoteConfig, ServerEntry, TlsConfig, TransportConfig,
};
use switchboard::config::merge::ResolvedServer;
use switchboard::config::problem::{Problem, Severity};
use switchboard::config::source::Origin;
use switchboard::config::template::Template;
use switchboard::sources::loader::{InspectedSource, SourceContent};

use crate::env::ProcessEnv;
use crate::output::server_text::{state_id, state_reason, target};

/// A server as JSON, without secrets.
pub fn server_json(env: &ProcessEnv, server: &ResolvedServer) -> Json {
    let mut json = Map::new();
    json.insert("name".to_owned(), server.name.clone().into());
    json.insert("scope".to_owned(), server.scope().id().into());
    let transport = server.entry.as_ref().map(|entry| entry.transport.kind().id());
    json.insert("transport".to_owned(), transport.into());
    json.insert("target".to_owned(), server.entry.as_ref().map(target).into());
    json.insert("state".to_owned(), state_id(&server.state).into());
    json.insert("reason".to_owned(), state_reason(env, server).into());
    json.insert("trusted".to_owned(), server.is_trusted().into());
    json.extend(origin_json(&server.origin));
    let problems: Vec<Json> = server.problems.iter().map(problem_json).collect();
    json.insert("problems".to_owned(), problems.into());
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

/// An entry as JSON, with every value that may be a secret masked.
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
