//! Decodes one entry of `mcpServers` into a `ServerEntry` and reports everything that is wrong with it.
//! An error leaves out this server only.

use std::time::Duration;

use super::fields::Fields;
use crate::document::{Node, Value};
use crate::entry::sharing::SharingClass;
use crate::entry::{
    CommonOptions, IdeConfig, OAuthConfig, OAuthGrant, RawEntry, RemoteConfig, ServerEntry,
    StdioConfig, TlsConfig, ToolFilter, TransportConfig, TransportKind, is_client_metadata_url,
    is_https_url, is_valid_url,
};
use crate::problem::{ProblemKind, Reporter, Severity};
pub use crate::schema::{ENTRY_KEYS, EntryKey, OAUTH_KEYS, TLS_KEYS, TOOLS_KEYS, nearest};
use crate::template::Template;

/// Decodes one entry. Returns `None` if it contains an error, which is then in the reporter.
pub fn decode_entry(server: &str, node: &Node, reporter: &mut Reporter<'_>) -> Option<ServerEntry> {
    let before = reporter.problems.len();
    let mut fields = Fields::open(server, "", node, reporter)?;
    let transport = transport(&mut fields);
    let common = common_options(&mut fields, node);
    let disabled = fields.boolean("disabled");
    let description = fields.string("description");
    if let Some(transport) = &transport {
        fields.report_ignored_keys(transport.kind());
    }
    let failed = reporter.problems[before..].iter().any(|it| it.severity() == Severity::Error);
    let transport = transport.filter(|_| !failed)?;
    Some(ServerEntry { transport, common, disabled, description })
}

/// The options of every transport. Reports unknown keys.
pub(super) fn common_options(fields: &mut Fields<'_, '_, '_>, node: &Node) -> CommonOptions {
    CommonOptions {
        trust: fields.boolean("trust"),
        timeout: timeout(fields, "timeout"),
        connect_timeout: timeout(fields, "connectTimeout"),
        sharing: sharing(fields),
        tools: tools(fields),
        unknown_keys: fields.report_unknown_keys(ENTRY_KEYS),
        raw: raw_entry(node),
    }
}

/// Disabling or describing a server does not make it a different server.
fn raw_entry(node: &Node) -> RawEntry {
    let mut json = node.to_json();
    if let Some(members) = json.as_object_mut() {
        members.shift_remove("disabled");
        members.shift_remove("description");
    }
    RawEntry(json)
}

fn transport(fields: &mut Fields<'_, '_, '_>) -> Option<TransportConfig<Template>> {
    let kind = kind(fields)?;
    Some(match kind {
        TransportKind::Stdio => TransportConfig::Stdio(stdio(fields)?),
        TransportKind::Sse => TransportConfig::Sse(remote(fields, kind)?),
        TransportKind::Http => TransportConfig::Http(remote(fields, kind)?),
        TransportKind::Ws => TransportConfig::Ws(remote(fields, kind)?),
        TransportKind::ConnectorProxy => TransportConfig::ConnectorProxy(remote(fields, kind)?),
        TransportKind::SseIde => TransportConfig::SseIde(ide(fields, kind)?),
        TransportKind::WsIde => TransportConfig::WsIde(ide(fields, kind)?),
        TransportKind::Sdk => TransportConfig::Sdk {
            name: fields.string("name").unwrap_or_else(|| fields.server.to_owned()),
        },
    })
}

fn kind(fields: &mut Fields<'_, '_, '_>) -> Option<TransportKind> {
    let has_command = fields.find("command").is_some();
    let url = fields.find("url");
    if let Some(url) = url
        && has_command
    {
        fields.report(url.key_span, "url", ProblemKind::CommandAndUrl);
        return None;
    }
    let Some(member) = fields.find("type") else {
        if let Some(url) = url {
            fields.report(url.key_span, "url", ProblemKind::UrlWithoutType);
            return None;
        }
        return Some(TransportKind::Stdio);
    };
    let text = fields.string("type")?;
    let kind = TransportKind::parse(&text);
    if kind.is_none() {
        let known = TransportKind::ALL.iter().map(|kind| kind.id()).chain(["streamable-http"]);
        let nearest = nearest(&text, known);
        fields.report(member.node.span, "type", ProblemKind::UnknownTransport { nearest });
    }
    kind
}

