//! What an authority remembers: whom it knows, what it gave to whom, what it saw, and how often.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::config::{AuthorizationConfig, OAuthQuirk};
use super::endpoint_fault::{Endpoint, ResponseFault};
use super::observed_request::{ObservedRequest, Site};
use crate::random::random_token;

/// How often things happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests at each endpoint.
    pub requests: BTreeMap<Endpoint, usize>,
    /// Clients that registered.
    pub registrations: usize,
    /// Codes that became tokens.
    pub logins: usize,
    /// Refresh tokens that became new ones.
    pub refreshes: usize,
    /// The most refreshes that were under way at once.
    pub peak_concurrent_refreshes: usize,
    /// Refresh tokens that were shown a second time, each of which ended a login.
    pub refresh_tokens_reused: usize,
    /// Codes that were shown a second time.
    pub codes_reused: usize,
    /// Logins that were given back.
    pub revocations: usize,
    /// Proofs that were shown a second time.
    pub dpop_proofs_reused: usize,
}

/// A client.
#[derive(Debug, Clone, Default)]
pub(crate) struct RegisteredClient {
    pub secret: Option<String>,
    pub key: Option<serde_json::Value>,
    /// Where its people may be sent back to; `None` for any loopback address.
    pub redirect_uris: Option<Vec<String>>,
}

/// What a token is good for.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub site: Site,
    pub client: String,
    pub scopes: BTreeSet<String>,
    pub resource: Option<String>,
    /// The thumbprint of the key that it is bound to.
    pub dpop_thumbprint: Option<String>,
    /// The login that it belongs to.
    pub login: u64,
}

/// A code on its way from a browser.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizationCode {
    pub grant: Grant,
    pub redirect_uri: String,
    pub challenge: String,
    /// A number that an id token repeats.
    pub nonce: Option<String>,
}

#[derive(Debug, Clone)]
struct RefreshToken {
    grant: Grant,
    is_spent: bool,
}

#[derive(Debug, Clone)]
struct AccessToken {
    grant: Grant,
    expires_at: Instant,
}

/// A device that waits.
#[derive(Debug, Clone)]
pub(crate) struct DeviceAuthorization {
    pub grant: Grant,
    pub polls: usize,
}

/// Two tokens as they are handed out.
#[derive(Debug, Clone)]
pub(crate) struct TokenPair {
    pub access: String,
    pub refresh: Option<String>,
}

/// What became of a refresh token that was shown.
#[derive(Debug)]
pub(crate) enum RefreshOutcome {
    Valid(Grant),
    /// Unknown, over, or used before; in that case the whole login is over now.
    Invalid,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct GrantStore {
    pub config: AuthorizationConfig,
    pub requests: Vec<ObservedRequest>,
    pub counters: Counters,
    pub clients: HashMap<String, RegisteredClient>,
    pub devices: HashMap<String, DeviceAuthorization>,
    /// Names of tokens that are good once: proofs and assertions.
    pub used_jtis: HashSet<String>,
    codes: HashMap<String, AuthorizationCode>,
    spent_codes: HashMap<String, u64>,
    refresh_tokens: HashMap<String, RefreshToken>,
    access_tokens: HashMap<String, AccessToken>,
    ended_logins: HashSet<u64>,
    refreshing: usize,
    fault_request_counts: Vec<usize>,
    last_number: u64,
}

impl GrantStore {
    pub fn new(config: AuthorizationConfig) -> GrantStore {
        let preregistered = config.clients.iter().map(|preregistered| {
            let (secret, key) = (preregistered.secret.clone(), preregistered.key.clone());
            (preregistered.id.clone(), RegisteredClient { secret, key, redirect_uris: None })
        });
        GrantStore {
            clients: preregistered.collect(),
            config,
            requests: Vec::new(),
            counters: Counters::default(),
            devices: HashMap::new(),
            used_jtis: HashSet::new(),
            codes: HashMap::new(),
            spent_codes: HashMap::new(),
            refresh_tokens: HashMap::new(),
            access_tokens: HashMap::new(),
            ended_logins: HashSet::new(),
            refreshing: 0,
            fault_request_counts: Vec::new(),
            last_number: 0,
        }
    }

