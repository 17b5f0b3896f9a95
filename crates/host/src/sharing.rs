//! Sharing of servers with other sessions: which servers are shared, which of them use one copy of a program, and how a
//! connection attaches to that copy. The copies run in another process, the shared host.

mod class;
mod key;

use std::sync::Arc;
use std::time::Duration;

use switchboard_config::entry::server::{Fingerprint, ServerSpec};
use switchboard_config::settings::sharing::SharingSettings;
use switchboard_share::client::SharedHostClient;
use switchboard_share::protocol::{AttachRequest, ClientInfo, ProgramLine, Reuse};
use switchboard_wire::connect::Address;
use switchboard_wire::process::child::Program;
use switchboard_wire::protocol::capabilities::{ClientCapability, ClientDescription};

use crate::login::auth_required::cache_key;
use crate::sources::desired_server::DesiredServer;
use crate::sources::paths::Paths;
use crate::storage::ttl_cache::TtlCache;

pub use class::{ServerSharing, SharingReason, server_sharing};
pub use switchboard_config::entry::sharing::SharingClass;
pub use switchboard_share as share;

/// How a host shares servers.
#[derive(Debug, Clone)]
pub struct SharingOptions {
    /// The shared host.
    pub client: SharedHostClient,
    /// The settings.
    pub settings: SharingSettings,
    /// This process, for the status of the shared host.
    pub client_info: ClientInfo,
}

/// The sharing of one host: its options, and the servers that turned out to belong to one session.
#[derive(Debug, Clone)]
pub(crate) struct Sharing {
    pub(crate) options: SharingOptions,
    pub(crate) session_bound_cache: TtlCache,
}

/// How long a server that belongs to one session is not shared.
const SESSION_BOUND_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

impl Sharing {
    pub(crate) fn new(options: SharingOptions, paths: &Paths) -> Sharing {
        Sharing { options, session_bound_cache: session_bound_cache(paths) }
    }
}

fn session_bound_cache(paths: &Paths) -> TtlCache {
    TtlCache::new(&paths.session_bound_cache(), SESSION_BOUND_TTL)
}

/// The sharing class of a configured server, with what earlier connections showed. Reads a file.
pub fn configured_sharing(
    spec: &ServerSpec,
    fingerprint: &Fingerprint,
    settings: &SharingSettings,
    paths: &Paths,
) -> ServerSharing {
    let key = cache_key(spec.name.as_str(), fingerprint);
    server_sharing(spec, settings, session_bound_cache(paths).get(&key))
}

/// A program that may be shared.
pub(crate) struct ShareableProgram<'a> {
    pub(crate) desired: &'a DesiredServer,
    pub(crate) program: &'a Program,
    pub(crate) home: &'a std::path::Path,
    pub(crate) client: &'a ClientDescription,
    pub(crate) reuse: Reuse,
}

impl Sharing {
    /// The address of the shared copy of a program and the description of ourselves for it; `None` if this session runs
    /// its own.
    pub(crate) fn address(
        &self,
        shareable: &ShareableProgram<'_>,
    ) -> Option<(Address, ClientDescription)> {
        let ShareableProgram { desired, program, home, client, reuse } = shareable;
        let key = cache_key(desired.name(), &desired.fingerprint);
        let observed = self.session_bound_cache.get(&key);
        let sharing = server_sharing(&desired.spec, &self.options.settings, observed);
        if sharing.class == SharingClass::Session {
            return None;
        }
        // The handshake of the first session holds for all, so it offers what any of them may have. A session without
        // a model refuses to sample.
        let mut offered = vec![ClientCapability::Elicitation, ClientCapability::Sampling];
        let mut client = (*client).clone();
        if sharing.is_configured() {
            // A server that is shared on purpose must not learn the roots of one session.
            client.capabilities.retain(|it| *it != ClientCapability::Roots);
        } else {
            offered.push(ClientCapability::Roots);
        }
        client.legacy_capabilities = Some(offered);
        let program = key::program_of_class(program, sharing.class, &desired.spec, home);
        let request = AttachRequest {
            key: key::sharing_key(desired, &program, &sharing),
            server: desired.name().to_owned(),
            fingerprint: desired.fingerprint.to_string(),
            class: sharing.class.to_string(),
            program: ProgramLine::from(&program),
            idle_seconds: self.options.settings.idle_limit(sharing.class).as_secs(),
            reuse: *reuse,
            client: self.options.client_info.clone(),
        };
        Some((Address::Shared(self.options.client.program(request)), client))
    }
}

/// Shares nothing by default.
pub(crate) type OptionalSharing = Option<Arc<Sharing>>;