fn stdio(fields: &mut Fields<'_, '_, '_>) -> Option<StdioConfig<Template>> {
    let command = fields.required("command", TransportKind::Stdio);
    if let (Some(text), Some(member)) = (&command, fields.find("command"))
        && !Template::parse(text).secrets().is_empty()
    {
        fields.report(member.node.span, "command", ProblemKind::SecretInCommand);
        return None;
    }
    let args = fields.strings("args").unwrap_or_default();
    let env = fields.string_map("env", "a variable", is_variable_name);
    let cwd = fields.string("cwd");
    Some(StdioConfig {
        command: Template::parse(&command?),
        args: args.iter().map(|text| Template::parse(text)).collect(),
        env,
        cwd: cwd.map(|text| Template::parse(&text)),
    })
}

fn remote(fields: &mut Fields<'_, '_, '_>, kind: TransportKind) -> Option<RemoteConfig<Template>> {
    let url = url(fields, kind);
    let headers = fields.string_map("headers", "a header", is_header_name);
    let headers_helper = fields.string("headersHelper").map(|text| Template::from_literal(&text));
    let oauth = oauth(fields);
    let tls = tls(fields);
    Some(RemoteConfig { url: url?, headers, headers_helper, oauth, tls })
}

fn ide(fields: &mut Fields<'_, '_, '_>, kind: TransportKind) -> Option<IdeConfig<Template>> {
    let url = url(fields, kind);
    let ide_name = fields.string("ideName");
    let auth_token = fields.string("authToken").map(|text| Template::parse(&text));
    Some(IdeConfig { url: url?, ide_name, auth_token })
}

/// Checks a URL without variables. One with variables is checked after expansion.
fn url(fields: &mut Fields<'_, '_, '_>, kind: TransportKind) -> Option<Template> {
    let text = Template::parse(&fields.required("url", kind)?);
    if text.as_literal().is_some_and(|literal| !is_valid_url(kind, literal)) {
        let span = fields.find("url")?.node.span;
        fields.report(span, "url", ProblemKind::InvalidUrl { schemes: kind.schemes_text() });
        return None;
    }
    Some(text)
}

fn tls(fields: &mut Fields<'_, '_, '_>) -> Option<TlsConfig<Template>> {
    let member = fields.find("tls")?;
    let server = fields.server;
    let mut inner = Fields::open(server, "tls", &member.node, fields.reporter)?;
    let mut text = |key: &str| inner.string(key).map(|text| Template::parse(&text));
    let tls = TlsConfig {
        ca_file: text("caFile"),
        client_certificate: text("clientCertificate"),
        client_key: text("clientKey"),
    };
    let _unknown_keys = inner.report_unknown_keys(TLS_KEYS);
    Some(tls)
}

fn oauth(fields: &mut Fields<'_, '_, '_>) -> Option<OAuthConfig<Template>> {
    let member = fields.find("oauth")?;
    let server = fields.server;
    let mut inner = Fields::open(server, "oauth", &member.node, fields.reporter)?;
    let mut text = |key: &str| inner.string(key).map(|text| Template::parse(&text));
    let client_id = text("clientId");
    let client_secret = text("clientSecret");
    let metadata = text("authServerMetadataUrl");
    let document = text("clientMetadataUrl");
    let private_key = text("privateKey");
    let workload_token = text("workloadToken");
    if let (Some(text), Some(member)) = (&metadata, inner.find("authServerMetadataUrl"))
        && text.as_literal().is_some_and(|literal| !is_https_url(literal))
    {
        let kind = ProblemKind::InvalidUrl { schemes: "`https://`" };
        inner.report(member.node.span, "authServerMetadataUrl", kind);
    }
    if let (Some(text), Some(member)) = (&document, inner.find("clientMetadataUrl"))
        && text.as_literal().is_some_and(|literal| !is_client_metadata_url(literal))
    {
        let span = member.node.span;
        inner.report(span, "clientMetadataUrl", ProblemKind::InvalidClientMetadataUrl);
    }
    let oauth = OAuthConfig {
        client_id,
        client_secret,
        callback_port: port(&mut inner),
        auth_server_metadata_url: metadata,
        client_metadata_url: document,
        scopes: scopes(&mut inner),
        xaa: inner.boolean("xaa"),
        grant: grant(&mut inner),
        private_key,
        workload_token,
    };
    let _unknown_keys = inner.report_unknown_keys(OAUTH_KEYS);
    Some(oauth)
}

