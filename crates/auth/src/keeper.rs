//! Shows a server who we are, with every request: the token of this moment, renewed when it must be, and a
//! proof where the token is bound. When nothing helps it says what a person would have to do, and waits for nobody.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use switchboard_wire::network::{Authorize, Authorizing, Judging, Outbound, Reception, Verdict};
use thiserror::Error;
use tokio::time::Instant;

use crate::challenge::{Complaint, Demand};
use crate::confidential::Secret;
use crate::dpop::{ProofKey, Proven};
use crate::flow::Plan;
use crate::pkce::at_present;
use crate::refresh::{Need, Refresher, RenewError};
use crate::runner::{Nobody, Person, SignInError, now, sign_in};
use crate::scopes::Scopes;
use crate::token::Kind;
use crate::vault::{self, Hold, Record, RecordKey, Standing, VaultError};

const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: &str = "dpop-nonce";
/// How much of a challenge is looked at.
const CHALLENGES: usize = 16;
const LONGEST_CHALLENGE: usize = 8 * 1024;
const LONGEST_NONCE: usize = 1024;
/// How long it is believed that there is no login, while the server takes requests without one. A refusal is a reason
/// to look at once.
const BELIEVED: Duration = Duration::from_secs(1);

/// What a person would have to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanting {
    /// Sign in.
    Login {
        /// What the server said.
        demand: Demand,
    },
    /// Sign in again, for more.
    MoreScopes {
        /// What the server said.
        demand: Demand,
        /// What is held already and is to be kept.
        held: Option<Scopes>,
    },
}

/// A plan of a login that needs no person; none where it needs one after all.
pub type Planning = Pin<Box<dyn Future<Output = Option<Plan>> + Send>>;
/// Makes it anew each time, from what the server said and who we were the last time: what vouches for us may have
/// changed meanwhile.
pub type Unattended = dyn Fn(Demand, Option<Arc<Record>>) -> Planning + Send + Sync;

/// Keeps one server's login at hand.
pub struct Keeper {
    refresher: Refresher,
    server: String,
    client: String,
    unattended: Option<Box<Unattended>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Current>,
    /// When the vault had nothing for us.
    looked_in_vain: Option<Instant>,
    /// The number that the server wants to see in proofs.
    nonce: Option<String>,
    wanting: Option<Wanting>,
    trouble: Option<Arc<Trouble>>,
}

#[derive(Clone)]
struct Current {
    record: Arc<Record>,
    proof: Option<ProofKey>,
    trial: Trial,
}

/// What the server thinks of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// It may well take it.
    Open,
    /// It refused the one before, and has not taken this one yet.
    Pending,
}

/// What came of a renewal.
enum Renewal {
    Got(Current),
    /// The login is over.
    Ended,
    /// It may go better later.
    Later,
}

/// Why there is nothing to show, where that is not for a person to mend by signing in.
#[derive(Debug)]
pub enum Trouble {
    /// The login could not be read.
    Vault(VaultError),
    /// It could not be renewed, for now.
    Renew(RenewError),
    /// Signing in without a person did not work.
    SignIn(SignInError),
}

