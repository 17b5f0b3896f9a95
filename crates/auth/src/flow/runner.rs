//! Runs a login: fetches what it wants fetched, shows a person what is to be shown, and gives it the time.
//! What is to be done is decided in `flow`.

use std::pin::Pin;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{sleep, timeout};
use url::Url;

use crate::fetch::Fetch;
use crate::flow::callback::{CallbackError, CallbackSource};
use crate::flow::{CompletedLogin, DeviceAuthorization, Event, Flow, FlowError, LoginPlan, Step};
use crate::time_and_random::{unix_now, with_system_random};

/// How long a person may take with a browser.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// What a person came back with.
#[derive(Debug)]
pub struct CallbackInput {
    /// The query that reached a listener, or what was pasted.
    pub text: String,
    /// Which of the two.
    pub source: CallbackSource,
}

/// The person left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nobody is there to sign in")]
pub struct UserUnavailable;

/// A person's return, which may take a while.
pub type CallbackFuture<'a> =
    Pin<Box<dyn Future<Output = Result<CallbackInput, UserUnavailable>> + Send + 'a>>;

/// The person who signs in, or who stands in for one.
pub trait UserInteraction: Send + Sync {
    /// Is to open this and come back. The URL is opened as it is, by no shell.
    fn open_url<'a>(&'a self, url: &'a Url) -> CallbackFuture<'a>;

    /// Came back with something that is not taken, and is to come back with something better.
    fn reject_callback<'a>(&'a self, error: CallbackError) -> CallbackFuture<'a>;

    /// Is to type a code elsewhere. Nobody waits for that here.
    fn show_device_code(&self, authorization: &DeviceAuthorization) -> Result<(), UserUnavailable>;
}

/// Nobody: for logins that need no person.
#[derive(Debug, Clone, Copy)]
pub struct NonInteractive;

impl UserInteraction for NonInteractive {
    fn open_url<'a>(&'a self, _: &'a Url) -> CallbackFuture<'a> {
        Box::pin(std::future::ready(Err(UserUnavailable)))
    }

    fn reject_callback<'a>(&'a self, _: CallbackError) -> CallbackFuture<'a> {
        Box::pin(std::future::ready(Err(UserUnavailable)))
    }

    fn show_device_code(&self, _: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        Err(UserUnavailable)
    }
}

/// Why nobody is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignInError {
    /// It did not work.
    #[error("signing in did not work")]
    Failed(#[from] FlowError),
    /// The person left.
    #[error("signing in was given up")]
    UserUnavailable(#[from] UserUnavailable),
}

/// Signs in. Dropping it gives the login up.
pub async fn sign_in(
    plan: LoginPlan,
    fetch: &dyn Fetch,
    user: &dyn UserInteraction,
) -> Result<CompletedLogin, SignInError> {
    let (mut flow, mut step) = with_system_random(unix_now(), |inputs| Flow::start(plan, inputs));
    loop {
        let event = match step {
            Step::Fetch(request) => Event::Fetched(fetch.fetch(*request).await),
            Step::OpenUrl(url) => await_callback(user.open_url(&url)).await?,
            Step::CallbackRejected(error) => await_callback(user.reject_callback(error)).await?,
            Step::ShowDeviceCode(authorization) => {
                user.show_device_code(&authorization)?;
                sleep(Duration::from_secs(authorization.interval)).await;
                Event::Waited
            }
            Step::Wait(seconds) => {
                sleep(Duration::from_secs(seconds)).await;
                Event::Waited
            }
            Step::Done(signed_in) => return Ok(*signed_in),
            Step::Failed(error) => return Err(error.into()),
        };
        step = with_system_random(unix_now(), |inputs| flow.on(event, inputs));
    }
}

async fn await_callback(callback: CallbackFuture<'_>) -> Result<Event, SignInError> {
    match timeout(CALLBACK_TIMEOUT, callback).await {
        Ok(input) => {
            let CallbackInput { text, source } = input?;
            Ok(Event::Callback { text, source })
        }
        Err(_) => Err(FlowError::TimedOut.into()),
    }
}
