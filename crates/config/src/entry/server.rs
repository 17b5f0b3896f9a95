//! A server entry as a file has it ([`ServerEntry`]), and as it runs after expansion ([`ServerSpec`]).

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;

pub use super::fingerprint::{Fingerprint, sha256};
use super::name::ServerName;
use super::sharing::SharingClass;
pub use super::transport::{
    IdeConfig, OAuthConfig, OAuthGrant, RemoteConfig, StdioConfig, TlsConfig, TransportConfig,
    TransportKind,
};
use crate::template::{Environment, ExpandedText, SecretReference, Template};

/// Which tools of a server are in the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these tools; all if absent.
    pub allow: Option<Vec<String>>,
    /// Without these tools.
    pub deny: Vec<String>,
}

/// The options that servers of every transport have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonOptions {
    /// Tools run without a prompt, if the scope may grant that.
    pub trust: bool,
    /// The timeout of a tool call.
    pub timeout: Option<Duration>,
    /// The timeout of a connection attempt.
    pub connect_timeout: Option<Duration>,
    /// Which sessions use one copy of the program, if the entry says so.
    pub sharing: Option<SharingClass>,
    /// Which tools are in the pool.
    pub tools: ToolFilter,
    /// Unknown keys of the entry, which are ignored.
    pub unknown_keys: Vec<String>,
    /// The whole entry as the file has it, without `disabled` and `description`.
    pub raw: RawEntry,
}

/// The JSON of an entry. It has no `Debug` output, because it may contain secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawEntry(pub Json);

impl fmt::Debug for RawEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawEntry(…)")
    }
}

/// An entry as a file has it, with its structure checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// How to reach the server.
    pub transport: TransportConfig<Template>,
    /// The options of every transport.
    pub common: CommonOptions,
    /// The entry itself disables the server.
    pub disabled: bool,
    /// A description for users.
    pub description: Option<String>,
}

/// An entry that is ready to run: variables are expanded and the name is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// The server's name.
    pub name: ServerName,
    /// How to reach the server.
    pub transport: TransportConfig<ExpandedText>,
    /// The options of every transport.
    pub common: CommonOptions,
    /// The folder that relative paths start at; the user's working folder if absent.
    pub base_folder: Option<PathBuf>,
    /// The folder that its program starts in, unless the entry names one.
    pub start_folder: StartFolder,
    /// The file that its command may run.
    pub program: ProgramBinding,
}

/// The folder that a program starts in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartFolder {
    /// The user's working folder.
    #[default]
    WorkingFolder,
    /// The folder that relative paths start at.
    BaseFolder,
}

/// The file that a command may run. An approval and a rule for a command apply to one file, so the program that starts
/// must be the one that was checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProgramBinding {
    /// No decision depends on the file.
    #[default]
    Unbound,
    /// Only this file.
    File(PathBuf),
    /// None: there was no such program when the entry was checked.
    NotFound,
}

impl ProgramBinding {
    /// Binds to the file that was found.
    pub(crate) fn of(found: Option<&Path>) -> ProgramBinding {
        match found {
            Some(file) => ProgramBinding::File(file.to_owned()),
            None => ProgramBinding::NotFound,
        }
    }
}

impl ServerEntry {
    /// Expands the variables. Adds the names of missing ones to `missing`.
    pub fn expand(
        &self,
        name: ServerName,
        environment: &Environment,
        missing: &mut BTreeSet<String>,
    ) -> ServerSpec {
        let transport = self.transport.map(&mut |text| text.expand(environment, missing));
        ServerSpec {
            name,
            transport,
            common: self.common.clone(),
            base_folder: None,
            start_folder: StartFolder::default(),
            program: ProgramBinding::default(),
        }
    }

    /// Returns every text of the entry that may contain variables.
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
                    texts.extend(&oauth.client_metadata_url);
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
    /// Returns the secret references of the expanded entry.
    pub fn secret_references(&self) -> Vec<SecretReference> {
        let mut found = Vec::new();
        self.transport
            .map(&mut |text: &ExpandedText| found.extend(text.secrets().into_iter().cloned()));
        found
    }

    /// Returns the hash that approvals and reloads compare: of the entry as written and of its expansion. It
    /// includes keys without effect, because a later version may read them.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::compute(&self.common.raw.0, &self.transport)
    }
}
