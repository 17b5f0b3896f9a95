//! One client's session: what the user has granted it, and its connection to the display, which is opened at first use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_builtin::kit::{HandlerContext, HandlerError};
use tokio::sync::Notify;

use crate::applications::desktop_entry::Application;
use crate::desktop::Desktop;
use crate::error::{ComputerError, Result};
use crate::grants::Grants;
use crate::settings::{ComputerSettings, Presence};

/// How often idle keys, and buttons that are held down, are looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// One client's session.
pub(crate) struct Session {
    pub(crate) settings: ComputerSettings,
    pub(crate) applications: Vec<Application>,
    /// One action after the other: a screen has one pointer.
    state: Mutex<SessionState>,
    /// What the user had granted after the last call. Readable while a call works.
    granted: Mutex<Grants>,
    /// Wakes the task that frees keys for special characters and releases what the user does not want held.
    left_over: Notify,
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
        Arc::new(Session {
            settings,
            applications,
            state: Mutex::default(),
            granted: Mutex::default(),
            left_over: Notify::new(),
        })
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
        self.granted.lock().unwrap_or_else(PoisonError::into_inner).clone_from(grants);
        if desktop.has_temporary_keys() || desktop.is_holding() {
            self.left_over.notify_one();
        }
        // After a lost connection the next call connects again.
        if !result.as_ref().err().is_some_and(ComputerError::is_disconnect) {
            *slot = Some(desktop);
        }
        result
    }

    /// Frees keys for special characters some time after the last one was typed, and releases what is held down as soon as
    /// the user uses the pointer or the keyboard. Never ends.
    pub(crate) async fn clean_up_between_calls(self: Arc<Session>) {
        loop {
            self.left_over.notified().await;
            let mut has_work = true;
            while has_work {
                tokio::time::sleep(WATCH_INTERVAL).await;
                let session = self.clone();
                let clean_up = move || {
                    let mut state = session.lock();
                    let Some(desktop) = state.desktop.as_mut() else { return false };
                    desktop.release_if_used().is_ok()
                        && desktop.restore_idle_keys().is_ok()
                        && (desktop.has_temporary_keys() || desktop.is_holding())
                };
                has_work = tokio::task::spawn_blocking(clean_up).await.unwrap_or(false);
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
        self.granted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
