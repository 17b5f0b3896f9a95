//! One client as it is known: who it is, how it speaks, and what it can do for servers. A legacy client is known for
//! as long as its session lasts, a modern one for one request.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use serde_json::Value as Json;
use switchboard_config::entry::sha256;
use switchboard_wire::era::Era;
use switchboard_wire::introduction::Ability;
use switchboard_wire::message::Payload;
use switchboard_wire::peer::Attend;

use crate::attendant::{Attendant, Outlet};

/// Numbers of guests, never used twice.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Tells principals apart by number. Nobody outside can choose names that look the same to it.
static PARTIES: OnceLock<RandomState> = OnceLock::new();

/// A client.
#[derive(Debug)]
pub(crate) struct Guest {
    /// Tells it from all others.
    pub(crate) number: u64,
    /// On whose behalf it comes.
    pub(crate) principal: Arc<str>,
    /// The same for all clients of one principal, and for no other's.
    pub(crate) party: u64,
    /// How it speaks.
    pub(crate) era: Era,
    /// What it can do, as JSON.
    pub(crate) capabilities: Arc<str>,
    can: Abilities,
    level: AtomicU8,
    session: OnceLock<String>,
    /// Who answers for the client outside of its requests.
    owner: OnceLock<Weak<Attendant>>,
}

/// What a client can do for servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    pub(crate) forms: bool,
    pub(crate) pages: bool,
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
}

/// The levels of log messages, from the least important.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// The client said nothing of levels.
const UNSAID: u8 = u8::MAX;

impl Guest {
    pub(crate) fn new(principal: Arc<str>, era: Era, capabilities: Option<&Payload>) -> Guest {
        let text = capabilities.and_then(|it| std::str::from_utf8(it.as_bytes()).ok());
        Guest {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            party: PARTIES.get_or_init(RandomState::new).hash_one(&principal),
            principal,
            era,
            capabilities: text.unwrap_or("{}").into(),
            can: Abilities::of(capabilities),
            level: AtomicU8::new(UNSAID),
            session: OnceLock::new(),
            owner: OnceLock::new(),
        }
    }

    /// Does it say that it knows this extension?
    pub(crate) fn knows(&self, extension: &str) -> bool {
        let said: Json = serde_json::from_str(&self.capabilities).unwrap_or_default();
        said["extensions"].get(extension).is_some()
    }

    /// Says who answers for the client outside of its requests.
    pub(crate) fn set_owner(&self, owner: &Arc<Attendant>) {
        let _it_has_one = self.owner.set(Arc::downgrade(owner));
    }

    pub(crate) fn owner(&self) -> Option<Arc<dyn Attend>> {
        Some(self.owner.get()?.upgrade()?)
    }

    /// The way to it outside of its requests.
    pub(crate) fn owner_outlet(&self) -> Option<Arc<dyn Outlet>> {
        Some(self.owner.get()?.upgrade()?.outlet.clone())
    }

    /// What tells its connections from others': a modern client has no session, so that all of its requests share.
    pub(crate) fn lane_number(&self) -> u64 {
        match self.era {
            Era::Legacy => self.number,
            Era::Modern => 0,
        }
    }

    /// It has a session of this name from now on. Who knows the name is let in, so that only a digest is kept.
    pub(crate) fn be_in_session(&self, name: &str) {
        const SHOWN: usize = 16;
        let digest: String = sha256(name.as_bytes()).to_string().chars().take(SHOWN).collect();
        let _it_has_one_already = self.session.set(digest);
    }

