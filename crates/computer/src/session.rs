//! One client's session: what the user has granted it, and its connection to the display, which is opened at first use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_builtin::kit::{HandlerContext, HandlerError};
use tokio::sync::Notify;

use crate::applications::desktop_entry::Application;
use crate::desktop::Desktop;
use crate::error::{ComputerError, Result};
use crate::grants::Grants;
use crate::server::{ComputerSettings, Presence};

/// How often idle keys are looked at.
const KEYS_INTERVAL: Duration = Duration::from_secs(1);

/// One client's session.
pub(crate) struct Session {
    pub(crate) settings: ComputerSettings,
    pub(crate) applications: Vec<Application>,
    /// One action after the other: a screen has one pointer.
    state: Mutex<SessionState>,
    /// Wakes the task that frees keys for special characters.
    typed: Notify,
}

#[derive(Default)]
struct SessionState {
    grants: Grants,
    desktop: Option<Desktop>,
}

/// What work on the desktop needs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// The user has granted something.
    Access,
    /// A display.
    Display,
}

/// What work on the desktop has.
pub(crate) struct Work<'a> {
    pub(crate) desktop: &'a mut Desktop,
    pub(crate) grants: &'a mut Grants,
    pub(crate) session: &'a Session,
    pub(crate) context: &'a HandlerContext,
}

impl Session {
    pub(crate) fn new(settings: ComputerSettings, applications: Vec<Application>) -> Arc<Session> {
        Arc::new(Session { settings, applications, state: Mutex::default(), typed: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work on the desktop on a blocking thread.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Session>,
        context: HandlerContext,
        precondition: Precondition,
        work: impl FnOnce(&mut Work<'_>) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, HandlerError> {
        let session = self.clone();
        let run = move || session.run_now(&context, precondition, work);
        match tokio::task::spawn_blocking(run).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(HandlerError::failed("the operation failed unexpectedly")),
        }
    }

    fn run_now<T>(
        &self,
        context: &HandlerContext,
        precondition: Precondition,
        work: impl FnOnce(&mut Work<'_>) -> Result<T>,
    ) -> Result<T> {
        if let Presence::Absent(reason) = self.settings.presence {
            return Err(ComputerError::NotInteractive(reason));
        }
        let mut state = self.lock();
        let SessionState { grants, desktop: slot } = &mut *state;
        if precondition == Precondition::Access {
            grants.check_any()?;
        }
        let mut desktop = match slot.take() {
            Some(desktop) => desktop,
            None => {
                let display = self.settings.display.clone()?;
                Desktop::open(&display, self.settings.own_terminal())?
            }
        };
        let result = work(&mut Work { desktop: &mut desktop, grants, session: self, context });
        if desktop.has_temporary_keys() {
            self.typed.notify_one();
        }
        // After a lost connection the next call connects again.
        if !result.as_ref().err().is_some_and(ComputerError::is_disconnect) {
            *slot = Some(desktop);
        }
        result
    }

    /// Frees keys for special characters some time after the last one was typed. Never ends.
    pub(crate) async fn free_idle_keys(self: Arc<Session>) {
        loop {
            self.typed.notified().await;
            let mut has_keys = true;
            while has_keys {
                tokio::time::sleep(KEYS_INTERVAL).await;
                let session = self.clone();
                let restore = move || {
                    let mut state = session.lock();
                    let desktop = state.desktop.as_mut();
                    desktop
                        .is_some_and(|it| it.restore_idle_keys().is_ok() && it.has_temporary_keys())
                };
                has_keys = tokio::task::spawn_blocking(restore).await.unwrap_or(false);
            }
        }
    }

    /// Releases what is down, restores the keyboard and gives the clipboard up.
    pub(crate) async fn shut_down(self: Arc<Session>) {
        let close = move || drop(self.lock().desktop.take());
        let _panicked = tokio::task::spawn_blocking(close).await;
    }

    /// What the user has granted.
    pub(crate) fn grants(&self) -> Grants {
        self.lock().grants.clone()
    }
}
