//! Everything that signing in talks to, in one: a protected server, its authorization server, an identity provider, and
//! somebody else whom nobody should tell anything. Each has an origin of its own on loopback.
//!
//! What it is and does is a value, the [`Charter`]; what it saw is there to be looked at. It uses none of our code for
//! signing in: it is what that is tested against.

mod approval_page;
mod barter;
mod charter;
mod device_counter;
mod enrolment;
mod gatehouse;
mod lapse;
mod ledger;
mod mint;
mod papers;
mod premises;
mod proof_check;
mod sighting;
mod signature_key;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::loopback::Keeper;
use crate::processes::wait_until;
use crate::scripted::{Actor, Life, Recorded};
use premises::Premises;

pub use charter::{
    Binding, Challenge, Charter, Consent, DeviceCourse, DeviceEnding, Documents, Habit, Housing,
    Indicator, IssuerPaper, IssuerParameter, KnownClient, Need, Registration, ResourcePaper,
};
pub use lapse::{Endpoint, How, Lapse};
pub use ledger::Tally;
pub use sighting::{Sighting, Site};
pub(crate) use signature_key::unguessable;
pub use signature_key::{SignatureKey, Unverified, hashed, thumbprint};

/// How long a test waits for something that has to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// All of it, on a thread of its own. Dropping it ends it and every connection to it.
#[derive(Debug)]
pub struct Authority {
    premises: Arc<Premises>,
    actor: Arc<Actor>,
    /// Ends with us.
    _keeper: Keeper,
}

impl Authority {
    /// Starts one.
    pub fn start(charter: Charter) -> Authority {
        let actor = Actor::new(charter.script.clone(), Life::Guest);
        let opened = premises::open(charter, Arc::clone(&actor));
        let (premises, keeper) = opened.expect("an authority can be started");
        Authority { premises, actor, _keeper: keeper }
    }

    /// The address of the protected server.
    pub fn url(&self) -> String {
        self.premises.resource()
    }

    /// The authorization server's name for itself.
    pub fn issuer(&self) -> String {
        self.premises.issuer(&self.premises.charter(), Site::Issuer)
    }

    /// The origin of a site.
    pub fn origin(&self, site: Site) -> &str {
        let origins = &self.premises.origins;
        match site {
            Site::Resource => &origins.resource,
            Site::Issuer => &origins.issuer,
            Site::Identity => &origins.identity,
            Site::Elsewhere => &origins.elsewhere,
        }
    }

    /// Publishes a client's document about itself, and returns its address, which is the client's id.
    pub fn publish_client(&self, redirects: &[&str]) -> String {
        let id = format!("{}/client.json", self.premises.origins.elsewhere);
        let paper = json!({
            "client_id": id,
            "client_name": "published",
            "redirect_uris": redirects,
            "token_endpoint_auth_method": "none",
        });
        *self.premises.client_document.lock().expect("nobody panics with it") = Some(paper);
        id
    }

    /// Does something else from now on. What was given out stays good.
    pub fn change(&self, change: impl FnOnce(&mut Charter)) {
        self.premises.ledger().change(change);
    }

    /// How often things happened.
    pub fn tally(&self) -> Tally {
        self.premises.ledger().tally.clone()
    }

    /// Every request so far, in order.
    pub fn sightings(&self) -> Vec<Sighting> {
        self.premises.ledger().sightings.clone()
    }

    /// The sites at which this text was seen, each once.
    pub fn sites_that_saw(&self, text: &str) -> Vec<Site> {
        let seen = self.sightings();
        let mut sites: Vec<Site> =
            seen.iter().filter(|it| it.holds(text)).map(|it| it.site).collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// Waits until the requests are as they should be, and returns them. Panics after ten seconds.
    #[track_caller]
    pub fn wait_for(&self, enough: impl Fn(&[Sighting]) -> bool) -> Vec<Sighting> {
        wait_until(PATIENCE, "the requests came", || {
            let seen = self.sightings();
            enough(&seen).then_some(seen)
        })
    }

    /// The requests that were let in, as the server behind the gate saw them.
    pub fn let_in(&self) -> Vec<Recorded> {
        self.actor.recorded()
    }

    /// Makes every token for the server worthless; refresh tokens stay good.
    pub fn forget_access(&self) {
        self.premises.ledger().forget_access();
    }

    /// Ends every login.
    pub fn end_all(&self) {
        self.premises.ledger().end_all();
    }

    /// An id token for a client of the identity provider, as a login there gives it.
    pub fn id_token(&self, client: &str, lives: Duration) -> String {
        mint::id_token(&self.premises, client, None, lives.as_secs())
    }

    /// A signed token of the authorization server, for a resource that checks it with the keys that are published:
    /// good for ten minutes, of `ada`, with the scope `mcp`. `changes` is an object of claims to put in their place.
    pub fn access_token(&self, resource: &str, changes: &Value) -> String {
        mint::access_token(&self.premises, resource, changes)
    }

    /// What a platform says about a program that runs on it, for the authorization server; with a negative lifetime
    /// it is over already.
    pub fn workload_token(&self, lives_seconds: i64) -> String {
        barter::workload(&self.premises, &self.issuer(), lives_seconds)
    }
}

/// The time in seconds, as tokens write it.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("the clock is past 1970").as_secs()
}
