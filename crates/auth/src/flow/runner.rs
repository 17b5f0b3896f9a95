//! Runs a [`Flow`]: fetches, interacts with the user, and supplies the time. The flow makes all decisions.

use std::pin::Pin;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};
use url::Url;

use crate::fetch::Fetch;
use crate::flow::callback::{CallbackError, CallbackSource};
use crate::flow::{CompletedLogin, DeviceAuthorization, Event, Flow, FlowError, LoginPlan, Step};
use crate::time_and_random::{unix_now, with_system_random};

/// How long the user may take in the browser.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The callback of a browser login.
#[derive(Debug)]
pub struct CallbackInput {
    /// The query that reached the listener, or the pasted text.
    pub text: String,
    /// How it arrived.
    pub source: CallbackSource,
}

/// The user is not available, or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no user is available to sign in")]
pub struct UserUnavailable;

/// The future of a callback.
pub type CallbackFuture<'a> =
    Pin<Box<dyn Future<Output = Result<CallbackInput, UserUnavailable>> + Send + 'a>>;

/// The user who logs in.
pub trait UserInteraction: Send + Sync {
    /// Shows the URL and waits for the callback. Implementations open the URL unchanged and without a shell.
    fn open_url<'a>(&'a self, url: &'a Url) -> CallbackFuture<'a>;

    /// Reports that a callback was rejected, and waits for the next one.
    fn reject_callback<'a>(&'a self, error: CallbackError) -> CallbackFuture<'a>;

    /// Shows a device code. Does not wait for the user.
    fn show_device_code(&self, authorization: &DeviceAuthorization) -> Result<(), UserUnavailable>;
}

/// No user: for logins that need none.
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

/// Why a login failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignInError {
    /// The flow failed.
    #[error("signing in failed")]
    Failed(#[from] FlowError),
    /// The user is not available, or left.
    #[error("signing in was given up")]
    UserUnavailable(#[from] UserUnavailable),
}

/// Logs in. Dropping the future cancels the login.
pub async fn sign_in(
    plan: LoginPlan,
    fetch: &dyn Fetch,
    user: &dyn UserInteraction,
) -> Result<CompletedLogin, SignInError> {
    let (mut flow, mut step) = with_system_random(unix_now(), |inputs| Flow::start(plan, inputs));
    loop {
        let event = match step {
            Step::Fetch(request) => {
                let (method, host) = (request.method.clone(), request.url.host_str());
                debug!(%method, host, "login: request sent");
                Event::Fetched(fetch.fetch(*request).await)
            }
            Step::OpenUrl(url) => {
                info!(host = url.host_str(), "login: waiting for the browser");
                await_callback(user.open_url(&url)).await?
            }
            Step::CallbackRejected(error) => {
                info!("login: the callback is rejected, waiting for another");
                await_callback(user.reject_callback(error)).await?
            }
            Step::ShowDeviceCode(authorization) => {
                info!("login: waiting for the user on another device");
                user.show_device_code(&authorization)?;
                sleep(Duration::from_secs(authorization.interval)).await;
                Event::Waited
            }
            Step::Wait(seconds) => {
                sleep(Duration::from_secs(seconds)).await;
                Event::Waited
            }
            Step::Done(login) => return Ok(*login),
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
