//! The state of the servers: clients, grants, tokens, recorded requests and counters.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::config::{AuthorizationConfig, OAuthQuirk};
use super::endpoint_fault::{Endpoint, ResponseFault};
use super::observed_request::{ObservedRequest, Site};
use crate::random::random_token;

/// How often events happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests per endpoint.
    pub requests: BTreeMap<Endpoint, usize>,
    /// Registered clients.
    pub registrations: usize,
    /// Codes that were exchanged for tokens.
    pub logins: usize,
    /// Refresh tokens that were exchanged for new ones.
    pub refreshes: usize,
    /// The maximum number of concurrent refreshes.
    pub peak_concurrent_refreshes: usize,
    /// Refresh tokens that were used again; each reuse ended a login.
    pub refresh_tokens_reused: usize,
    /// Codes that were used again.
    pub codes_reused: usize,
    /// Revoked logins.
    pub revocations: usize,
    /// DPoP proofs that were used again.
    pub dpop_proofs_reused: usize,
}

/// A registered client.
#[derive(Debug, Clone, Default)]
pub(crate) struct RegisteredClient {
    pub secret: Option<String>,
    pub key: Option<serde_json::Value>,
    /// The allowed redirect URIs; `None` allows any loopback URI.
    pub redirect_uris: Option<Vec<String>>,
}

/// What a token grants.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub site: Site,
    pub client: String,
    pub scopes: BTreeSet<String>,
    pub resource: Option<String>,
    /// The thumbprint of the key that the tokens are bound to.
    pub dpop_thumbprint: Option<String>,
    /// The login that the grant belongs to.
    pub login: u64,
}

/// An authorization code.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizationCode {
    pub grant: Grant,
    pub redirect_uri: String,
    pub challenge: String,
    /// The nonce for the id token.
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

/// A pending device authorization.
#[derive(Debug, Clone)]
pub(crate) struct DeviceAuthorization {
    pub grant: Grant,
    pub polls: usize,
}

/// An issued access token, with a refresh token if there is one.
#[derive(Debug, Clone)]
pub(crate) struct TokenPair {
    pub access: String,
    pub refresh: Option<String>,
}

/// The result of redeeming a refresh token.
#[derive(Debug)]
pub(crate) enum RefreshOutcome {
    Valid(Grant),
    /// Unknown, expired or used before; reuse ends the whole login.
    Invalid,
}

/// The state.
#[derive(Debug)]
pub(crate) struct GrantStore {
    pub config: AuthorizationConfig,
    pub requests: Vec<ObservedRequest>,
    pub counters: Counters,
    pub clients: HashMap<String, RegisteredClient>,
    pub devices: HashMap<String, DeviceAuthorization>,
    /// Ids of single-use tokens: proofs and assertions.
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

    /// Counts a request and returns the faults that apply to it.
    pub fn count_request(&mut self, endpoint: Endpoint) -> Vec<ResponseFault> {
        *self.counters.requests.entry(endpoint).or_default() += 1;
        let faults = &self.config.faults;
        self.fault_request_counts.resize(faults.len(), 0);
        let mut applicable = Vec::new();
        for (fault, request_count) in faults.iter().zip(&mut self.fault_request_counts) {
            if fault.endpoint.includes(endpoint) {
                if fault.applies_to(*request_count) {
                    applicable.push(fault.kind.clone());
                }
                *request_count += 1;
            }
        }
        applicable
    }

    /// Changes the configuration; issued tokens stay valid.
    pub fn reconfigure(&mut self, change: impl FnOnce(&mut AuthorizationConfig)) {
        change(&mut self.config);
        self.fault_request_counts.clear();
    }

    pub fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// An unguessable token with its kind as prefix.
    pub fn new_token(&mut self, kind: &str) -> String {
        format!("{kind}-{}-{}", self.next_number(), random_token())
    }

    pub fn store_code(&mut self, code: AuthorizationCode) -> String {
        let token = self.new_token("code");
        self.codes.insert(token.clone(), code);
        token
    }

    /// Redeems a code, which is valid once. Reuse ends the login that it created.
    pub fn take_code(&mut self, token: &str) -> Option<AuthorizationCode> {
        if let Some(login) = self.spent_codes.get(token) {
            self.counters.codes_reused += 1;
            self.ended_logins.insert(*login);
        }
        let code = self.codes.remove(token)?;
        self.spent_codes.insert(token.to_owned(), code.grant.login);
        Some(code)
    }

    /// Issues tokens for a grant.
    pub fn issue(&mut self, grant: &Grant, with_refresh: RefreshTokenIssue) -> TokenPair {
        let access = self.new_token("access");
        let expires_at = Instant::now() + Duration::from_secs(self.config.token_lifetime);
        self.access_tokens.insert(access.clone(), AccessToken { grant: grant.clone(), expires_at });
        let includes_refresh = with_refresh == RefreshTokenIssue::Yes
            && !self.config.has_quirk(&OAuthQuirk::NoRefreshTokens);
        let refresh = includes_refresh.then(|| {
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

    /// The grant of a valid access token.
    pub fn access_grant(&self, token: &str) -> Option<&Grant> {
        let access = self.access_tokens.get(token)?;
        let is_valid =
            Instant::now() < access.expires_at && !self.ended_logins.contains(&access.grant.login);
        is_valid.then_some(&access.grant)
    }

    /// Ends the login of a token.
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

    /// Revokes all access tokens.
    pub fn revoke_access_tokens(&mut self) {
        self.access_tokens.clear();
    }

    /// Ends all logins.
    pub fn end_all_logins(&mut self) {
        self.ended_logins.extend(self.refresh_tokens.values().map(|it| it.grant.login));
        self.ended_logins.extend(self.access_tokens.values().map(|it| it.grant.login));
    }
}

/// Whether a grant includes a refresh token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefreshTokenIssue {
    Yes,
    No,
}
