//! Chooses the name under which each tool is exposed: `mcp__<server>__<tool>`.
//! Names are made here for all tools at once and only looked up afterwards; nothing splits one.
//!
//! A name depends on what there is, never on the order in which it came. A plain name is kept by a tool that has it
//! for itself. As soon as two want it, it is nobody's: each of them has a piece of the hash of (server, tool) at its
//! end, so that a tool which somebody knows by its plain name is not silently another server's. The same is done
//! where a name is too long, or one of ours.
//!
//! What is there changes while servers come and go, so two more things count:
//! - Two known servers whose names read the same contest all their names, connected or not. Whether one of them is
//!   away makes no difference then.
//! - A name that was contested once stays contested as long as pools are made from pools. A server that goes leaves
//!   nothing for another to take, and has its old names when it comes back.
//!
//! What a rule hides and what is quarantined counts too: rules change what is seen, not what things are called.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use switchboard_config::scope::Scope;

/// The longest name that model APIs take.
pub const MAX_NAME_BYTES: usize = 64;
/// The most contested names that are remembered.
const MAX_CONTESTED: usize = 10_000;
/// How many digits of the hash are added: none at first, more while names still meet.
const HASH_DIGITS: [usize; 4] = [0, 8, 16, 32];

/// What kind of name a server has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameOrigin {
    /// Somebody configured it.
    #[default]
    Configured,
    /// It is a connector of an account; its name is free text.
    Connector,
}

impl NameOrigin {
    /// The kind of name that servers of a scope have.
    pub fn of(scope: Scope) -> NameOrigin {
        match scope {
            Scope::Connectors => NameOrigin::Connector,
            Scope::Enterprise
            | Scope::Dynamic
            | Scope::Project
            | Scope::Local
            | Scope::User
            | Scope::Plugin => NameOrigin::Configured,
        }
    }

    /// The kind of name that this is, where nothing else is known of the server: only connectors have free texts.
    pub fn guess(server: &str) -> NameOrigin {
        let is_free = |c: char| !(c.is_ascii_alphanumeric() || "_-:".contains(c));
        match server.contains(is_free) {
            true => NameOrigin::Connector,
            false => NameOrigin::Configured,
        }
    }
}

/// The names that nobody may have for a while: those that more than one wanted.
pub(super) type Contested = BTreeSet<String>;

/// A server's name as it is written in the names of its tools, and so in rules.
pub fn prefix(server: &str, origin: NameOrigin) -> String {
    let plain = sanitise(server);
    match origin {
        NameOrigin::Configured => plain,
        NameOrigin::Connector => {
            let words: Vec<&str> = plain.split('_').filter(|word| !word.is_empty()).collect();
            words.join("_")
        }
    }
}

/// A name with every character that tool names cannot hold made an underscore, as rules write it.
pub fn sanitise(text: &str) -> String {
    sanitise_borrowed(text).into_owned()
}

/// The same, without a copy where nothing has to be changed.
pub fn sanitise_borrowed(text: &str) -> Cow<'_, str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match text.chars().all(allowed) {
        true => Cow::Borrowed(text),
        false => text.chars().map(|c| if allowed(c) { c } else { '_' }).collect(),
    }
}

/// A tool that wants a name.
pub(super) struct Candidate<'a> {
    server: &'a str,
    tool: &'a str,
    /// The plain name, however long it is.
    plain: String,
    /// Must it have another name than the plain one, whatever others want?
    prefix_use: PrefixUse,
}

impl<'a> Candidate<'a> {
    /// A tool of a server whose prefix is shared with another server or not.
    pub(super) fn new(server: &'a str, prefix: &str, tool: &'a str, prefix_use: PrefixUse) -> Self {
        let plain = format!("mcp__{prefix}__{}", sanitise(tool));
        Candidate { server, tool, plain, prefix_use }
    }

    /// May it have its plain name, as far as others have no say? One that ends like a changed name may not, so that
    /// plain and changed names never meet, and nobody can choose a name to push another from his.
    fn may_be_plain(&self) -> bool {
        let fits = self.plain.len() <= MAX_NAME_BYTES;
        let looks_changed = HASH_DIGITS[1..].iter().any(|digits| {
            let start = self.plain.len().saturating_sub(digits + 1);
            is_suffix(self.plain.get(start..).unwrap_or_default())
        });
        fits && self.prefix_use == PrefixUse::Unique && !looks_changed
    }

    fn name(&self, digits: usize) -> String {
        if digits == 0 {
            return self.plain.clone();
        }
        let mut hash = Sha256::new();
        hash.update((self.server.len() as u64).to_be_bytes());
        hash.update(self.server);
        hash.update(self.tool);
        let keep = self.plain.len().min(MAX_NAME_BYTES - digits - 1);
        let mut name = String::with_capacity(keep + digits + 1);
        name.push_str(&self.plain[..keep]);
        name.push('_');
        for byte in hash.finalize().iter().take(digits / 2) {
            write!(name, "{byte:02x}").expect("writing to text cannot fail");
        }
        name
    }
}

/// Could this be what was added to a plain name?
pub(super) fn is_suffix(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix('_')
        .is_some_and(|it| HASH_DIGITS[1..].contains(&it.len()) && it.bytes().all(is_digit))
}

/// Does another known server have the same prefix?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrefixUse {
    Shared,
    Unique,
}

/// A name for each, in their order; and the contested names, those of before included.
pub(super) fn names(
    candidates: &[Candidate<'_>],
    is_reserved: &dyn Fn(&str) -> bool,
    mut contested: Contested,
) -> (Vec<String>, Contested) {
    let mut names = vec![String::new(); candidates.len()];
    let mut waiting: Vec<usize> = (0..candidates.len()).collect();
    for digits in HASH_DIGITS {
        for at in &waiting {
            names[*at] = candidates[*at].name(digits);
        }
        let mut wanted: HashMap<&str, u32> = HashMap::with_capacity(waiting.len());
        for at in &waiting {
            *wanted.entry(&names[*at]).or_default() += 1;
        }
        // Those that may not have it want it all the same: who has it does not depend on why.
        let (colliding, unique): (Vec<usize>, Vec<usize>) =
            waiting.iter().partition(|at| wanted[names[**at].as_str()] > 1);
        let is_refused = |at: &usize| {
            let name = names[*at].as_str();
            let is_forced = digits == 0 && !candidates[*at].may_be_plain();
            is_forced || is_reserved(name) || contested.contains(name)
        };
        waiting = unique.into_iter().filter(is_refused).chain(colliding.iter().copied()).collect();
        for at in colliding {
            if contested.len() < MAX_CONTESTED && names[at].len() <= MAX_NAME_BYTES {
                contested.insert(names[at].clone());
            }
        }
        // With the most digits there is nobody left: two that meet there have the same hash.
    }
    (names, contested)
}
