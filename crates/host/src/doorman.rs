//! Logins that a tool began: which are under way, and what whoever waits for one is told.
//! The engine's task owns the [`Doorman`]; each login is a task of its own and ends with it. How one signs in is left to
//! `signing`, and what a model is told of it to `built_in`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_auth::escort::{Guide, Pasting};
use switchboard_auth::flow::Instructions;
use switchboard_auth::runner::NobodyThere;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;

use crate::connection::Handle;
use crate::engine::Settings;
use crate::signing::{self, LoginWish};

/// How long logins may take to close their doors when we stop.
const CLOSING: Duration = Duration::from_secs(1);

/// Where a login is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is being found out where to go.
    #[default]
    Preparing,
    /// Somebody has to open a page.
    Waiting {
        /// The page.
        url: String,
        /// Why what was pasted last was not taken.
        not_taken: Option<String>,
    },
    /// It is done, and the server is being connected to anew.
    SignedIn,
    /// Nothing came of it.
    Failed(String),
}

/// What was pasted last.
#[derive(Default)]
struct Pasted {
    /// How many came before it, and it.
    number: u64,
    text: String,
}

/// A login that is under way, or was the last one.
struct Login {
    stage: watch::Receiver<Stage>,
    /// Dropping it ends a login that waits for somebody.
    pasted: watch::Sender<Pasted>,
}

impl Login {
    fn is_under_way(&self) -> bool {
        match &*self.stage.borrow() {
            Stage::Preparing | Stage::Waiting { .. } => self.stage.has_changed().is_ok(),
            Stage::SignedIn | Stage::Failed(_) => false,
        }
    }
}

/// A login, for whoever asked for it.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Where it is; seen as it was before anything was handed to it.
    pub(crate) stage: watch::Receiver<Stage>,
    /// Why the one before it came to nothing, where it did.
    pub(crate) before: Option<String>,
}

/// Which logins are under way: one a server.
#[derive(Default)]
pub(crate) struct Doorman {
    logins: BTreeMap<String, Login>,
    tasks: JoinSet<()>,
}

impl Doorman {
    /// The login at a server, begun where none is under way.
    pub(crate) fn begin(&mut self, handle: &Handle, settings: &Arc<Settings>) -> Admission {
        let server = handle.wanted().name().to_owned();
        let last = self.logins.get(&server);
        if let Some(login) = last.filter(|it| it.is_under_way()) {
            return Admission { stage: login.stage.clone(), before: None };
        }
        let before = last.and_then(|it| match &*it.stage.borrow() {
            Stage::Failed(why) => Some(why.clone()),
            Stage::Preparing | Stage::Waiting { .. } | Stage::SignedIn => None,
        });
        let (told, stage) = watch::channel(Stage::default());
        let (pasted, from_person) = watch::channel(Pasted::default());
        let signpost = Signpost { told, pasted: from_person, taken: AtomicU64::new(0) };
        self.tasks.spawn(sign_in(handle.clone(), settings.clone(), signpost));
        self.logins.insert(server, Login { stage: stage.clone(), pasted });
        Admission { stage, before }
    }

    /// Hands what somebody pasted to the login that waits for it. Nothing where none waits.
    pub(crate) fn hand_over(&mut self, server: &str, text: String) -> Option<Admission> {
        let login = self.logins.get(server).filter(|it| it.is_under_way())?;
        let mut stage = login.stage.clone();
        stage.mark_unchanged();
        login.pasted.send_modify(|last| *last = Pasted { number: last.number + 1, text });
        Some(Admission { stage, before: None })
    }

    /// Gives up on a server that is not wanted any more.
    pub(crate) fn forget(&mut self, server: &str) {
        self.logins.remove(server);
    }

    /// Comes back when a login has ended.
    pub(crate) async fn ended(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(|_| ())
    }

    /// Ends every login: those that wait say so in the browser and close their listeners, the others are cut off.
    pub(crate) async fn close(&mut self) {
        self.logins.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _some_are_busy = timeout(CLOSING, all).await;
        self.tasks.shutdown().await;
    }
}

async fn sign_in(handle: Handle, settings: Arc<Settings>, signpost: Signpost) {
    let outcome = match handle.signatory().signer(handle.wanted(), &settings).await {
        Ok(Some(signer)) => {
            let signed_in = signer.sign_in(&signpost, &LoginWish::default()).await;
            signed_in.map(|_| ()).map_err(|error| signing::with_causes(&error))
        }
        Ok(None) => Err("it is not a server that one signs in to".to_owned()),
        Err(cause) => Err(cause.to_string()),
    };
    let stage = match outcome {
        Ok(()) => {
            handle.reconnect().await;
            Stage::SignedIn
        }
        Err(why) => Stage::Failed(why),
    };
    signpost.told.send_replace(stage);
}

/// Shows the way to whoever asks, and takes what they paste.
struct Signpost {
    told: watch::Sender<Stage>,
    pasted: watch::Receiver<Pasted>,
    /// How many of those were taken.
    taken: AtomicU64,
}

impl Guide for Signpost {
    fn visit<'a>(&'a self, page: &'a Url) -> Pasting<'a> {
        self.told.send_if_modified(|stage| {
            let is_there = matches!(&*stage, Stage::Waiting { url, .. } if url == page.as_str());
            if !is_there {
                *stage = Stage::Waiting { url: page.to_string(), not_taken: None };
            }
            !is_there
        });
        let mut pasted = self.pasted.clone();
        Box::pin(async move {
            let is_new = |it: &Pasted| it.number > self.taken.load(Ordering::Relaxed);
            // Nobody can paste anything any more: we stop.
            let newest = pasted.wait_for(is_new).await.ok()?;
            self.taken.store(newest.number, Ordering::Relaxed);
            Some(newest.text.clone())
        })
    }

    fn not_taken(&self, why: &str) {
        self.told.send_modify(|stage| match stage {
            Stage::Waiting { not_taken, .. } => *not_taken = Some(why.to_owned()),
            Stage::Preparing | Stage::SignedIn | Stage::Failed(_) => {}
        });
    }

    fn show(&self, _: &Instructions) -> Result<(), NobodyThere> {
        // Codes are for people who asked for one.
        Err(NobodyThere)
    }
}
