//! The trait of everything that lies over the conversation: panels, pagers and dialogs. An overlay draws itself and
//! handles keys; the [`ServerAction`]s it returns are run by `effects`.

use std::sync::Arc;

use crossterm::event::KeyEvent;
use ratatui::Frame;
use ratatui::layout::Rect;
use switchboard::Snapshot;
use switchboard::pool::Pool;

use crate::configured_servers::ConfiguredServers;
use crate::theme::ScreenTheme;

/// A panel, a pager or a dialog.
pub trait Overlay: Send {
    /// Draws itself into an area.
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme);

    /// Handles a key.
    fn on_key(&mut self, key: KeyEvent) -> OverlayOutcome;

    /// Handles pasted text.
    fn on_paste(&mut self, text: &str) -> OverlayOutcome {
        let _not_a_place_to_write = text;
        OverlayOutcome::Stay
    }

    /// Handles a change around it.
    fn on_notice(&mut self, notice: &Notice) -> Redraw {
        let _of_no_concern = notice;
        Redraw::No
    }

    /// The keys that it handles and what they do, for the status line.
    fn key_hints(&self) -> Vec<(&'static str, &'static str)>;
}

/// A question to the user. Dropping it denies the request.
pub trait Dialog: Overlay {
    /// Does the caller still wait for the answer?
    fn is_wanted(&self) -> bool;

    /// Whether it goes before other dialogs.
    fn urgency(&self) -> Urgency {
        Urgency::NeedsAnswer
    }

    /// The number of rows it needs at a width.
    fn preferred_height(&mut self, width: u16, theme: &ScreenTheme) -> u16;
}

/// Whether a dialog asks, or only waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// It blocks the caller until it is answered.
    NeedsAnswer,
    /// The user is busy elsewhere, in a browser for example; questions go first.
    Waiting,
}

/// What a key led to.
#[derive(Debug)]
pub enum OverlayOutcome {
    /// The overlay stays open.
    Stay,
    /// The overlay closes.
    Close,
    /// The overlay stays open and asks for an action.
    Run(ServerAction),
}

/// Whether something has to be drawn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redraw {
    /// It has.
    Yes,
    /// It has not.
    No,
}

/// A change that overlays are told of.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The state of the servers.
    Servers(Arc<Snapshot>),
    /// The tools.
    Pool(Arc<Pool>),
    /// The configuration.
    Configured(Arc<ConfiguredServers>),
    /// The outcome of an action, in one line.
    ActionDone(String),
    /// The tick for animations, four times a second while an overlay is open.
    Tick,
}

/// An action on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAction {
    /// Reconnect it.
    Reconnect(String),
    /// Enable it.
    Enable(String),
    /// Disable it.
    Disable(String),
    /// Sign in to it.
    SignIn(String),
    /// Delete its login.
    SignOut(String),
    /// Approve a server of the project.
    Approve(String),
    /// Approve a server of the project if it is still what the user saw.
    ApproveShown {
        /// Its name.
        name: String,
        /// The fingerprint of what the user saw.
        fingerprint: String,
    },
    /// Reject a server of the project.
    Reject(String),
    /// Show its log.
    ShowLog(String),
}
