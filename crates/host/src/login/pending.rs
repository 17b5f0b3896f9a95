//! Logins that were started by the `authenticate` tool, at most one for each server.
//! The engine owns the [`PendingLogins`]; each login is a task of its own and ends with it. The login itself is left to
//! `server_login`, and the tool's result to `builtin_tools`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_auth::browser::browser_flow::{LoginPrompt, PastedTextFuture};
use switchboard_auth::flow::DeviceAuthorization;
use switchboard_auth::flow::runner::UserUnavailable;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;

use crate::failure::error_chain;
use crate::login::context::LoginContext;
use crate::login::options::LoginRequest;
use crate::login::server_login::LoginSlot;
use crate::sources::desired_server::DesiredServer;

/// How long logins may take to close their listeners at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The stage of a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LoginStage {
    /// The authorization server is being discovered.
    #[default]
    Preparing,
    /// The user has to open a page.
    AwaitingUser {
        /// The page.
        url: String,
        /// Why the last pasted text was rejected.
        rejection: Option<String>,
    },
    /// The login succeeded, and the server is being reconnected.
    SignedIn,
    /// The login failed, for this reason.
    Failed(String),
}

/// The text that the user pasted last.
#[derive(Default)]
struct PastedInput {
    /// The number of texts pasted so far.
    number: u64,
    text: String,
}

/// The current or last login at a server.
struct PendingLogin {
    stage: watch::Receiver<LoginStage>,
    /// Dropping it ends a login that waits for the user.
    pasted: watch::Sender<PastedInput>,
}

impl PendingLogin {
    fn is_under_way(&self) -> bool {
        match &*self.stage.borrow() {
            LoginStage::Preparing | LoginStage::AwaitingUser { .. } => {
                self.stage.has_changed().is_ok()
            }
            LoginStage::SignedIn | LoginStage::Failed(_) => false,
        }
    }
}

/// The progress of a login, for the tool that started it.
#[derive(Debug)]
pub(crate) struct LoginProgress {
    /// The stage; marked as seen as of before a pasted text was passed on.
    pub(crate) stage: watch::Receiver<LoginStage>,
    /// Why the login before this one failed, where it did.
    pub(crate) previous_failure: Option<String>,
}

/// The server, login and context of a login to start.
pub(crate) struct LoginTarget {
    pub(crate) desired: DesiredServer,
    pub(crate) login_slot: LoginSlot,
    pub(crate) context: Arc<LoginContext>,
}

/// The current logins, at most one for each server.
#[derive(Default)]
pub(crate) struct PendingLogins {
    logins: BTreeMap<String, PendingLogin>,
    tasks: JoinSet<()>,
}

impl PendingLogins {
    /// Starts a login, or returns the progress of the one under way. `reconnect` runs after a successful login.
    pub(crate) fn begin(
        &mut self,
        target: LoginTarget,
        reconnect: impl Future<Output = ()> + Send + 'static,
    ) -> LoginProgress {
        let server = target.desired.name().to_owned();
        let last = self.logins.get(&server);
        if let Some(login) = last.filter(|it| it.is_under_way()) {
            return LoginProgress { stage: login.stage.clone(), previous_failure: None };
        }
        let previous_failure = last.and_then(|it| match &*it.stage.borrow() {
            LoginStage::Failed(why) => Some(why.clone()),
            LoginStage::Preparing | LoginStage::AwaitingUser { .. } | LoginStage::SignedIn => None,
        });
        let (stage_sender, stage) = watch::channel(LoginStage::default());
        let (pasted, pasted_receiver) = watch::channel(PastedInput::default());
        let prompt = PendingLoginPrompt {
            stage: stage_sender,
            pasted: pasted_receiver,
            consumed: AtomicU64::new(0),
        };
        self.tasks.spawn(run_login(target, reconnect, prompt));
        self.logins.insert(server, PendingLogin { stage: stage.clone(), pasted });
        LoginProgress { stage, previous_failure }
    }

    /// Passes a pasted text to the login that waits for it; `None` where no login waits.
    pub(crate) fn submit(&mut self, server: &str, text: String) -> Option<LoginProgress> {
        let login = self.logins.get(server).filter(|it| it.is_under_way())?;
        let mut stage = login.stage.clone();
        stage.mark_unchanged();
        login.pasted.send_modify(|last| *last = PastedInput { number: last.number + 1, text });
        Some(LoginProgress { stage, previous_failure: None })
    }

    /// Cancels the login at a server that was removed.
    pub(crate) fn cancel(&mut self, server: &str) {
        self.logins.remove(server);
    }

    /// Waits until a login has ended.
    pub(crate) async fn next_finished(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(|_| ())
    }

    /// Ends every login: waiting logins show an error in the browser and close their listeners, the others are aborted.
    pub(crate) async fn shut_down(&mut self) {
        self.logins.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _aborted_below = timeout(SHUTDOWN_TIMEOUT, all).await;
        self.tasks.shutdown().await;
    }
}

async fn run_login(
    target: LoginTarget,
    reconnect: impl Future<Output = ()>,
    prompt: PendingLoginPrompt,
) {
    let outcome = match target.login_slot.login(&target.desired, &target.context).await {
        Ok(Some(login)) => {
            let signed_in = login.sign_in(&prompt, &LoginRequest::default()).await;
            signed_in.map(|_| ()).map_err(|error| error_chain(&error))
        }
        Ok(None) => Err("it is not a server that one signs in to".to_owned()),
        Err(cause) => Err(cause.to_string()),
    };
    let stage = match outcome {
        Ok(()) => {
            reconnect.await;
            LoginStage::SignedIn
        }
        Err(why) => LoginStage::Failed(why),
    };
    prompt.stage.send_replace(stage);
}

/// Publishes the page to open, and reads the texts that the user pastes.
struct PendingLoginPrompt {
    stage: watch::Sender<LoginStage>,
    pasted: watch::Receiver<PastedInput>,
    /// The number of pasted texts that were read.
    consumed: AtomicU64,
}

impl LoginPrompt for PendingLoginPrompt {
    fn open_url<'a>(&'a self, page: &'a Url) -> PastedTextFuture<'a> {
        self.stage.send_if_modified(|stage| {
            let is_shown =
                matches!(&*stage, LoginStage::AwaitingUser { url, .. } if url == page.as_str());
            if !is_shown {
                *stage = LoginStage::AwaitingUser { url: page.to_string(), rejection: None };
            }
            !is_shown
        });
        let mut pasted = self.pasted.clone();
        Box::pin(async move {
            let is_new = |it: &PastedInput| it.number > self.consumed.load(Ordering::Relaxed);
            // The sender is dropped at shutdown and when the server is removed.
            let newest = pasted.wait_for(is_new).await.ok()?;
            self.consumed.store(newest.number, Ordering::Relaxed);
            Some(newest.text.clone())
        })
    }

    fn callback_rejected(&self, why: &str) {
        self.stage.send_modify(|stage| match stage {
            LoginStage::AwaitingUser { rejection, .. } => *rejection = Some(why.to_owned()),
            LoginStage::Preparing | LoginStage::SignedIn | LoginStage::Failed(_) => {}
        });
    }

    fn show_device_code(&self, _: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        // The tool starts browser logins only.
        Err(UserUnavailable)
    }
}
