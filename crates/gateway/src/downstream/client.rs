//! One client as it is known: who it is, how it speaks, and what it can do for servers. A legacy client is known for
//! as long as its session lasts, a modern one for one request.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use serde_json::Value as Json;
use switchboard_config::entry::server::sha256;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::CallOwner;
use switchboard_wire::protocol::capabilities::ClientCapability;
use switchboard_wire::protocol::era::Era;

use crate::downstream::request_context::{ClientChannel, RequestContext};

/// Numbers of guests, never used twice.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Tells principals apart by number. Nobody outside can choose names that look the same to it.
static PRINCIPAL_HASHER: OnceLock<RandomState> = OnceLock::new();

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    /// Tells it from all others.
    pub(crate) id: u64,
    /// On whose behalf it comes.
    pub(crate) principal: Arc<str>,
    /// The same for all clients of one principal, and for no other's.
    pub(crate) principal_key: u64,
    /// How it speaks.
    pub(crate) era: Era,
    /// What it can do, as JSON.
    pub(crate) capabilities_json: Arc<str>,
    capabilities: ClientCapabilities,
    log_level: AtomicU8,
    session_digest: OnceLock<String>,
    /// Who answers for the client outside of its requests.
    session_context: OnceLock<Weak<RequestContext>>,
}

/// What a client can do for servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientCapabilities {
    pub(crate) form_elicitation: bool,
    pub(crate) url_elicitation: bool,
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
}

/// The levels of log messages, from the least important.
const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// The client said nothing of levels.
const LEVEL_UNSET: u8 = u8::MAX;

impl Client {
    pub(crate) fn new(principal: Arc<str>, era: Era, capabilities: Option<&Payload>) -> Client {
        let text = capabilities.and_then(|it| std::str::from_utf8(it.as_bytes()).ok());
        Client {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            principal_key: PRINCIPAL_HASHER.get_or_init(RandomState::new).hash_one(&principal),
            principal,
            era,
            capabilities_json: text.unwrap_or("{}").into(),
            capabilities: ClientCapabilities::parse(capabilities),
            log_level: AtomicU8::new(LEVEL_UNSET),
            session_digest: OnceLock::new(),
            session_context: OnceLock::new(),
        }
    }

    /// Does it say that it knows this extension?
    pub(crate) fn supports_extension(&self, extension: &str) -> bool {
        let declared: Json = serde_json::from_str(&self.capabilities_json).unwrap_or_default();
        declared["extensions"].get(extension).is_some()
    }

    /// Says who answers for the client outside of its requests.
    pub(crate) fn set_session_context(&self, owner: &Arc<RequestContext>) {
        let _already_set = self.session_context.set(Arc::downgrade(owner));
    }

    pub(crate) fn session_handler(&self) -> Option<Arc<dyn CallOwner>> {
        Some(self.session_context.get()?.upgrade()?)
    }

    /// The way to it outside of its requests.
    pub(crate) fn session_channel(&self) -> Option<Arc<dyn ClientChannel>> {
        Some(self.session_context.get()?.upgrade()?.channel.clone())
    }

    /// What tells its connections from others': a modern client has no session, so that all of its requests share.
    pub(crate) fn dedicated_connection_id(&self) -> u64 {
        match self.era {
            Era::Legacy => self.id,
            Era::Modern => 0,
        }
    }

    /// It has a session of this name from now on. Who knows the name is let in, so that only a digest is kept.
    pub(crate) fn set_session_id(&self, name: &str) {
        const DIGEST_CHARS: usize = 16;
        let digest: String =
            sha256(name.as_bytes()).to_string().chars().take(DIGEST_CHARS).collect();
        let _already_set = self.session_digest.set(digest);
    }

    /// What tells its session from others, where it has one.
    pub(crate) fn session_digest(&self) -> Option<&str> {
        self.session_digest.get().map(String::as_str)
    }

    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    /// Hears of log messages from this level on. Says whether there is such a level.
    pub(crate) fn set_log_level(&self, level: &str) -> bool {
        let Some(place) = level_index(level) else { return false };
        self.log_level.store(place, Ordering::Relaxed);
        true
    }