fn grant(fields: &mut Fields<'_, '_, '_>) -> OAuthGrant {
    let Some(word) = fields.string("grant") else { return OAuthGrant::default() };
    let known = OAuthGrant::NAMES.iter().find(|(known, _)| *known == word);
    if let (None, Some(member)) = (known, fields.find("grant")) {
        let expected = "`authorization_code`, `client_credentials` or `jwt_bearer`";
        let found = member.node.kind();
        fields.report(member.node.span, "grant", ProblemKind::WrongType { expected, found });
    }
    known.map(|(_, grant)| *grant).unwrap_or_default()
}

/// Scopes are an array, or one string with spaces as in OAuth.
fn scopes(fields: &mut Fields<'_, '_, '_>) -> Vec<String> {
    match fields.find("scopes").map(|member| &member.node.value) {
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(_) => fields.strings("scopes").unwrap_or_default(),
        None => Vec::new(),
    }
}

fn port(fields: &mut Fields<'_, '_, '_>) -> Option<u16> {
    let (number, span) = fields.number("callbackPort")?;
    let port = number.parse::<u16>().ok().filter(|port| *port > 0);
    if port.is_none() {
        let kind = ProblemKind::OutOfRange { range: "a whole number from 1 to 65535" };
        fields.report(span, "callbackPort", kind);
    }
    port
}

fn timeout(fields: &mut Fields<'_, '_, '_>, key: &str) -> Option<Duration> {
    let (number, span) = fields.number(key)?;
    let milliseconds = number.parse::<u32>().ok().filter(|it| *it > 0);
    if milliseconds.is_none() {
        let range = "a whole number of milliseconds, from 1 to 4294967295";
        fields.report(span, key, ProblemKind::OutOfRange { range });
    }
    milliseconds.map(|it| Duration::from_millis(it.into()))
}

fn sharing(fields: &mut Fields<'_, '_, '_>) -> Option<SharingClass> {
    let class = SharingClass::parse(&fields.string("sharing")?);
    if let (None, Some(member)) = (class, fields.find("sharing")) {
        fields.report_wrong_type(&member.node, "sharing", SharingClass::EXPECTED);
    }
    class
}

fn tools(fields: &mut Fields<'_, '_, '_>) -> ToolFilter {
    let Some(member) = fields.find("tools") else { return ToolFilter::default() };
    let server = fields.server;
    let Some(mut inner) = Fields::open(server, "tools", &member.node, fields.reporter) else {
        return ToolFilter::default();
    };
    let filter = ToolFilter {
        allow: inner.strings("allow"),
        deny: inner.strings("deny").unwrap_or_default(),
    };
    let _unknown_keys = inner.report_unknown_keys(TOOLS_KEYS);
    filter
}

