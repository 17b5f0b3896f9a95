//! A server entry in labelled lines: as it runs, with everything masked that came from the environment or is a secret.

use switchboard::config::display;
use switchboard::config::display::printable;
use switchboard::config::entry::server::{
    IdeConfig, OAuthConfig, OAuthGrant, RemoteConfig, StartFolder, TransportConfig,
};
use switchboard::config::merge::ResolvedServer;
use switchboard::config::template;
use switchboard::config::template::Template;
use switchboard::config::template::{LiteralText, ShownText};

use crate::env::ProcessEnv;
use crate::output::server_text;
use crate::output::style::{TextStyle, paint};

/// The entry of a server in labelled lines.
pub fn entry_text(env: &ProcessEnv, server: &ResolvedServer) -> String {
    let mut details = DetailsText { text: String::new() };
    entry_lines(env, &mut details, server);
    details.text
}

/// What approving a server permits besides running it: its tools, if the entry asks for trust.
pub fn trust_text(server: &ResolvedServer) -> String {
    let mut details = DetailsText { text: String::new() };
    if server.entry.as_ref().is_some_and(|entry| entry.common.trust) {
        let warning = "once approved, its tools run without a prompt (`trust: true`)";
        details.line("Warning", &paint(TextStyle::Warning, warning).to_string());
    }
    details.text
}

/// The entry of a server in labelled lines without styles, for a screen that has its own.
pub fn plain_entry_text(env: &ProcessEnv, server: &ResolvedServer) -> String {
    anstream::adapter::strip_str(&entry_text(env, server)).to_string()
}

/// The lines of a server's entry that its command line or URL does not show: variables, headers, folders, rules.
pub fn more_entry_text(env: &ProcessEnv, server: &ResolvedServer, literals: LiteralText) -> String {
    let mut details = DetailsText { text: String::new() };
    match (&server.spec, &server.entry) {
        (Some(spec), _) => transport_options(&mut details, &spec.transport, literals),
        (None, Some(entry)) => transport_options(&mut details, &entry.transport, literals),
        (None, None) => {}
    }
    common_lines(env, &mut details, server);
    details.text
}

/// Adds the lines of a server's entry: expanded, or as written if it cannot be expanded.
pub fn entry_lines(env: &ProcessEnv, details: &mut DetailsText, server: &ResolvedServer) {
    let Some(entry) = &server.entry else { return };
    details.line("Type", entry.transport.kind().id());
    let literals = LiteralText::of_scope(server.scope());
    match &server.spec {
        Some(spec) => transport_lines(details, &spec.transport, literals),
        None => transport_lines(details, &entry.transport, literals),
    }
    if let Some(program) = &server.program {
        details.line("Program", &env.display_path(program));
    }
    common_lines(env, details, server);
}

/// Adds the lines that follow those of the transport.
fn common_lines(env: &ProcessEnv, details: &mut DetailsText, server: &ResolvedServer) {
    let Some(entry) = &server.entry else { return };
    let start_folder = server.spec.as_ref().and_then(|spec| match spec.start_folder {
        StartFolder::BaseFolder => spec.base_folder.as_ref(),
        StartFolder::WorkingFolder => None,
    });
    if let (TransportConfig::Stdio(stdio), Some(folder)) = (&entry.transport, start_folder)
        && stdio.cwd.is_none()
    {
        details.line("Folder", &env.display_path(folder));
    }
    let variables = entry.transport.loading_variables();
    if !variables.is_empty() {
        details.line("Warning", &loading_warning(&variables));
    }
    if let Some(timeout) = entry.common.timeout {
        details.line("Timeout", &format!("{} ms", timeout.as_millis()));
    }
    if let Some(timeout) = entry.common.connect_timeout {
        details.line("Connect", &format!("within {} ms", timeout.as_millis()));
    }
    if let Some(allow) = &entry.common.tools.allow {
        details.line("Tools", &format!("only {}", printable(&allow.join(", "))));
    }
    if !entry.common.tools.deny.is_empty() {
        details.line("Tools", &format!("never {}", printable(&entry.common.tools.deny.join(", "))));
    }
    for (index, rule) in server.rules.iter().enumerate() {
        let label = if index == 0 { "Permissions" } else { "" };
        let approver = rule.approver.map(|it| format!(" (approver: {it})")).unwrap_or_default();
        details.line(label, &format!("{} {}{approver}", rule.effect, rule.rule.to_printable()));
    }
    if let Some(description) = &entry.description {
        details.line("About", &printable(description));
    }
}

/// Points out variables that change what a program loads or runs.
pub fn loading_warning(variables: &[&str]) -> String {
    let verb = if variables.len() == 1 { "changes" } else { "change" };
    let text = format!("{} {verb} what its program loads or runs", variables.join(", "));
    paint(TextStyle::Warning, printable(&text)).to_string()
}