    /// What tells its session from others, where it has one.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.get().map(String::as_str)
    }

    pub(crate) fn can(&self) -> Abilities {
        self.can
    }

    /// Hears of log messages from this level on. Says whether there is such a level.
    pub(crate) fn set_level(&self, level: &str) -> bool {
        let Some(place) = place(level) else { return false };
        self.level.store(place, Ordering::Relaxed);
        true
    }

    /// The level that it wants to hear of, where it said one.
    pub(crate) fn level(&self) -> Option<&'static str> {
        LEVELS.get(usize::from(self.level.load(Ordering::Relaxed))).copied()
    }

    /// Does it want to hear a message of this level? Legacy clients that said nothing hear all, modern ones nothing.
    pub(crate) fn wants(&self, level: &str) -> bool {
        let threshold = self.level.load(Ordering::Relaxed);
        match threshold {
            UNSAID => self.era == Era::Legacy,
            threshold => place(level).is_none_or(|it| it >= threshold),
        }
    }
}

fn place(level: &str) -> Option<u8> {
    LEVELS.iter().position(|it| *it == level).and_then(|it| u8::try_from(it).ok())
}

/// The more talkative of two levels.
pub(crate) fn lower(
    one: Option<&'static str>,
    other: Option<&'static str>,
) -> Option<&'static str> {
    match (one, other) {
        (Some(one), Some(other)) if place(other) < place(one) => Some(other),
        (Some(one), _) => Some(one),
        (None, other) => other,
    }
}

impl fmt::Display for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [(self.forms || self.pages, 'e'), (self.sampling, 's'), (self.roots, 'r')];
        words.iter().filter(|it| it.0).try_for_each(|it| write!(f, "{}", it.1))
    }
}

impl Abilities {
    pub(crate) const ALL: Abilities =
        Abilities { forms: true, pages: true, sampling: true, roots: true };

    /// Is it as much as the connection for everybody offers?
    pub(crate) fn is_all(self) -> bool {
        (self.forms || self.pages) && self.sampling && self.roots
    }

    /// What a server is offered.
    pub(crate) fn offered(self) -> Vec<Ability> {
        let all = [
            (self.roots, Ability::Roots),
            (self.forms || self.pages, Ability::Elicitation),
            (self.sampling, Ability::Sampling),
        ];
        all.into_iter().filter(|it| it.0).map(|it| it.1).collect()
    }

    fn of(capabilities: Option<&Payload>) -> Abilities {
        let Some(said) = capabilities.and_then(|it| it.decode::<Json>().ok()) else {
            return Abilities::default();
        };
        let elicitation = &said["elicitation"];
        let has = |name: &str| said.get(name).is_some_and(Json::is_object);
        Abilities {
            // Before there were two kinds, an empty object meant forms.
            forms: elicitation.is_object()
                && (elicitation.get("form").is_some() || elicitation.get("url").is_none()),
            pages: elicitation.get("url").is_some(),
            sampling: has("sampling"),
            roots: has("roots"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn guest(era: Era, capabilities: &Json) -> Guest {
        let payload = Payload::of(capabilities).expect("JSON");
        Guest::new("p".into(), era, Some(&payload))
    }

    #[test]
    fn an_empty_word_on_elicitation_means_forms() {
        let can = |it: Json| guest(Era::Legacy, &it).can();
        let forms = Abilities { forms: true, ..Abilities::default() };
        assert_eq!(can(json!({"elicitation": {}})), forms);
        assert_eq!(can(json!({"elicitation": {"form": {}}})), forms);
        let pages = Abilities { pages: true, ..Abilities::default() };
        assert_eq!(can(json!({"elicitation": {"url": {}}})), pages);
        assert_eq!(can(json!({"sampling": null})), Abilities::default());
    }

    #[test]
    fn a_modern_client_hears_only_what_it_asked_for() {
        let modern = guest(Era::Modern, &json!({}));
        assert!(!modern.wants("emergency"));
        assert!(modern.set_level("warning"));
        assert!(modern.wants("error") && !modern.wants("info") && !modern.set_level("loud"));
        assert!(guest(Era::Legacy, &json!({})).wants("debug"));
        assert_eq!(lower(Some("error"), Some("info")), Some("info"));
        assert_eq!(lower(None, Some("info")), Some("info"));
    }
}