pub(super) fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// A token as defined in RFC 9110, section 5.6.2.
fn is_header_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Document, LineIndex};
    use crate::scope::Scope;
    use crate::source::Source;

    /// Decodes `text` and lists the problems, one per line.
    fn decode_text(text: &str) -> (Option<ServerEntry>, Vec<String>) {
        let document = Document::parse(text).expect("the text is JSON");
        let lines = LineIndex::new(text);
        let mut reporter = Reporter::new(&Source::file(Scope::User, "f"), &lines);
        let entry = decode_entry("s", document.root.as_ref().expect("a value"), &mut reporter);
        let messages = reporter
            .problems
            .iter()
            .map(|it| {
                let column = it.origin.position.map_or(0, |position| position.column);
                let mark = if it.severity() == Severity::Error { "E" } else { "W" };
                format!("{mark} {column} {}: {}", it.key.as_deref().unwrap_or("-"), it.kind)
            })
            .collect();
        (entry, messages)
    }

    #[track_caller]
    fn check(text: &str, expected_entry: &str, messages: &[&str]) {
        let (entry, found) = decode_text(text);
        assert_eq!(
            (if entry.is_some() { "valid" } else { "invalid" }, found),
            (expected_entry, messages.iter().map(|s| (*s).to_owned()).collect())
        );
    }

    #[test]
    fn a_full_stdio_entry_is_read() {
        let (entry, messages) = decode_text(
            r#"{"command": "npx", "args": ["-y", "x"], "env": {"A": "$B"}, "cwd": "/srv",
                "trust": true, "timeout": 5000, "connectTimeout": 7000, "tools": {"allow": ["a"], "deny": ["b"]}, "disabled": true}"#,
        );
        let entry = entry.expect("nothing is wrong with it");
        assert_eq!(messages, Vec::<String>::new());
        let TransportConfig::Stdio(stdio) = &entry.transport else {
            panic!("stdio is the default")
        };
        assert_eq!(stdio.args.iter().map(Template::as_str).collect::<Vec<_>>(), ["-y", "x"]);
        assert_eq!(stdio.env[0].1.as_str(), "$B");
        assert_eq!(entry.common.timeout, Some(Duration::from_secs(5)));
        assert_eq!(entry.common.connect_timeout, Some(Duration::from_secs(7)));
        assert_eq!(entry.common.tools.allow.as_deref(), Some(&["a".to_owned()][..]));
        assert!(entry.disabled && entry.common.trust);
    }

    #[test]
    fn every_transport_is_read_by_each_of_its_names() {
        for (kind, url, id) in [
            ("http", "https://h/", "http"),
            ("streamable-http", "https://h/", "http"),
            ("sse", "http://h/", "sse"),
            ("ws", "wss://h/", "ws"),
            ("sse-ide", "http://h/", "sse-ide"),
            ("ws-ide", "ws://h/", "ws-ide"),
            ("connector-proxy", "https://h/", "connector-proxy"),
            ("claudeai-proxy", "https://h/", "connector-proxy"),
        ] {
            let (entry, messages) =
                decode_text(&format!(r#"{{"type": "{kind}", "url": "{url}"}}"#));
            assert_eq!(
                (entry.map(|it| it.transport.kind().id()), messages),
                (Some(id), Vec::new())
            );
        }
        let (entry, _) = decode_text(r#"{"type": "sdk", "name": "calc"}"#);
        assert_eq!(
            entry.map(|it| it.transport),
            Some(TransportConfig::Sdk { name: "calc".to_owned() })
        );
    }

    #[test]
    fn oauth_settings_are_read() {
        let (entry, messages) = decode_text(
            r#"{"type": "http", "url": "https://h/", "oauth": {"clientId": "c", "clientSecret": "$S", "callbackPort": 3118,
                "authServerMetadataUrl": "https://as/.well-known", "scopes": "a b", "xaa": true}}"#,
        );
        assert_eq!(messages, Vec::<String>::new());
        let Some(TransportConfig::Http(remote)) = entry.map(|it| it.transport) else {
            panic!("it is http")
        };
        let oauth = remote.oauth.expect("it is there");
        assert_eq!(oauth.scopes, ["a", "b"]);
        assert_eq!((oauth.callback_port, oauth.xaa), (Some(3118), true));
    }

    #[test]
    fn wrong_types_are_errors_that_name_the_key_and_place() {
        check(r#"{"command": 5}"#, "invalid", &["E 13 command: expected a string, found a number"]);
        check(
            r#"{"command": "x", "args": "-y"}"#,
            "invalid",
            &["E 26 args: expected an array of strings, found a string"],
        );
        check(
            r#"{"command": "x", "args": ["a", 1, null], "env": {"A": 1}}"#,
            "invalid",
            &[
                "E 32 args[1]: expected a string, found a number",
                "E 35 args[2]: expected a string, found null",
                "E 55 env.A: expected a string, found a number",
            ],
        );
        check("[]", "invalid", &["E 1 -: expected an object, found an array"]);
        check(
            r#"{"command": "x", "trust": "yes", "timeout": "5"}"#,
            "invalid",
            &[
                "E 27 trust: expected true or false, found a string",
                "E 45 timeout: expected a number, found a string",
            ],
        );
    }

    #[test]
    fn contradictions_are_errors() {
        check(
            r#"{"command": "x", "url": "https://h/"}"#,
            "invalid",
            &["E 18 url: has both `command` and `url`; a server needs exactly one of them"],
        );
        check(
            r#"{"url": "https://h/"}"#,
            "invalid",
            &["E 2 url: has a `url` but no `type`; the default type is `stdio`"],
        );
        check(
            r#"{"type": "htp", "url": "https://h/"}"#,
            "invalid",
            &["E 10 type: unknown transport type"],
        );
        check(
            r#"{"type": "http"}"#,
            "invalid",
            &["E 1 url: `url` is missing; a server of type `http` needs it"],
        );
        check(r#"{"command": " "}"#, "invalid", &["E 13 command: must not be empty"]);
        check(
            "{}",
            "invalid",
            &["E 1 command: `command` is missing; a server of type `stdio` needs it"],
        );
    }

    #[test]
    fn values_outside_their_range_are_errors() {
        check(
            r#"{"command": "x", "timeout": 0}"#,
            "invalid",
            &["E 29 timeout: must be a whole number of milliseconds, from 1 to 4294967295"],
        );
        check(
            r#"{"type": "http", "url": "https://h/", "oauth": {"callbackPort": 70000, "authServerMetadataUrl": "http://as/"}}"#,
            "invalid",
            &[
                "E 97 oauth.authServerMetadataUrl: must be a URL that begins with `https://`",
                "E 65 oauth.callbackPort: must be a whole number from 1 to 65535",
            ],
        );
        check(
            r#"{"type": "http", "url": "https://h/", "oauth": {"clientMetadataUrl": "http://c/x"}}"#,
            "invalid",
            &[
                "E 70 oauth.clientMetadataUrl: must be a URL that begins with `https://` and has a path, without user name, password or fragment",
            ],
        );
        check(
            r#"{"type": "ws", "url": "https://h/"}"#,
            "invalid",
            &["E 23 url: must be a URL that begins with `ws://` or `wss://`"],
        );
        check(
            r#"{"type": "http", "url": "https://h/", "headers": {"A b": "x", "C": "d\r\nE: f"}}"#,
            "invalid",
            &[
                "E 51 headers.A: is not the name of a header",
                "E 68 headers.C: contains a control character",
            ],
        );
    }

    #[test]
    fn unknown_ineffective_and_duplicate_keys_are_warnings() {
        check(
            r#"{"command": "x", "arg": [], "headers": {}, "command": "y"}"#,
            "valid",
            &[
                "W 44 command: duplicate key; the last one counts",
                "W 18 arg: unknown key, kept but without effect",
                "W 29 headers: has no effect on a server of type `stdio`",
            ],
        );
        let (entry, _) = decode_text(r#"{"command": "x", "alwaysLoad": true}"#);
        assert_eq!(entry.expect("valid").common.unknown_keys, ["alwaysLoad"]);
    }

    #[test]
    fn a_url_with_variables_is_checked_after_expansion() {
        check(r#"{"type": "http", "url": "${BASE:-https://h}/mcp"}"#, "valid", &[]);
    }
}