/// Why nobody is signed in, or the login is not kept.
#[derive(Debug, Error)]
pub enum LoginError {
    /// Nobody is.
    #[error(transparent)]
    SignIn(#[from] SignInError),
    /// Somebody is, or could be, but the login cannot be kept.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl Keeper {
    /// Keeps the login at the refresher's server as this client.
    pub fn new(refresher: Refresher, client: &str) -> Keeper {
        let server = refresher.trust().server.to_string();
        let client = client.to_owned();
        Keeper { refresher, server, client, unattended: None, state: Mutex::default() }
    }

    /// Signs in by itself where it must, because no person is needed.
    pub fn unattended(
        mut self,
        plan: impl Fn(Demand, Option<Arc<Record>>) -> Planning + Send + Sync + 'static,
    ) -> Keeper {
        self.unattended = Some(Box::new(plan));
        self
    }

    /// What a person would have to do, since the last request that was turned away.
    pub fn wanting(&self) -> Option<Wanting> {
        self.state().wanting.clone()
    }

    /// Waits until renewals under way have been written down.
    pub async fn close(&self) {
        self.refresher.close().await;
    }

    /// What else stood in the way the last time.
    pub fn trouble(&self) -> Option<Arc<Trouble>> {
        self.state().trouble.clone()
    }

    /// Takes over a login that was just made.
    pub fn signed_in(&self, record: Record) {
        let mut state = self.state();
        state.current = Some(Current::of(record));
        state.wanting = None;
        state.trouble = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Option<Current> {
        self.state().current.clone()
    }

    fn hold(&self, record: Record, trial: Trial) -> Current {
        let current = Current { trial, ..Current::of(record) };
        self.state().current = Some(current.clone());
        current
    }

    fn stumble(&self, trouble: Trouble) {
        self.state().trouble = Some(Arc::new(trouble));
    }

    /// What the vault holds, if it is better than what we have.
    async fn look(&self) -> Option<Current> {
        let found = match self.refresher.vault().find(&self.server, &self.client).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.state().looked_in_vain = Some(Instant::now());
                return None;
            }
            Err(error) => {
                self.stumble(Trouble::Vault(error));
                return None;
            }
        };
        if found.standing != Standing::Good {
            return None;
        }
        let is_known = self.current().is_some_and(|current| {
            current.record.key == found.key && current.record.version >= found.version
        });
        (!is_known).then(|| self.hold(found, Trial::Open))
    }

    fn has_just_looked(&self) -> bool {
        self.state().looked_in_vain.is_some_and(|when| when.elapsed() < BELIEVED)
    }

    /// A token to show now.
    async fn fresh(&self) -> Option<Current> {
        let current = match self.current() {
            Some(current) => current,
            // Most servers want no login, and the vault is on disk.
            None if self.has_just_looked() => return None,
            None => self.look().await?,
        };
        let held = &current.record.held;
        if held.is_expired(now()) {
            // Another process may have renewed it.
            if let Some(newer) = self.look().await
                && !newer.record.held.is_expired(now())
            {
                return Some(newer);
            }
            return match self.renewed(&current, Need::Expiring).await {
                Renewal::Got(renewed) => Some(renewed),
                // The server has the last word.
                Renewal::Ended | Renewal::Later => Some(current),
            };
        }
        if held.is_expiring(now()) && held.refresh.is_some() {
            match self.look().await {
                Some(newer) => return Some(newer),
                None => self.refresher.renew_ahead(&current.record),
            }
        }
        Some(current)
    }

    async fn renewed(&self, current: &Current, need: Need) -> Renewal {
        match self.refresher.renew(&current.record, need).await {
            Ok(record) => {
                let trial = match need {
                    Need::Refused => Trial::Pending,
                    Need::Expiring => Trial::Open,
                };
                Renewal::Got(self.hold(record, trial))
            }
            Err(RenewError::NeedsLogin) => Renewal::Ended,
            Err(error) => {
                self.stumble(Trouble::Renew(error));
                Renewal::Later
            }
        }
    }

    fn show(&self, current: &Current, outbound: Outbound<'_>) -> HeaderMap {
        let held = &current.record.held;
        let scheme = match held.kind {
            Kind::Bearer => "Bearer",
            Kind::Dpop => "DPoP",
        };
        let mut headers = HeaderMap::new();
        let Ok(value) = HeaderValue::from_str(&format!("{scheme} {}", held.access.reveal())) else {
            return headers;
        };
        headers.insert(header::AUTHORIZATION, value);
        if let (Kind::Dpop, Some(proof)) = (held.kind, &current.proof) {
            let nonce = self.state().nonce.clone();
            let proven = Proven {
                method: outbound.method.as_str(),
                url: outbound.url,
                nonce: nonce.as_deref(),
                token: Some(&held.access),
            };
            let proof = at_present(now(), |moment| proof.prove(proven, moment));
            if let Ok(value) = HeaderValue::from_str(proof.reveal()) {
                headers.insert(DPOP, value);
            }
        }
        headers
    }

