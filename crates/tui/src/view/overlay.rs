//! What lies over the chat: panels and dialogs take the keys while they are there. They decide and draw; they do nothing
//! themselves. What is to be done is a `Deed`, and `window` does it.

use std::sync::Arc;

use crossterm::event::KeyEvent;
use ratatui::Frame;
use ratatui::layout::Rect;
use switchboard::host::Snapshot;
use switchboard::pool::Pool;

use crate::configured_servers::ConfiguredServers;
use crate::theme::ScreenTheme;

/// A panel or a dialog.
pub trait Overlay: Send {
    /// Draws itself into an area that is its own.
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme);

    /// Takes a key.
    fn on_key(&mut self, key: KeyEvent) -> OverlayOutcome;

    /// Takes text that was pasted.
    fn on_paste(&mut self, text: &str) -> OverlayOutcome {
        let _not_a_place_to_write = text;
        OverlayOutcome::Stay
    }

    /// Hears what changed. Says whether it has to be drawn again.
    fn on_notice(&mut self, notice: &Notice) -> Redraw {
        let _of_no_concern = notice;
        Redraw::No
    }

    /// The keys that do something here, for the line at the bottom: key and what it does.
    fn key_hints(&self) -> Vec<(&'static str, &'static str)>;
}

/// A question on the screen. Dropping it answers no.
pub trait Dialog: Overlay {
    /// Does anybody still want to know?
    fn is_wanted(&self) -> bool;

    /// Must somebody answer before anything else goes on?
    fn urgency(&self) -> Urgency {
        Urgency::NeedsAnswer
    }

    /// How many rows it would like to have.
    fn preferred_height(&mut self, width: u16, theme: &ScreenTheme) -> u16;
}

/// Does a dialog ask, or only wait?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Something stands still until it is answered.
    NeedsAnswer,
    /// Somebody is doing something elsewhere; questions go first.
    Waiting,
}

/// What became of a key.
#[derive(Debug)]
pub enum OverlayOutcome {
    /// It stays, and is drawn again.
    Stay,
    /// It goes.
    Close,
    /// It stays, and this is to be done.
    Run(ServerAction),
}

/// Is something to be drawn again?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redraw {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// What changed.
#[derive(Debug, Clone)]
pub enum Notice {
    /// How servers are doing.
    Servers(Arc<Snapshot>),
    /// Which tools there are.
    Pool(Arc<Pool>),
    /// What is configured.
    Configured(Arc<ConfiguredServers>),
    /// What came of a deed, in one line.
    ActionDone(String),
    /// A quarter of a second went by (only while somebody shows something that moves).
    Tick,
}

/// Something to be done for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAction {
    /// Connect to a server anew.
    Reconnect(String),
    /// Switch a server on.
    Enable(String),
    /// Switch a server off.
    Disable(String),
    /// Sign in to a server.
    SignIn(String),
    /// Forget the login of a server.
    SignOut(String),
    /// Decide on a project's server.
    Approve(String),
    /// Decide on a project's server, as long as it is what was shown.
    ApproveShown {
        /// The server.
        name: String,
        /// The hash of what was shown.
        fingerprint: String,
    },
    /// Decide against a project's server.
    Reject(String),
    /// Show the log of a server.
    ShowLog(String),
}
