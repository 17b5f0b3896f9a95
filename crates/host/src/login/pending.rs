//! Logins that a tool began: which are under way, and what whoever waits for one is told.
//! The engine's task owns the [`Doorman`]; each login is a task of its own and ends with it. How one signs in is left to
//! `signing`, and what a model is told of it to `built_in`.

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

use crate::connection::ConnectionHandle;
use crate::host::ConnectionContext;
use crate::login::server_login;
use crate::login::server_login::LoginRequest;

/// How long logins may take to close their doors when we stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Where a login is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum LoginStage {
    /// It is being found out where to go.
    #[default]
    Preparing,
    /// Somebody has to open a page.
    AwaitingUser {
        /// The page.
        url: String,
        /// Why what was pasted last was not taken.
        rejection: Option<String>,
    },
    /// It is done, and the server is being connected to anew.
    SignedIn,
    /// Nothing came of it.
    Failed(String),
}

/// What was pasted last.
#[derive(Default)]
struct PastedInput {
    /// How many came before it, and it.
    number: u64,
    text: String,
}

/// A login that is under way, or was the last one.
struct PendingLogin {
    stage: watch::Receiver<LoginStage>,
    /// Dropping it ends a login that waits for somebody.
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

/// A login, for whoever asked for it.
#[derive(Debug)]
pub(crate) struct LoginProgress {
    /// Where it is; seen as it was before anything was handed to it.
    pub(crate) stage: watch::Receiver<LoginStage>,
    /// Why the one before it came to nothing, where it did.
    pub(crate) previous_failure: Option<String>,
}

/// Which logins are under way: one a server.
#[derive(Default)]
pub(crate) struct PendingLogins {
    logins: BTreeMap<String, PendingLogin>,
    tasks: JoinSet<()>,
}

impl PendingLogins {
    /// The login at a server, begun where none is under way.
    pub(crate) fn begin(
        &mut self,
        handle: &ConnectionHandle,
        context: &Arc<ConnectionContext>,
    ) -> LoginProgress {
        let server = handle.desired().name().to_owned();
        let last = self.logins.get(&server);
        if let Some(login) = last.filter(|it| it.is_under_way()) {
            return LoginProgress { stage: login.stage.clone(), previous_failure: None };
        }
        let previous_failure = last.and_then(|it| match &*it.stage.borrow() {
            LoginStage::Failed(why) => Some(why.clone()),
            LoginStage::Preparing | LoginStage::AwaitingUser { .. } | LoginStage::SignedIn => None,
        });
        let (stage_sender, stage) = watch::channel(LoginStage::default());
        let (pasted, from_person) = watch::channel(PastedInput::default());
        let prompt = PendingLoginPrompt {
            stage: stage_sender,
            pasted: from_person,
            consumed: AtomicU64::new(0),
        };
        self.tasks.spawn(run_login(handle.clone(), context.clone(), prompt));
        self.logins.insert(server, PendingLogin { stage: stage.clone(), pasted });
        LoginProgress { stage, previous_failure }
    }

    /// Hands what somebody pasted to the login that waits for it. Nothing where none waits.
    pub(crate) fn submit(&mut self, server: &str, text: String) -> Option<LoginProgress> {
        let login = self.logins.get(server).filter(|it| it.is_under_way())?;
        let mut stage = login.stage.clone();
        stage.mark_unchanged();
        login.pasted.send_modify(|last| *last = PastedInput { number: last.number + 1, text });
        Some(LoginProgress { stage, previous_failure: None })
    }

    /// Gives up on a server that is not wanted any more.
    pub(crate) fn cancel(&mut self, server: &str) {
        self.logins.remove(server);
    }

    /// Comes back when a login has ended.
    pub(crate) async fn next_finished(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(|_| ())
    }

    /// Ends every login: those that wait say so in the browser and close their listeners, the others are cut off.
    pub(crate) async fn shut_down(&mut self) {
        self.logins.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _some_are_busy = timeout(SHUTDOWN_TIMEOUT, all).await;
        self.tasks.shutdown().await;
    }
}

async fn run_login(
    handle: ConnectionHandle,
    context: Arc<ConnectionContext>,
    prompt: PendingLoginPrompt,
) {
    let outcome = match handle.login_slot().login(handle.desired(), &context).await {
        Ok(Some(signer)) => {
            let signed_in = signer.sign_in(&prompt, &LoginRequest::default()).await;
            signed_in.map(|_| ()).map_err(|error| server_login::error_chain(&error))
        }
        Ok(None) => Err("it is not a server that one signs in to".to_owned()),
        Err(cause) => Err(cause.to_string()),
    };
    let stage = match outcome {
        Ok(()) => {
            handle.reconnect().await;
            LoginStage::SignedIn
        }
        Err(why) => LoginStage::Failed(why),
    };
    prompt.stage.send_replace(stage);
}

/// Shows the way to whoever asks, and takes what they paste.
struct PendingLoginPrompt {
    stage: watch::Sender<LoginStage>,
    pasted: watch::Receiver<PastedInput>,
    /// How many of those were taken.
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
            // Nobody can paste anything any more: we stop.
            let newest = pasted.wait_for(is_new).await.ok()?;
            self.consumed.store(newest.number, Ordering::Relaxed);
            Some(newest.text.clone())
        })
    }

    fn callback_rejected(&self, why: &str) {
        self.stage.send_modify(|stage| match stage {
            LoginStage::AwaitingUser { rejection: not_taken, .. } => {
                *not_taken = Some(why.to_owned())
            }
            LoginStage::Preparing | LoginStage::SignedIn | LoginStage::Failed(_) => {}
        });
    }

    fn show_device_code(&self, _: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        // Codes are for people who asked for one.
        Err(UserUnavailable)
    }
}
