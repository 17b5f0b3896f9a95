//! What an authority remembers: whom it knows, what it gave to whom, what it saw, and how often.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::charter::{Charter, Habit};
use super::lapse::{Endpoint, How};
use super::sighting::{Sighting, Site};
use super::signature_key::unguessable;

/// How often things happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests at each endpoint.
    pub requests: BTreeMap<Endpoint, usize>,
    /// Clients that registered.
    pub registrations: usize,
    /// Codes that became tokens.
    pub logins: usize,
    /// Refresh tokens that became new ones.
    pub refreshes: usize,
    /// The most refreshes that were under way at once.
    pub most_refreshes_at_once: usize,
    /// Refresh tokens that were shown a second time, each of which ended a login.
    pub reused: usize,
    /// Codes that were shown a second time.
    pub codes_reused: usize,
    /// Logins that were given back.
    pub revocations: usize,
    /// Proofs that were shown a second time.
    pub proofs_reused: usize,
}

/// A client.
#[derive(Debug, Clone, Default)]
pub(super) struct Client {
    pub secret: Option<String>,
    pub key: Option<serde_json::Value>,
    /// Where its people may be sent back to; `None` for any loopback address.
    pub redirects: Option<Vec<String>>,
}

/// What a token is good for.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub site: Site,
    pub client: String,
    pub scopes: BTreeSet<String>,
    pub resource: Option<String>,
    /// The thumbprint of the key that it is bound to.
    pub key: Option<String>,
    /// The login that it belongs to.
    pub login: u64,
}

/// A code on its way from a browser.
#[derive(Debug, Clone)]
pub(super) struct Code {
    pub grant: Grant,
    pub redirect: String,
    pub challenge: String,
    /// A number that an id token repeats.
    pub nonce: Option<String>,
}

#[derive(Debug, Clone)]
struct Refresh {
    grant: Grant,
    is_spent: bool,
}

#[derive(Debug, Clone)]
struct Access {
    grant: Grant,
    until: Instant,
}

/// A device that waits.
#[derive(Debug, Clone)]
pub(super) struct Device {
    pub grant: Grant,
    pub polls: usize,
}

/// Two tokens as they are handed out.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub access: String,
    pub refresh: Option<String>,
}

/// What became of a refresh token that was shown.
#[derive(Debug)]
pub(super) enum Shown {
    Good(Grant),
    /// Unknown, over, or used before; in that case the whole login is over now.
    Dead,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Ledger {
    pub charter: Charter,
    pub sightings: Vec<Sighting>,
    pub tally: Tally,
    pub clients: HashMap<String, Client>,
    pub devices: HashMap<String, Device>,
    /// Names of tokens that are good once: proofs and assertions.
    pub used_names: HashSet<String>,
    codes: HashMap<String, Code>,
    spent_codes: HashMap<String, u64>,
    refreshes: HashMap<String, Refresh>,
    accesses: HashMap<String, Access>,
    ended: HashSet<u64>,
    refreshing: usize,
    lapses_seen: Vec<usize>,
    next: u64,
}

impl Ledger {
    pub fn new(charter: Charter) -> Ledger {
        let known = charter.clients.iter().map(|known| {
            let (secret, key) = (known.secret.clone(), known.key.clone());
            (known.id.clone(), Client { secret, key, redirects: None })
        });
        Ledger {
            clients: known.collect(),
            charter,
            sightings: Vec::new(),
            tally: Tally::default(),
            devices: HashMap::new(),
            used_names: HashSet::new(),
            codes: HashMap::new(),
            spent_codes: HashMap::new(),
            refreshes: HashMap::new(),
            accesses: HashMap::new(),
            ended: HashSet::new(),
            refreshing: 0,
            lapses_seen: Vec::new(),
            next: 0,
        }
    }