fn transport_lines<T: ShownText>(
    details: &mut DetailsText,
    transport: &TransportConfig<T>,
    literals: LiteralText,
) {
    match transport {
        TransportConfig::Stdio(stdio) => {
            details.line("Command", &server_text::command_line(stdio, literals).join(" "));
        }
        TransportConfig::Sse(RemoteConfig { url, .. })
        | TransportConfig::Http(RemoteConfig { url, .. })
        | TransportConfig::Ws(RemoteConfig { url, .. })
        | TransportConfig::ConnectorProxy(RemoteConfig { url, .. })
        | TransportConfig::SseIde(IdeConfig { url, .. })
        | TransportConfig::WsIde(IdeConfig { url, .. }) => {
            details.line("URL", &template::shown_url(url, literals));
        }
        TransportConfig::Sdk { name } => details.line("Name", &printable(name)),
    }
    transport_options(details, transport, literals);
}

/// Adds the lines of everything besides the command line or the URL.
fn transport_options<T: ShownText>(
    details: &mut DetailsText,
    transport: &TransportConfig<T>,
    literals: LiteralText,
) {
    match transport {
        TransportConfig::Stdio(stdio) => {
            details.pairs("Environment", "=", &stdio.env, literals);
            if let Some(cwd) = &stdio.cwd {
                details.line("Folder", &template::shown_text(cwd));
            }
        }
        TransportConfig::Sse(remote)
        | TransportConfig::Http(remote)
        | TransportConfig::Ws(remote)
        | TransportConfig::ConnectorProxy(remote) => remote_options(details, remote, literals),
        TransportConfig::SseIde(_) | TransportConfig::WsIde(_) | TransportConfig::Sdk { .. } => {}
    }
}

fn remote_options<T: ShownText>(
    details: &mut DetailsText,
    remote: &RemoteConfig<T>,
    literals: LiteralText,
) {
    details.pairs("Headers", ": ", &remote.headers, literals);
    if let Some(helper) = &remote.headers_helper {
        details.line("Headers from", &helper_text(helper, literals));
    }
    if let Some(oauth) = &remote.oauth {
        details.line("Sign-in", &oauth_text(oauth, literals));
    }
    if let Some(tls) = &remote.tls {
        for (label, path) in [
            ("Authorities", &tls.ca_file),
            ("Certificate", &tls.client_certificate),
            ("Key", &tls.client_key),
        ] {
            if let Some(path) = path {
                details.line(label, &template::shown_text(path));
            }
        }
    }
}

/// A `headersHelper`, whose variables the shell expands.
pub fn helper_text(helper: &Template, literals: LiteralText) -> String {
    match literals {
        LiteralText::Full => printable(helper.as_str()),
        LiteralText::Masked => display::masked_command(helper.as_str()),
    }
}

fn oauth_text<T: ShownText>(oauth: &OAuthConfig<T>, literals: LiteralText) -> String {
    let mut parts = Vec::new();
    if let Some(id) = &oauth.client_id {
        parts.push(format!("client {}", template::shown_text(id)));
    }
    if let Some(secret) = &oauth.client_secret {
        parts.push(format!("secret {}", template::shown_value("secret", secret, literals)));
    }
    if let Some(port) = oauth.callback_port {
        parts.push(format!("callback port {port}"));
    }
    if let Some(url) = &oauth.auth_server_metadata_url {
        parts.push(format!("metadata {}", template::shown_url(url, literals)));
    }
    if let Some(url) = &oauth.client_metadata_url {
        parts.push(format!("client metadata {}", template::shown_url(url, literals)));
    }
    if !oauth.scopes.is_empty() {
        parts.push(format!("scopes {}", printable(&oauth.scopes.join(" "))));
    }
    if oauth.xaa {
        parts.push("through the enterprise's identity provider".to_owned());
    }
    if oauth.grant != OAuthGrant::default() {
        let name = OAuthGrant::NAMES.iter().find(|(_, it)| *it == oauth.grant);
        parts.push(format!("grant {}", name.map_or("other", |(name, _)| *name)));
    }
    for (label, secret) in
        [("private key", &oauth.private_key), ("workload token", &oauth.workload_token)]
    {
        if let Some(secret) = secret {
            parts.push(format!("{label} {}", template::shown_value("secret", secret, literals)));
        }
    }
    if parts.is_empty() { "OAuth".to_owned() } else { parts.join(", ") }
}

/// A heading and labelled lines under it.
#[derive(Debug, Default)]
pub struct DetailsText {
    /// The lines so far.
    pub text: String,
}

impl DetailsText {
    /// Starts with a heading.
    pub fn new(title: &str) -> DetailsText {
        DetailsText { text: format!("{}\n", paint(TextStyle::Bold, title)) }
    }

    /// Adds one labelled line; an empty label continues the line above.
    pub fn line(&mut self, label: &str, value: &str) {
        let label = if label.is_empty() { String::new() } else { format!("{label}:") };
        self.text.push_str(&format!("  {label:<13} {value}\n"));
    }

    fn pairs<T: ShownText>(
        &mut self,
        label: &str,
        between: &str,
        pairs: &[(String, T)],
        literals: LiteralText,
    ) {
        for (index, (key, value)) in pairs.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let value = template::shown_value(key, value, literals);
            self.line(label, &format!("{}{between}{value}", printable(key)));
        }
    }
}
