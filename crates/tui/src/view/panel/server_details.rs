//! One server as the panel shows it: its configuration and the state of its connection combined.

use std::time::Duration;

use switchboard::catalogue::ListKind;
use switchboard::connection::{ServerView, Status};
use switchboard::wire::connect::Fallback;
use switchboard::wire::protocol::capabilities::{
    ListCapability, ServerCapabilities, ServerDescription,
};
use switchboard::{ConnectionFailure, Snapshot};

use crate::configured_servers::{ConfiguredServer, ConfiguredServers, Eligibility};
use crate::theme::{GlyphSet, ScreenTheme, Tone};

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDetails {
    /// Its name.
    pub name: String,
    /// The scope it is defined in.
    pub scope: &'static str,
    /// Its transport.
    pub transport: &'static str,
    /// Its health.
    pub health: ServerHealth,
    /// Its state in a few words.
    pub state: String,
    /// Why it fails, if it does.
    pub failure: Option<FailureDetails>,
    /// What it reported at initialization.
    pub description: Option<NegotiatedServer>,
    /// The numbers of its tools, resources and prompts, where it supports them.
    pub counts: [Option<usize>; 3],
    /// How long connecting took.
    pub ready_after: Option<Duration>,
    /// Its process.
    pub process: Option<u32>,
    /// Whether other sessions use the same process.
    pub is_shared: bool,
    /// Whether it sends messages into the conversation, and what became of them; empty where it is no channel.
    pub channel: String,
    /// Further notes.
    pub notes: Vec<String>,
    /// Whether it may run.
    pub eligibility: Eligibility,
    /// Is it reached by URL, so that it may need a login?
    pub is_remote: bool,
}

/// Why a server fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureDetails {
    /// The summary.
    pub summary: String,
    /// The evidence, as labels and texts.
    pub evidence: Vec<(&'static str, String)>,
    /// What the user can do.
    pub remedy: Option<String>,
}

/// What a server reported at initialization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NegotiatedServer {
    /// The protocol version.
    pub protocol_version: String,
    /// Its name and version.
    pub title: String,
    /// Its capabilities.
    pub capabilities: Vec<String>,
    /// Its instructions.
    pub instructions: Option<String>,
}

/// The health of a server, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerHealth {
    /// The connection failed.
    Failed,
    /// It needs a login.
    NeedsLogin,
    /// It needs approval.
    NeedsApproval,
    /// It is connecting.
    Connecting,
    /// It is connected.
    Connected,
    /// It does not run.
    Inactive,
}

impl ServerHealth {
    /// Its glyph.
    pub fn glyph(self, theme: &ScreenTheme) -> &'static str {
        match (self, theme.glyphs) {
            (ServerHealth::Failed, GlyphSet::Unicode) => "✗",
            (ServerHealth::NeedsLogin, GlyphSet::Unicode) => "△",
            (ServerHealth::NeedsApproval, GlyphSet::Unicode) => "?",
            (ServerHealth::Connecting, GlyphSet::Unicode) => "◌",
            (ServerHealth::Connected, GlyphSet::Unicode) => "●",
            (ServerHealth::Inactive, GlyphSet::Unicode) => "○",
            (ServerHealth::Failed, GlyphSet::Ascii) => "x",
            (ServerHealth::NeedsLogin, GlyphSet::Ascii) => "!",
            (ServerHealth::NeedsApproval, GlyphSet::Ascii) => "?",
            (ServerHealth::Connecting, GlyphSet::Ascii) => "~",
            (ServerHealth::Connected, GlyphSet::Ascii) => "*",
            (ServerHealth::Inactive, GlyphSet::Ascii) => "-",
        }
    }

    /// Its tone.
    pub fn tone(self) -> Tone {
        match self {
            ServerHealth::Failed => Tone::Error,
            ServerHealth::NeedsLogin | ServerHealth::NeedsApproval | ServerHealth::Connecting => {
                Tone::Warning
            }
            ServerHealth::Connected => Tone::Success,
            ServerHealth::Inactive => Tone::Muted,
        }
    }
}