    /// Counts a request, and says what goes wrong with it.
    pub fn count_request(&mut self, endpoint: Endpoint) -> Vec<ResponseFault> {
        *self.counters.requests.entry(endpoint).or_default() += 1;
        let faults = &self.config.faults;
        self.fault_request_counts.resize(faults.len(), 0);
        let mut due = Vec::new();
        for (fault, seen) in faults.iter().zip(&mut self.fault_request_counts) {
            if fault.endpoint.includes(endpoint) {
                if fault.applies_to(*seen) {
                    due.push(fault.kind.clone());
                }
                *seen += 1;
            }
        }
        due
    }

    /// Another charter from now on; what was given out stays good.
    pub fn reconfigure(&mut self, change: impl FnOnce(&mut AuthorizationConfig)) {
        change(&mut self.config);
        self.fault_request_counts.clear();
    }

    pub fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// A word that says what it is, and that nobody can guess.
    pub fn new_token(&mut self, kind: &str) -> String {
        format!("{kind}-{}-{}", self.next_number(), random_token())
    }

    pub fn store_code(&mut self, code: AuthorizationCode) -> String {
        let token = self.new_token("code");
        self.codes.insert(token.clone(), code);
        token
    }

    /// Takes a code, which is good once. Whoever shows it again ends the login that came of it.
    pub fn take_code(&mut self, token: &str) -> Option<AuthorizationCode> {
        if let Some(login) = self.spent_codes.get(token) {
            self.counters.codes_reused += 1;
            self.ended_logins.insert(*login);
        }
        let code = self.codes.remove(token)?;
        self.spent_codes.insert(token.to_owned(), code.grant.login);
        Some(code)
    }

    /// New tokens of a login.
    pub fn issue(&mut self, grant: &Grant, with_refresh: RefreshTokenIssue) -> TokenPair {
        let access = self.new_token("access");
        let until = Instant::now() + Duration::from_secs(self.config.token_lifetime);
        self.access_tokens
            .insert(access.clone(), AccessToken { grant: grant.clone(), expires_at: until });
        let wants_refresh = with_refresh == RefreshTokenIssue::Yes
            && !self.config.has_quirk(&OAuthQuirk::NoRefreshTokens);
        let refresh = wants_refresh.then(|| {
            let refresh = self.new_token("refresh");
            self.refresh_tokens
                .insert(refresh.clone(), RefreshToken { grant: grant.clone(), is_spent: false });
            refresh
        });
        TokenPair { access, refresh }
    }

    pub fn redeem_refresh_token(&mut self, token: &str) -> RefreshOutcome {
        let is_rotating = !self.config.has_quirk(&OAuthQuirk::NoRefreshRotation);
        let Some(refresh) = self.refresh_tokens.get_mut(token) else {
            return RefreshOutcome::Invalid;
        };
        if refresh.is_spent {
            self.counters.refresh_tokens_reused += 1;
            self.ended_logins.insert(refresh.grant.login);
        }
        if self.ended_logins.contains(&refresh.grant.login) {
            return RefreshOutcome::Invalid;
        }
        refresh.is_spent = is_rotating;
        self.counters.refreshes += 1;
        RefreshOutcome::Valid(refresh.grant.clone())
    }

    /// What a token for the resource is good for, while it is.
    pub fn access_grant(&self, token: &str) -> Option<&Grant> {
        let access = self.access_tokens.get(token)?;
        let is_valid =
            Instant::now() < access.expires_at && !self.ended_logins.contains(&access.grant.login);
        is_valid.then_some(&access.grant)
    }

    /// Ends the login that a token belongs to.
    pub fn revoke(&mut self, token: &str) {
        let refresh_login = self.refresh_tokens.get(token).map(|it| it.grant.login);
        let login =
            refresh_login.or_else(|| self.access_tokens.get(token).map(|it| it.grant.login));
        if let Some(login) = login {
            self.counters.revocations += 1;
            self.ended_logins.insert(login);
        }
    }

    pub fn refresh_started(&mut self) {
        self.refreshing += 1;
        self.counters.peak_concurrent_refreshes =
            self.counters.peak_concurrent_refreshes.max(self.refreshing);
    }

    pub fn refresh_ended(&mut self) {
        self.refreshing -= 1;
    }

    /// Makes every token for the resource worthless.
    pub fn revoke_access_tokens(&mut self) {
        self.access_tokens.clear();
    }

    /// Ends every login.
    pub fn end_all_logins(&mut self) {
        self.ended_logins.extend(self.refresh_tokens.values().map(|it| it.grant.login));
        self.ended_logins.extend(self.access_tokens.values().map(|it| it.grant.login));
    }
}

/// Does a grant come with a refresh token?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefreshTokenIssue {
    Yes,
    No,
}
