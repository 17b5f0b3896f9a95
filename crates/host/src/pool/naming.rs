//! Chooses the exposed name of each tool: `mcp__<server>__<tool>`. Names are chosen for all tools at once and only
//! looked up afterwards; no code splits a name.
//!
//! A name depends only on which tools exist, never on their order. A tool keeps its plain name while no other tool
//! has the same one. If two collide, both get a suffix from the hash of (server, tool), so that a known plain name
//! never silently becomes another server's tool. Names that are too long or reserved for built-in tools get a suffix
//! too.
//!
//! Servers come and go, so two more rules apply:
//! - Two known servers with the same prefix contest all their names, whether they are connected or not.
//! - A contested name stays contested in all following pools. If one server goes away, no other tool takes its name,
//!   and its tools have their old names when it comes back.
//!
//! Tools of embedded servers have plain names, without the prefix that every other tool's name begins with.
//!
//! Hidden and quarantined tools count too: rules change what is visible, not what it is called.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use switchboard_config::scope::Scope;

/// The maximum name length that model APIs accept.
pub const MAX_NAME_BYTES: usize = 64;
/// The maximum number of remembered contested names.
const MAX_CONTESTED: usize = 10_000;
/// The lengths of the hash suffix: none at first, longer ones while names still collide.
const HASH_DIGITS: [usize; 4] = [0, 8, 16, 32];

/// The kind of a server's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameOrigin {
    /// A configured name.
    #[default]
    Configured,
    /// The name of a connector, which is free text.
    Connector,
    /// The name of a server of the embedding program, whose tools have plain names.
    Embedded,
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

    /// Guesses the kind from the name alone: only connectors have free text.
    pub fn guess(server: &str) -> NameOrigin {
        let is_free = |c: char| !(c.is_ascii_alphanumeric() || "_-:".contains(c));
        match server.contains(is_free) {
            true => NameOrigin::Connector,
            false => NameOrigin::Configured,
        }
    }
}

/// Names that no tool may have, because more than one wanted them.
pub(super) type ContestedNames = BTreeSet<String>;

/// A server's name as it appears in exposed names and in rules.
pub fn prefix(server: &str, origin: NameOrigin) -> String {
    let plain = sanitise(server);
    match origin {
        NameOrigin::Configured | NameOrigin::Embedded => plain,
        NameOrigin::Connector => {
            let words: Vec<&str> = plain.split('_').filter(|word| !word.is_empty()).collect();
            words.join("_")
        }
    }
}

/// Replaces every character that tool names cannot contain by an underscore, as in rules.
pub fn sanitise(text: &str) -> String {
    sanitise_borrowed(text).into_owned()
}

/// Like [`sanitise`], without a copy if nothing changes.
pub fn sanitise_borrowed(text: &str) -> Cow<'_, str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match text.chars().all(allowed) {
        true => Cow::Borrowed(text),
        false => text.chars().map(|c| if allowed(c) { c } else { '_' }).collect(),
    }
}

/// A tool that needs a name.
pub(super) struct Candidate<'a> {
    server: &'a str,
    tool: &'a str,
    /// The plain name, of any length.
    plain: String,
    /// Whether the prefix is shared, which rules out the plain name.
    prefix_use: PrefixUse,
}

impl<'a> Candidate<'a> {
    /// A tool of a server with the given prefix.
    pub(super) fn new(server: &'a str, prefix: &str, tool: &'a str, prefix_use: PrefixUse) -> Self {
        let plain = format!("mcp__{prefix}__{}", sanitise(tool));
        Candidate { server, tool, plain, prefix_use }
    }

    /// A tool of an embedded server. Its name has no prefix, so no tool of another server can have it.
    pub(super) fn embedded(server: &'a str, tool: &'a str) -> Self {
        Candidate { server, tool, plain: sanitise(tool), prefix_use: PrefixUse::Unique }
    }

    /// Whether the plain name is possible, regardless of other tools. A name that ends like a hash suffix is not, so
    /// that plain and suffixed names never collide and no server can choose a name to displace another tool's.
    fn may_be_plain(&self) -> bool {
        let is_short = self.plain.len() <= MAX_NAME_BYTES;
        let looks_suffixed = HASH_DIGITS[1..].iter().any(|digits| {
            let start = self.plain.len().saturating_sub(digits + 1);
            is_suffix(self.plain.get(start..).unwrap_or_default())
        });
        is_short && self.prefix_use == PrefixUse::Unique && !looks_suffixed
    }

    fn name(&self, digits: usize) -> String {
        if digits == 0 {
            return self.plain.clone();
        }
        let mut hash = Sha256::new();
        hash.update((self.server.len() as u64).to_be_bytes());
        hash.update(self.server);
        hash.update(self.tool);
        let kept_bytes = self.plain.len().min(MAX_NAME_BYTES - digits - 1);
        let mut name = String::with_capacity(kept_bytes + digits + 1);
        name.push_str(&self.plain[..kept_bytes]);
        name.push('_');
        for byte in hash.finalize().iter().take(digits / 2) {
            write!(name, "{byte:02x}").expect("writing to a string cannot fail");
        }
        name
    }
}

/// Whether a text looks like a hash suffix.
pub(super) fn is_suffix(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix('_')
        .is_some_and(|it| HASH_DIGITS[1..].contains(&it.len()) && it.bytes().all(is_digit))
}

/// Whether another known server has the same prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrefixUse {
    Shared,
    Unique,
}

/// The names in the order of the candidates, and the contested names including the previous ones.
pub(super) fn names(
    candidates: &[Candidate<'_>],
    is_reserved: &dyn Fn(&str) -> bool,
    mut contested: ContestedNames,
) -> (Vec<String>, ContestedNames) {
    let mut names = vec![String::new(); candidates.len()];
    let mut pending: Vec<usize> = (0..candidates.len()).collect();
    for digits in HASH_DIGITS {
        for index in &pending {
            names[*index] = candidates[*index].name(digits);
        }
        let mut counts: HashMap<&str, u32> = HashMap::with_capacity(pending.len());
        for index in &pending {
            *counts.entry(&names[*index]).or_default() += 1;
        }
        // Candidates that may not have the name still count, so that the result does not depend on the reason.
        let (colliding, unique): (Vec<usize>, Vec<usize>) =
            pending.iter().partition(|index| counts[names[**index].as_str()] > 1);
        let is_refused = |index: &usize| {
            let name = names[*index].as_str();
            let is_excluded = digits == 0 && !candidates[*index].may_be_plain();
            is_excluded || is_reserved(name) || contested.contains(name)
        };
        pending = unique.into_iter().filter(is_refused).chain(colliding.iter().copied()).collect();
        for index in colliding {
            if contested.len() < MAX_CONTESTED && names[index].len() <= MAX_NAME_BYTES {
                contested.insert(names[index].clone());
            }
        }
        // After the longest suffix none is pending: a collision there would be a collision of the hash.
    }
    (names, contested)
}