    /// Keeps the server's number, and says whether it is another one.
    fn heed_nonce(&self, headers: &HeaderMap) -> bool {
        let nonce = headers.get(DPOP_NONCE).and_then(|value| value.to_str().ok());
        let Some(nonce) = nonce.filter(|nonce| (1..=LONGEST_NONCE).contains(&nonce.len())) else {
            return false;
        };
        let mut state = self.state();
        if state.nonce.as_deref() == Some(nonce) {
            return false;
        }
        state.nonce = Some(nonce.to_owned());
        true
    }

    async fn judge(&self, refusal: Reception<'_>) -> Verdict {
        let demand = demand_of(refusal.headers);
        let has_new_nonce = self.heed_nonce(refusal.headers);
        match refusal.status {
            401 if demand.complaint == Some(Complaint::UseDpopNonce) && has_new_nonce => {
                Verdict::Again
            }
            401 => self.judge_token(demand, refusal.shown).await,
            _ => {
                if demand.complaint == Some(Complaint::InsufficientScope) {
                    let held = self.current().and_then(|it| it.record.scopes.clone());
                    self.state().wanting = Some(Wanting::MoreScopes { demand, held });
                }
                Verdict::Stands
            }
        }
    }

    async fn judge_token(&self, demand: Demand, shown: Option<&HeaderValue>) -> Verdict {
        // Somebody was faster: this process, or another.
        if let Some(current) = self.current()
            && !current.is_in(shown)
        {
            return Verdict::Again;
        }
        if let Some(newer) = self.look().await
            && !newer.is_in(shown)
        {
            return Verdict::Again;
        }
        let current = self.current();
        if let Some(current) = current.as_ref().filter(|current| !current.is_on_trial()) {
            match self.renewed(current, Need::Refused).await {
                Renewal::Got(renewed) if !renewed.is_in(shown) => return Verdict::Again,
                Renewal::Got(_) | Renewal::Ended => {}
                // An outage costs nobody a login.
                Renewal::Later => return Verdict::Stands,
            }
        }
        if self.unattended.is_some() && self.sign_in_again(&demand, current.as_ref()).await {
            return Verdict::Again;
        }
        self.state().wanting = Some(Wanting::Login { demand });
        Verdict::Stands
    }

    /// Signs in without a person.
    async fn sign_in_again(&self, demand: &Demand, refused: Option<&Current>) -> bool {
        let Some(unattended) = &self.unattended else { return false };
        // What was just issued and is refused again would be refused once more.
        if refused.is_some_and(Current::is_on_trial) {
            return false;
        }
        let planning = unattended(demand.clone(), refused.map(|current| current.record.clone()));
        let Some(plan) = planning.await else { return false };
        match self.sign_in_once(plan, &Nobody).await {
            Ok(record) => {
                self.hold(record, Trial::Pending);
                true
            }
            Err(LoginError::Vault(error)) => {
                self.stumble(Trouble::Vault(error));
                false
            }
            Err(LoginError::SignIn(error)) => {
                self.stumble(Trouble::SignIn(error));
                false
            }
        }
    }

    /// Signs in with a person's help, keeps the login and takes it over. One process at a time: who comes second
    /// waits for the first, and takes what that got.
    pub async fn sign_in(&self, plan: Plan, person: &dyn Person) -> Result<Record, LoginError> {
        // What is there already is what the person wants to be rid of. Where the server turned us away we know what was
        // there then, and anything newer is what somebody else got meanwhile.
        if self.wanting().is_none() {
            self.look().await;
        }
        let record = self.sign_in_once(plan, person).await?;
        self.signed_in(record.clone());
        Ok(record)
    }

