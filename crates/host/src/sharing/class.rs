//! Decides which sessions use one copy of a server.

use switchboard_config::entry::server::{ServerSpec, TransportConfig};
use switchboard_config::entry::sharing::SharingClass;
use switchboard_config::settings::sharing::{ClassOrigin, SharingSettings};

/// The sharing class of a server, and why it has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerSharing {
    /// The class.
    pub class: SharingClass,
    /// Why.
    pub reason: SharingReason,
}

/// Why a server has its sharing class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharingReason {
    /// A setting or the entry names it.
    Configured(ClassOrigin),
    /// The server showed that it belongs to one session.
    Observed(String),
    /// Programs are shared in a folder by default.
    Default,
    /// It is at a URL: a connection is cheap, and the server keeps sessions apart.
    Remote,
    /// It runs inside this process.
    InProcess,
    /// Sharing is turned off.
    Disabled,
}

impl ServerSharing {
    /// Whether a setting or the entry names the class.
    pub(crate) fn is_configured(&self) -> bool {
        matches!(self.reason, SharingReason::Configured(_))
    }

    /// The reason for users.
    pub fn reason_text(&self) -> String {
        match &self.reason {
            SharingReason::Configured(ClassOrigin::Managed) => {
                "set by the administrator".to_owned()
            }
            SharingReason::Configured(ClassOrigin::Entry) => "`sharing` in its entry".to_owned(),
            SharingReason::Configured(ClassOrigin::Settings) => {
                "`sharing.servers` in the settings".to_owned()
            }
            SharingReason::Observed(reason) => reason.clone(),
            SharingReason::Default => "the default for programs".to_owned(),
            SharingReason::Remote => "servers at URLs are connected to directly".to_owned(),
            SharingReason::InProcess => "it runs inside the session".to_owned(),
            SharingReason::Disabled => "sharing is turned off".to_owned(),
        }
    }
}

/// The sharing class of a server. `observed` says why it belongs to one session, if it showed that.
pub fn server_sharing(
    spec: &ServerSpec,
    settings: &SharingSettings,
    observed: Option<String>,
) -> ServerSharing {
    let session = |reason| ServerSharing { class: SharingClass::Session, reason };
    match &spec.transport {
        TransportConfig::Stdio(_) => {}
        TransportConfig::Sdk { .. } => return session(SharingReason::InProcess),
        TransportConfig::Http(_)
        | TransportConfig::Sse(_)
        | TransportConfig::Ws(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::ConnectorProxy(_) => return session(SharingReason::Remote),
    }
    if !settings.is_enabled() {
        return session(SharingReason::Disabled);
    }
    if let Some((class, origin)) = settings.class(spec.name.as_str(), spec.common.sharing) {
        return ServerSharing { class, reason: SharingReason::Configured(origin) };
    }
    match observed {
        Some(reason) => session(SharingReason::Observed(reason)),
        None => ServerSharing { class: SharingClass::Workspace, reason: SharingReason::Default },
    }
}
