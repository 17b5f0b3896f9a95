//! A client: its principal, its protocol era and its capabilities. A legacy client lives as long as its session, a
//! modern client as long as one request.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use serde_json::Value as Json;
use switchboard_config::entry::server::sha256;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::CallOwner;
use switchboard_wire::protocol::capabilities::ClientCapability;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::log_level::LogLevel;

use crate::downstream::channel::ClientChannel;

/// The next client id.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    /// Unique in this process.
    pub(crate) id: u64,
    /// The principal that the client acts for.
    pub(crate) principal: Arc<str>,
    /// What limits are counted for: the principal, or the remote address where clients do not authenticate.
    pub(crate) account: Arc<str>,
    /// The session that the client belongs to: its own id, unless several clients share a transport.
    pub(crate) session: u64,
    pub(crate) era: Era,
    /// The declared capabilities, as JSON.
    pub(crate) capabilities_json: Arc<str>,
    capabilities: ClientCapabilities,
    is_stateless: bool,
    /// A [`LogLevel`] as a number, or [`LEVEL_UNSET`].
    log_level: AtomicU8,
    /// What the client says it is: name and version. Untrusted; empty if it says nothing.
    pub(crate) program: String,
    session_digest: OnceLock<String>,
    session_context: OnceLock<SessionContext>,
}

/// Handles server requests, and sends messages, outside of the client's requests.
type SessionContext = (Weak<dyn CallOwner>, Weak<dyn ClientChannel>);

/// The client capabilities that servers can use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientCapabilities {
    pub(crate) form_elicitation: bool,
    pub(crate) url_elicitation: bool,
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
}

/// The client set no log level.
const LEVEL_UNSET: u8 = u8::MAX;

impl Client {
    pub(crate) fn new(principal: Arc<str>, era: Era, capabilities: Option<&Payload>) -> Client {
        let text = capabilities.and_then(|it| std::str::from_utf8(it.as_bytes()).ok());
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Client {
            id,
            session: id,
            account: principal.clone(),
            principal,
            era,
            capabilities_json: text.unwrap_or("{}").into(),
            capabilities: ClientCapabilities::parse(capabilities),
            is_stateless: false,
            log_level: AtomicU8::new(LEVEL_UNSET),
            program: String::new(),
            session_digest: OnceLock::new(),
            session_context: OnceLock::new(),
        }
    }

    /// The same client, counted for another account than that of its principal.
    pub(crate) fn with_account(self, account: Arc<str>) -> Client {
        Client { account, ..self }
    }

    /// The same client with the program that its `clientInfo` names.
    pub(crate) fn with_info(self, info: Option<&Payload>) -> Client {
        const MAX_PROGRAM_CHARS: usize = 120;
        let info: Json = info.and_then(|it| it.decode().ok()).unwrap_or_default();
        let words = [&info["name"], &info["version"]].map(|it| it.as_str().unwrap_or_default());
        let program = words.join(" ").trim().chars().take(MAX_PROGRAM_CHARS).collect();
        Client { program, ..self }
    }

    /// The same client as part of a session that it does not begin: each request on a transport comes from one program.
    pub(crate) fn in_session(self, session: u64) -> Client {
        Client { session, ..self }
    }

    /// The same client of a server that gives no sessions: it lasts as long as one request.
    pub(crate) fn without_session(self) -> Client {
        Client { is_stateless: true, ..self }
    }

    /// Do its grants, and what it has seen, belong to a session that ends? Otherwise to its principal.
    pub(crate) fn has_own_context(&self) -> bool {
        self.has_session() && !self.is_stateless
    }

    /// A session that is no client's own.
    pub(crate) fn new_session() -> u64 {
        NEXT_ID.fetch_add(1, Ordering::Relaxed)
    }

    /// Does the client declare this extension?
    pub(crate) fn supports_extension(&self, extension: &str) -> bool {
        let declared: Json = serde_json::from_str(&self.capabilities_json).unwrap_or_default();
        declared["extensions"].get(extension).is_some()
    }

    /// Sets the handler and the channel for messages outside of requests. Only the first call has an effect.
    pub(crate) fn set_session_context(
        &self,
        handler: Weak<dyn CallOwner>,
        channel: Weak<dyn ClientChannel>,
    ) {
        let _already_set = self.session_context.set((handler, channel));
    }

    /// Handles server requests outside of the client's requests, while the session lasts.
    pub(crate) fn session_handler(&self) -> Option<Arc<dyn CallOwner>> {
        self.session_context.get()?.0.upgrade()
    }

    /// Sends messages outside of the client's requests, while the session lasts.
    pub(crate) fn session_channel(&self) -> Option<Arc<dyn ClientChannel>> {
        self.session_context.get()?.1.upgrade()
    }

    /// Does the client have a session? A modern client has one only on a transport of its own.
    pub(crate) fn has_session(&self) -> bool {
        self.era == Era::Legacy || self.session != self.id
    }

    /// Sets the session id. Only a digest is kept, because the id itself grants access to the session.
    pub(crate) fn set_session_id(&self, name: &str) {
        const DIGEST_CHARS: usize = 16;
        let digest: String =
            sha256(name.as_bytes()).to_string().chars().take(DIGEST_CHARS).collect();
        let _already_set = self.session_digest.set(digest);
    }

    /// A digest of the session id, for traces and the audit log.
    pub(crate) fn session_digest(&self) -> Option<&str> {
        self.session_digest.get().map(String::as_str)
    }

    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    /// Sets the lowest level of log messages to forward.
    pub(crate) fn set_log_level(&self, level: LogLevel) {
        self.log_level.store(level as u8, Ordering::Relaxed);
    }

    /// The lowest level of log messages to forward, where the client set one.
    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        LogLevel::ALL.get(usize::from(self.log_level.load(Ordering::Relaxed))).copied()
    }

    /// Is a log message of this level forwarded? Without a level set, legacy clients get all messages and modern
    /// clients none. Messages of an unknown level are forwarded to clients that set one.
    pub(crate) fn wants_log(&self, level: &str) -> bool {
        match self.log_level() {
            None => self.era == Era::Legacy,
            Some(lowest) => LogLevel::parse(level).is_none_or(|it| it >= lowest),
        }
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

    /// Can a server send requests to the client?
    pub(crate) fn has_any(self) -> bool {
        self.form_elicitation || self.url_elicitation || self.sampling || self.roots
    }

    /// Are these all the capabilities that the shared connection offers?
    pub(crate) fn has_all(self) -> bool {
        (self.form_elicitation || self.url_elicitation) && self.sampling && self.roots
    }

    /// The capabilities to declare to a server.
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
            // Before 2025-11-25 there was no `url` mode, and an empty object meant forms.
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
    fn an_empty_elicitation_capability_means_forms() {
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
    fn a_modern_client_gets_only_the_log_messages_it_asked_for() {
        let modern = client(Era::Modern, &json!({}));
        assert!(!modern.wants_log("emergency"));
        modern.set_log_level(LogLevel::Warning);
        assert!(modern.wants_log("error") && !modern.wants_log("info"));
        assert!(client(Era::Legacy, &json!({})).wants_log("debug"));
        assert_eq!(LogLevel::parse("loud"), None);
        assert!(LogLevel::Info < LogLevel::Error);
    }
}
