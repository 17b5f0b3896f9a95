//! A server entry in labelled lines, secrets masked.

use switchboard::config::display;
use switchboard::config::display::printable;
use switchboard::config::entry::server::{OAuthConfig, RemoteConfig, ServerEntry, TransportConfig};
use switchboard::config::template::Template;

use crate::output::server_text;
use crate::output::style::{TextStyle, paint};

/// An entry in labelled lines.
pub fn entry_text(entry: &ServerEntry) -> String {
    let mut details = DetailsText { text: String::new() };
    entry_lines(&mut details, entry);
    details.text
}

/// Adds the lines of an entry.
pub fn entry_lines(details: &mut DetailsText, entry: &ServerEntry) {
    details.line("Type", entry.transport.kind().id());
    match &entry.transport {
        TransportConfig::Stdio(stdio) => {
            details.line("Command", &server_text::command_line(stdio).join(" "));
            details.pairs("Environment", "=", &stdio.env);
            if let Some(cwd) = &stdio.cwd {
                details.line("Folder", &printable(&cwd.masked_with(str::to_owned)));
            }
        }
        TransportConfig::Sse(remote)
        | TransportConfig::Http(remote)
        | TransportConfig::Ws(remote)
        | TransportConfig::ConnectorProxy(remote) => remote_lines(details, remote),
        TransportConfig::SseIde(ide) | TransportConfig::WsIde(ide) => {
            details.line("URL", &display::masked_url_template(&ide.url));
        }
        TransportConfig::Sdk { name } => details.line("Name", &printable(name)),
    }
    if let Some(timeout) = entry.common.timeout {
        details.line("Timeout", &format!("{} ms", timeout.as_millis()));
    }
    if let Some(allow) = &entry.common.tools.allow {
        details.line("Tools", &format!("only {}", printable(&allow.join(", "))));
    }
    if !entry.common.tools.deny.is_empty() {
        details.line("Tools", &format!("never {}", printable(&entry.common.tools.deny.join(", "))));
    }
    if let Some(description) = &entry.description {
        details.line("About", &printable(description));
    }
}

fn remote_lines(details: &mut DetailsText, remote: &RemoteConfig<Template>) {
    details.line("URL", &display::masked_url_template(&remote.url));
    details.pairs("Headers", ": ", &remote.headers);
    if let Some(helper) = &remote.headers_helper {
        details.line("Headers from", &display::masked_command(helper.as_str()));
    }
    if let Some(oauth) = &remote.oauth {
        details.line("Sign-in", &oauth_text(oauth));
    }
    if let Some(tls) = &remote.tls {
        for (label, path) in [
            ("Authorities", &tls.ca_file),
            ("Certificate", &tls.client_certificate),
            ("Key", &tls.client_key),
        ] {
            if let Some(path) = path {
                details.line(label, &printable(&path.masked_with(str::to_owned)));
            }
        }
    }
}

fn oauth_text(oauth: &OAuthConfig<Template>) -> String {
    let mut parts = Vec::new();
    if let Some(id) = &oauth.client_id {
        parts.push(format!("client {}", printable(&id.masked_with(str::to_owned))));
    }
    if let Some(secret) = &oauth.client_secret {
        parts.push(format!("secret {}", display::masked_template(secret)));
    }
    if let Some(port) = oauth.callback_port {
        parts.push(format!("callback port {port}"));
    }
    if let Some(url) = &oauth.auth_server_metadata_url {
        parts.push(format!("metadata {}", display::masked_url_template(url)));
    }
    if !oauth.scopes.is_empty() {
        parts.push(format!("scopes {}", printable(&oauth.scopes.join(" "))));
    }
    if oauth.xaa {
        parts.push("through the enterprise's identity provider".to_owned());
    }
    if parts.is_empty() { "OAuth".to_owned() } else { parts.join(", ") }
}

/// A heading and labelled lines under it.
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

    fn pairs(&mut self, label: &str, between: &str, pairs: &[(String, Template)]) {
        for (index, (key, value)) in pairs.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let value = display::masked_template(value);
            self.line(label, &format!("{}{between}{value}", printable(key)));
        }
    }
}
