//! Runs a login: fetches what it wants fetched, shows a person what is to be shown, and gives it the time.
//! What is to be done is decided in `flow`.

use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use tokio::time::{sleep, timeout};
use url::Url;

use crate::callback::{Arrived, CallbackError};
use crate::fetch::Fetch;
use crate::flow::{Event, Flow, Instructions, Plan, SignedIn, Step, Why};
use crate::pkce::at_present;

/// How long a person may take with a browser.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// What a person came back with.
#[derive(Debug)]
pub struct Returned {
    /// The query that reached a listener, or what was pasted.
    pub text: String,
    /// Which of the two.
    pub arrived: Arrived,
}

/// The person left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nobody is there to sign in")]
pub struct NobodyThere;

/// A person's return, which may take a while.
pub type Returning<'a> = Pin<Box<dyn Future<Output = Result<Returned, NobodyThere>> + Send + 'a>>;

/// The person who signs in, or who stands in for one.
pub trait Person: Send + Sync {
    /// Is to open this and come back. The URL is opened as it is, by no shell.
    fn open<'a>(&'a self, url: &'a Url) -> Returning<'a>;

    /// Came back with something that is not taken, and is to come back with something better.
    fn not_taken<'a>(&'a self, error: CallbackError) -> Returning<'a>;

    /// Is to type a code elsewhere. Nobody waits for that here.
    fn show(&self, instructions: &Instructions) -> Result<(), NobodyThere>;
}

/// Nobody: for logins that need no person.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Person for Nobody {
    fn open<'a>(&'a self, _: &'a Url) -> Returning<'a> {
        Box::pin(std::future::ready(Err(NobodyThere)))
    }

    fn not_taken<'a>(&'a self, _: CallbackError) -> Returning<'a> {
        Box::pin(std::future::ready(Err(NobodyThere)))
    }

    fn show(&self, _: &Instructions) -> Result<(), NobodyThere> {
        Err(NobodyThere)
    }
}

/// Why nobody is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignInError {
    /// It did not work.
    #[error("signing in did not work")]
    Failed(#[from] Why),
    /// The person left.
    #[error("signing in was given up")]
    Gone(#[from] NobodyThere),
}

/// Signs in. Dropping it gives the login up.
pub async fn sign_in(
    plan: Plan,
    fetch: &dyn Fetch,
    person: &dyn Person,
) -> Result<SignedIn, SignInError> {
    let (mut flow, mut step) = at_present(now(), |moment| Flow::begin(plan, moment));
    loop {
        let event = match step {
            Step::Fetch(request) => Event::Fetched(fetch.fetch(*request).await),
            Step::Open(url) => returned(person.open(&url)).await?,
            Step::NotTaken(error) => returned(person.not_taken(error)).await?,
            Step::Show(instructions) => {
                person.show(&instructions)?;
                sleep(Duration::from_secs(instructions.interval)).await;
                Event::Waited
            }
            Step::Wait(seconds) => {
                sleep(Duration::from_secs(seconds)).await;
                Event::Waited
            }
            Step::Done(signed_in) => return Ok(*signed_in),
            Step::Failed(why) => return Err(why.into()),
        };
        step = at_present(now(), |moment| flow.on(event, moment));
    }
}

async fn returned(returning: Returning<'_>) -> Result<Event, SignInError> {
    match timeout(PATIENCE, returning).await {
        Ok(returned) => {
            let Returned { text, arrived } = returned?;
            Ok(Event::Returned { text, arrived })
        }
        Err(_) => Err(Why::Late.into()),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
