//! A server entry as a file has it ([`ServerEntry`]), and as it runs after expansion ([`ServerSpec`]).

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde_json::Value as Json;

pub use super::fingerprint::{Fingerprint, sha256};
use super::name::ServerName;
pub use super::transport::{
    IdeConfig, OAuthConfig, OAuthGrant, RemoteConfig, StdioConfig, TlsConfig, TransportConfig,
    TransportKind,
};
use crate::template::{Environment, ExpandedText, SecretReference, Template};

/// Which of a server's tools come into the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these; all where absent.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
}

/// What every server has, whatever its transport.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonOptions {
    /// Tools run without asking, where the scope may say so.
    pub trust: bool,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// Which tools are wanted.
    pub tools: ToolFilter,
    /// Keys that nobody knows, kept.
    pub unknown_keys: Vec<String>,
    /// The whole entry as it stands in the file, what people may change freely left out.
    pub raw: RawEntry,
}

/// An entry's JSON. It prints nothing of itself: secrets are in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawEntry(pub Json);

impl fmt::Debug for RawEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawEntry(…)")
    }
}

/// An entry as written, checked for shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// How the server is reached.
    pub transport: TransportConfig<Template>,
    /// The rest.
    pub common: CommonOptions,
    /// Switched off in the entry itself.
    pub disabled: bool,
    /// A note for people.
    pub description: Option<String>,
}

/// An entry ready to run: variables are in, the name is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// The server's name.
    pub name: ServerName,
    /// How it is reached.
    pub transport: TransportConfig<ExpandedText>,
    /// The rest.
    pub common: CommonOptions,
}

impl ServerEntry {
    /// Puts the variables in. The names of missing ones are added to `missing`.
    pub fn expand(
        &self,
        name: ServerName,
        environment: &Environment,
        missing: &mut BTreeSet<String>,
    ) -> ServerSpec {
        let transport = self.transport.map(&mut |text| text.expand(environment, missing));
        ServerSpec { name, transport, common: self.common.clone() }
    }

    /// Every text of the entry that variables are put into.
    pub fn templates(&self) -> Vec<&Template> {
        let mut texts: Vec<&Template> = Vec::new();
        match &self.transport {
            TransportConfig::Stdio(it) => {
                texts.push(&it.command);
                texts.extend(&it.args);
                texts.extend(it.env.iter().map(|(_, value)| value));
                texts.extend(&it.cwd);
            }
            TransportConfig::Sse(it)
            | TransportConfig::Http(it)
            | TransportConfig::Ws(it)
            | TransportConfig::ConnectorProxy(it) => {
                texts.push(&it.url);
                texts.extend(it.headers.iter().map(|(_, value)| value));
                if let Some(oauth) = &it.oauth {
                    texts.extend(&oauth.client_id);
                    texts.extend(&oauth.client_secret);
                    texts.extend(&oauth.auth_server_metadata_url);
                    texts.extend(&oauth.private_key);
                    texts.extend(&oauth.workload_token);
                }
                if let Some(tls) = &it.tls {
                    texts.extend(&tls.ca_file);
                    texts.extend(&tls.client_certificate);
                    texts.extend(&tls.client_key);
                }
            }
            TransportConfig::SseIde(it) | TransportConfig::WsIde(it) => {
                texts.push(&it.url);
                texts.extend(&it.auth_token);
            }
            TransportConfig::Sdk { .. } => {}
        }
        texts
    }
}

impl ServerSpec {
    /// The secrets that the entry names, now that its variables are in.
    pub fn secret_references(&self) -> Vec<SecretReference> {
        let mut found = Vec::new();
        self.transport
            .map(&mut |text: &ExpandedText| found.extend(text.secrets().into_iter().cloned()));
        found
    }

    /// The hash that approvals and live reloads go by: everything that is written, and what it comes to.
    /// Keys without effect count: they may mean something tomorrow.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::compute(&self.common.raw.0, &self.transport)
    }
}