    /// Counts a request, and says what goes wrong with it.
    pub fn count(&mut self, endpoint: Endpoint) -> Vec<How> {
        *self.tally.requests.entry(endpoint).or_default() += 1;
        let lapses = &self.charter.lapses;
        self.lapses_seen.resize(lapses.len(), 0);
        let mut due = Vec::new();
        for (lapse, seen) in lapses.iter().zip(&mut self.lapses_seen) {
            if lapse.at.covers(endpoint) {
                if lapse.happens_at(*seen) {
                    due.push(lapse.how.clone());
                }
                *seen += 1;
            }
        }
        due
    }

    /// Another charter from now on; what was given out stays good.
    pub fn change(&mut self, change: impl FnOnce(&mut Charter)) {
        change(&mut self.charter);
        self.lapses_seen.clear();
    }

    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A word that says what it is, and that nobody can guess.
    pub fn word(&mut self, kind: &str) -> String {
        format!("{kind}-{}-{}", self.number(), unguessable())
    }

    pub fn new_code(&mut self, code: Code) -> String {
        let word = self.word("code");
        self.codes.insert(word.clone(), code);
        word
    }

    /// Takes a code, which is good once. Whoever shows it again ends the login that came of it.
    pub fn take_code(&mut self, word: &str) -> Option<Code> {
        if let Some(login) = self.spent_codes.get(word) {
            self.tally.codes_reused += 1;
            self.ended.insert(*login);
        }
        let code = self.codes.remove(word)?;
        self.spent_codes.insert(word.to_owned(), code.grant.login);
        Some(code)
    }

    /// New tokens of a login.
    pub fn issue(&mut self, grant: &Grant, with_refresh: WithRefresh) -> Pair {
        let access = self.word("access");
        let until = Instant::now() + Duration::from_secs(self.charter.lifetime);
        self.accesses.insert(access.clone(), Access { grant: grant.clone(), until });
        let wanted = with_refresh == WithRefresh::Yes && !self.charter.has(&Habit::NoRefreshTokens);
        let refresh = wanted.then(|| {
            let refresh = self.word("refresh");
            self.refreshes
                .insert(refresh.clone(), Refresh { grant: grant.clone(), is_spent: false });
            refresh
        });
        Pair { access, refresh }
    }

    pub fn show_refresh(&mut self, word: &str) -> Shown {
        let rotates = !self.charter.has(&Habit::NoRotation);
        let Some(refresh) = self.refreshes.get_mut(word) else { return Shown::Dead };
        if refresh.is_spent {
            self.tally.reused += 1;
            self.ended.insert(refresh.grant.login);
        }
        if self.ended.contains(&refresh.grant.login) {
            return Shown::Dead;
        }
        refresh.is_spent = rotates;
        self.tally.refreshes += 1;
        Shown::Good(refresh.grant.clone())
    }

    /// What a token for the resource is good for, while it is.
    pub fn access(&self, word: &str) -> Option<&Grant> {
        let access = self.accesses.get(word)?;
        let is_good = Instant::now() < access.until && !self.ended.contains(&access.grant.login);
        is_good.then_some(&access.grant)
    }

    /// Ends the login that a token belongs to.
    pub fn revoke(&mut self, word: &str) {
        let of_refresh = self.refreshes.get(word).map(|it| it.grant.login);
        let login = of_refresh.or_else(|| self.accesses.get(word).map(|it| it.grant.login));
        if let Some(login) = login {
            self.tally.revocations += 1;
            self.ended.insert(login);
        }
    }

    pub fn begin_refresh(&mut self) {
        self.refreshing += 1;
        self.tally.most_refreshes_at_once = self.tally.most_refreshes_at_once.max(self.refreshing);
    }

    pub fn end_refresh(&mut self) {
        self.refreshing -= 1;
    }

    /// Makes every token for the resource worthless.
    pub fn forget_access(&mut self) {
        self.accesses.clear();
    }

    /// Ends every login.
    pub fn end_all(&mut self) {
        self.ended.extend(self.refreshes.values().map(|it| it.grant.login));
        self.ended.extend(self.accesses.values().map(|it| it.grant.login));
    }
}

/// Does a grant come with a refresh token?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithRefresh {
    Yes,
    No,
}