/// All servers by name: the configured ones, and those that run without being configured.
pub fn all_servers(
    configured_servers: &ConfiguredServers,
    snapshot: &Snapshot,
) -> Vec<ServerDetails> {
    let configured = configured_servers.servers.iter();
    let mut all: Vec<ServerDetails> = configured
        .map(|it| match snapshot.servers.get(&it.name) {
            // A disabled server is shown as disabled even while its process still exits.
            Some(view) if it.eligibility == Eligibility::Runnable => {
                ServerDetails::from_view(view, Some(it))
            }
            Some(_) | None => ServerDetails::from_configured(it),
        })
        .collect();
    let others = snapshot
        .servers
        .values()
        .filter(|view| configured_servers.find(&view.name).is_none() && !view.is_connected_ide());
    all.extend(others.map(|view| ServerDetails::from_view(view, None)));
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

impl ServerDetails {
    fn from_configured(it: &ConfiguredServer) -> ServerDetails {
        let health = match (it.eligibility, it.state.0) {
            (Eligibility::PendingApproval, _) => ServerHealth::NeedsApproval,
            (Eligibility::Blocked, Tone::Error) => ServerHealth::Failed,
            (Eligibility::Runnable, _) => ServerHealth::Connecting,
            (Eligibility::Rejected | Eligibility::Disabled | Eligibility::Blocked, _) => {
                ServerHealth::Inactive
            }
        };
        ServerDetails {
            name: it.name.clone(),
            scope: it.scope,
            transport: it.transport,
            health,
            state: it.state.1.clone(),
            failure: it.reason.clone().map(|what| FailureDetails {
                summary: what,
                evidence: Vec::new(),
                remedy: None,
            }),
            description: None,
            counts: [None; 3],
            ready_after: None,
            process: None,
            is_shared: false,
            channel: String::new(),
            notes: it.problems.clone(),
            eligibility: it.eligibility,
            is_remote: it.is_remote,
        }
    }

    fn from_view(view: &ServerView, configured_server: Option<&ConfiguredServer>) -> ServerDetails {
        let health = match &view.status {
            Status::Connected => ServerHealth::Connected,
            Status::Pending { .. } => ServerHealth::Connecting,
            Status::Failed(_) => ServerHealth::Failed,
            Status::NeedsAuth(_) | Status::SessionRefused(_) => ServerHealth::NeedsLogin,
            Status::Disabled => ServerHealth::Inactive,
        };
        let state = view.status.label();
        let capabilities = view.server_info.as_ref().map(|it| &it.capabilities);
        let count = |list: ListKind| {
            let is_declared = capabilities.is_some_and(|it| list.is_declared(it));
            is_declared.then(|| view.catalogue.items(list).len())
        };
        let mut notes = view.notes();
        notes.extend(view.fallback.map(|it| match it {
            Fallback::Restarted => {
                "it exited during version negotiation and was restarted".to_owned()
            }
            Fallback::HttpSse2024 => "it refused streamable HTTP and uses HTTP+SSE".to_owned(),
        }));
        notes.extend(configured_server.into_iter().flat_map(|it| it.problems.clone()));
        ServerDetails {
            name: view.name.clone(),
            scope: view.scope.id(),
            transport: view.transport.id(),
            health,
            state,
            failure: view.status.cause().map(|it| FailureDetails::from_failure(it, &view.name)),
            description: view.server_info.as_ref().map(NegotiatedServer::from_initialize),
            counts: [count(ListKind::Tools), count(ListKind::Resources), count(ListKind::Prompts)],
            ready_after: view.time_to_ready,
            process: view.pid,
            is_shared: view.is_shared,
            channel: view.channel.as_ref().map(ToString::to_string).unwrap_or_default(),
            notes,
            eligibility: configured_server.map_or(Eligibility::Runnable, |it| it.eligibility),
            is_remote: configured_server.is_none_or(|it| it.is_remote),
        }
    }
}

impl FailureDetails {
    fn from_failure(cause: &ConnectionFailure, name: &str) -> FailureDetails {
        let evidence = cause.evidence.iter();
        FailureDetails {
            summary: cause.to_string(),
            evidence: evidence.map(|it| (it.label(), it.text().to_owned())).collect(),
            remedy: Some(cause.remedy(name)),
        }
    }
}

impl NegotiatedServer {
    fn from_initialize(it: &ServerDescription) -> NegotiatedServer {
        let name = it.title.as_ref().unwrap_or(&it.name);
        NegotiatedServer {
            protocol_version: it.protocol_version.clone(),
            title: format!("{name} {}", it.server_version).trim().to_owned(),
            capabilities: capability_labels(&it.capabilities),
            instructions: it.instructions.clone(),
        }
    }
}

fn capability_labels(capabilities: &ServerCapabilities) -> Vec<String> {
    let listed = [
        ("tools", capabilities.tools),
        ("resources", capabilities.resources),
        ("prompts", capabilities.prompts),
    ];
    let word = |(name, listing): (&str, Option<ListCapability>)| {
        let listing = listing?;
        let changes = listing.list_changed.then_some("change notifications");
        let subscriptions = listing.subscribe.then_some("subscriptions");
        let more: Vec<&str> = changes.into_iter().chain(subscriptions).collect();
        Some(match more.is_empty() {
            true => name.to_owned(),
            false => format!("{name} ({})", more.join(", ")),
        })
    };
    listed.into_iter().filter_map(word).chain(capabilities.others.iter().cloned()).collect()
}
