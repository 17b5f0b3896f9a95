//! The settings of the server.

use std::fmt;
use std::path::PathBuf;

use crate::display_environment::NoDisplay;
use crate::x11::own_terminal::{Multiplexer, OwnTerminal, ancestors_of};

/// Whether a user is there who can grant access and watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// A user converses in this session.
    Interactive,
    /// No user is there, for this reason: every tool fails with it.
    Absent(&'static str),
}

/// The settings of the server. The environment does not print, because it may contain secrets.
#[derive(Clone)]
pub struct ComputerSettings {
    /// The X display, or why there is none.
    pub display: Result<String, NoDisplay>,
    /// Whether a user is there.
    pub presence: Presence,
    /// The folders whose `applications` folders describe installed applications, the most important first.
    pub data_folders: Vec<PathBuf>,
    /// All environment variables of applications that are opened.
    pub environment: Vec<(String, String)>,
    /// The processes that this one runs in: windows of these are its own terminal and are never controlled.
    pub own_processes: Vec<u32>,
    /// The window of the terminal, where it is known.
    pub own_window: Option<u32>,
    /// Whether the terminal shows a session of a multiplexer.
    pub multiplexer: Multiplexer,
}

impl fmt::Debug for ComputerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComputerSettings")
            .field("display", &self.display)
            .field("presence", &self.presence)
            .finish_non_exhaustive()
    }
}

impl ComputerSettings {
    /// This process and those that it was started by.
    pub fn own_ancestors() -> Vec<u32> {
        ancestors_of(std::process::id())
    }

    pub(crate) fn own_terminal(&self) -> OwnTerminal {
        OwnTerminal::new(self.own_processes.clone(), self.own_window, self.multiplexer)
    }
}