    /// The level that it wants to hear of, where it said one.
    pub(crate) fn log_level(&self) -> Option<&'static str> {
        LOG_LEVELS.get(usize::from(self.log_level.load(Ordering::Relaxed))).copied()
    }

    /// Does it want to hear a message of this level? Legacy clients that said nothing hear all, modern ones nothing.
    pub(crate) fn wants_log(&self, level: &str) -> bool {
        let threshold = self.log_level.load(Ordering::Relaxed);
        match threshold {
            LEVEL_UNSET => self.era == Era::Legacy,
            threshold => level_index(level).is_none_or(|it| it >= threshold),
        }
    }
}

fn level_index(level: &str) -> Option<u8> {
    LOG_LEVELS.iter().position(|it| *it == level).and_then(|it| u8::try_from(it).ok())
}

/// The more talkative of two levels.
pub(crate) fn more_verbose(
    one: Option<&'static str>,
    other: Option<&'static str>,
) -> Option<&'static str> {
    match (one, other) {
        (Some(one), Some(other)) if level_index(other) < level_index(one) => Some(other),
        (Some(one), _) => Some(one),
        (None, other) => other,
    }
}

impl fmt::Display for ClientCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (self.form_elicitation || self.url_elicitation, 'e'),
            (self.sampling, 's'),
            (self.roots, 'r'),
        ];
        letters.iter().filter(|it| it.0).try_for_each(|it| write!(f, "{}", it.1))
    }
}

impl ClientCapabilities {
    pub(crate) const ALL: ClientCapabilities = ClientCapabilities {
        form_elicitation: true,
        url_elicitation: true,
        sampling: true,
        roots: true,
    };

    /// Is it as much as the connection for everybody offers?
    pub(crate) fn has_all(self) -> bool {
        (self.form_elicitation || self.url_elicitation) && self.sampling && self.roots
    }

    /// What a server is offered.
    pub(crate) fn advertised(self) -> Vec<ClientCapability> {
        let all = [
            (self.roots, ClientCapability::Roots),
            (self.form_elicitation || self.url_elicitation, ClientCapability::Elicitation),
            (self.sampling, ClientCapability::Sampling),
        ];
        all.into_iter().filter(|it| it.0).map(|it| it.1).collect()
    }

    fn parse(capabilities: Option<&Payload>) -> ClientCapabilities {
        let Some(declared) = capabilities.and_then(|it| it.decode::<Json>().ok()) else {
            return ClientCapabilities::default();
        };
        let elicitation = &declared["elicitation"];
        let has = |name: &str| declared.get(name).is_some_and(Json::is_object);
        ClientCapabilities {
            // Before there were two kinds, an empty object meant forms.
            form_elicitation: elicitation.is_object()
                && (elicitation.get("form").is_some() || elicitation.get("url").is_none()),
            url_elicitation: elicitation.get("url").is_some(),
            sampling: has("sampling"),
            roots: has("roots"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn client(era: Era, capabilities: &Json) -> Client {
        let payload = Payload::encode(capabilities).expect("JSON");
        Client::new("p".into(), era, Some(&payload))
    }

    #[test]
    fn an_empty_word_on_elicitation_means_forms() {
        let can = |it: Json| client(Era::Legacy, &it).capabilities();
        let form_only =
            ClientCapabilities { form_elicitation: true, ..ClientCapabilities::default() };
        assert_eq!(can(json!({"elicitation": {}})), form_only);
        assert_eq!(can(json!({"elicitation": {"form": {}}})), form_only);
        let url_only =
            ClientCapabilities { url_elicitation: true, ..ClientCapabilities::default() };
        assert_eq!(can(json!({"elicitation": {"url": {}}})), url_only);
        assert_eq!(can(json!({"sampling": null})), ClientCapabilities::default());
    }

    #[test]
    fn a_modern_client_hears_only_what_it_asked_for() {
        let modern = client(Era::Modern, &json!({}));
        assert!(!modern.wants_log("emergency"));
        assert!(modern.set_log_level("warning"));
        assert!(
            modern.wants_log("error") && !modern.wants_log("info") && !modern.set_log_level("loud")
        );
        assert!(client(Era::Legacy, &json!({})).wants_log("debug"));
        assert_eq!(more_verbose(Some("error"), Some("info")), Some("info"));
        assert_eq!(more_verbose(None, Some("info")), Some("info"));
    }
}