    /// Waits for our turn to sign in. A person elsewhere may take their time with theirs.
    async fn turn(&self, key: &RecordKey) -> Result<Hold, VaultError> {
        const TIMES: u32 = 16;
        let vault = self.refresher.vault();
        for _ in 1..TIMES {
            match vault.hold(key).await {
                Err(VaultError::Busy(_)) => {}
                Ok(held) => return Ok(held),
                Err(error) => return Err(error),
            }
        }
        vault.hold(key).await
    }

    async fn sign_in_once(&self, plan: Plan, person: &dyn Person) -> Result<Record, LoginError> {
        let vault = self.refresher.vault();
        let key = RecordKey {
            server: self.server.clone(),
            issuer: String::new(),
            client: self.client.clone(),
        };
        let _held = self.turn(&key).await?;
        if let Some(newer) = self.look().await
            && newer.is_enough_for(&plan)
        {
            return Ok(Record::clone(&newer.record));
        }
        let signed_in = sign_in(plan, &**self.refresher.fetch(), person).await?;
        let record = Record::of(signed_in, &self.server, &self.client, now());
        Ok(vault::put(&**vault, record).await?)
    }
}

impl Current {
    fn of(record: Record) -> Current {
        let proof = record.proof.as_ref().and_then(ProofKey::restore);
        Current { record: Arc::new(record), proof, trial: Trial::Open }
    }

    /// Would a refusal mean that the server takes none of these? One that has ended meanwhile proves nothing.
    fn is_on_trial(&self) -> bool {
        self.trial == Trial::Pending && !self.record.held.is_expired(now())
    }

    /// May it do what a login is wanted for?
    fn is_enough_for(&self, plan: &Plan) -> bool {
        match (&plan.demand.scopes, &self.record.scopes) {
            (Some(wanted), Some(granted)) => granted.covers(wanted),
            (Some(_) | None, None) | (None, Some(_)) => plan.held.is_none(),
        }
    }

    /// Is its token the one that was shown?
    fn is_in(&self, shown: Option<&HeaderValue>) -> bool {
        let shown = shown.and_then(|value| value.to_str().ok());
        let token = shown.and_then(|text| text.split_once(' ')).map(|(_, token)| token);
        token.is_some_and(|token| Secret::is(&self.record.held.access, token))
    }
}

fn demand_of(headers: &HeaderMap) -> Demand {
    let challenges = headers.get_all(header::WWW_AUTHENTICATE).iter().take(CHALLENGES);
    let texts = challenges.filter_map(|value| value.to_str().ok());
    Demand::of(texts.filter(|text| text.len() <= LONGEST_CHALLENGE))
}

impl Authorize for Keeper {
    fn headers<'a>(&'a self, outbound: Outbound<'a>) -> Authorizing<'a> {
        Box::pin(async move {
            match self.fresh().await {
                Some(current) => self.show(&current, outbound),
                None => HeaderMap::new(),
            }
        })
    }

    fn refused<'a>(&'a self, refusal: Reception<'a>) -> Judging<'a> {
        Box::pin(self.judge(refusal))
    }

    fn answered(&self, reception: Reception<'_>) {
        self.heed_nonce(reception.headers);
        // An answer to a request that showed something else, or nothing, says nothing about this login.
        let is_success = (200..300).contains(&reception.status);
        let mut state = self.state();
        let Some(current) = &mut state.current else { return };
        if !is_success || !current.is_in(reception.shown) {
            return;
        }
        current.trial = Trial::Open;
        state.trouble = None;
        // Who may do one thing may still want to do more.
        if let Some(Wanting::Login { .. }) = state.wanting {
            state.wanting = None;
        }
    }
}

/// Prints no token.
impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("server", &self.server)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
