//! The computer server of this process: its display, its user, and the environment of the applications that it opens.

use std::path::PathBuf;

use switchboard::connection::InProcessServer;
use switchboard::sources::child_env;
use switchboard_computer::display_environment::{DisplayEnvironment, NoDisplay};
use switchboard_computer::{ComputerSettings, Multiplexer, Presence};

use crate::invocation::Invocation;
use crate::invocation::session_flags::UserPresence;

/// Where applications are described if the environment does not say.
const DATA_FOLDERS: &str = "/usr/local/share:/usr/share";

/// The variables that tmux, screen, zellij and abduco set for the programs in them.
const MULTIPLEXERS: [&str; 4] = ["TMUX", "STY", "ZELLIJ", "ABDUCO_SESSION"];

/// The file with the keys of the display. It is no credential of a service, and programs on the desktop need it.
const DISPLAY_KEYS: &str = "XAUTHORITY";

/// The server.
pub fn in_process(invocation: &Invocation) -> InProcessServer {
    let settings = settings(invocation);
    InProcessServer::new(move |transport| switchboard_computer::serve(settings.clone(), transport))
        .per_client()
}

/// The X display, or why there is none.
pub fn display(invocation: &Invocation) -> Result<String, NoDisplay> {
    let variable = |name: &str| invocation.env.variables.get(name).cloned();
    let environment = DisplayEnvironment {
        display: variable("DISPLAY"),
        wayland_display: variable("WAYLAND_DISPLAY"),
        session_type: variable("XDG_SESSION_TYPE"),
        window_id: variable("WINDOWID"),
    };
    environment.choose()
}

fn settings(invocation: &Invocation) -> ComputerSettings {
    let variables = &invocation.env.variables;
    let display_keys = variables.get(DISPLAY_KEYS).map(|it| (DISPLAY_KEYS.to_owned(), it.clone()));
    ComputerSettings {
        display: display(invocation),
        presence: match invocation.session.user {
            UserPresence::Present => Presence::Interactive,
            UserPresence::Absent => Presence::Absent(
                "this command has no user who could grant access and watch; run `swb --computer` in a terminal",
            ),
        },
        data_folders: data_folders(invocation),
        environment: child_env::child_environment(variables, display_keys),
        own_processes: ComputerSettings::own_ancestors(),
        own_window: variables.get("WINDOWID").and_then(|it| it.parse().ok()),
        multiplexer: match MULTIPLEXERS.iter().any(|it| variables.contains_key(*it)) {
            true => Multiplexer::Present,
            false => Multiplexer::Absent,
        },
    }
}

/// The folders of `XDG_DATA_HOME` and `XDG_DATA_DIRS`, or their defaults.
fn data_folders(invocation: &Invocation) -> Vec<PathBuf> {
    let env = &invocation.env;
    let variable = |name: &str| env.variables.get(name).filter(|it| !it.is_empty());
    let own = variable("XDG_DATA_HOME").map(PathBuf::from);
    let own = own.unwrap_or_else(|| env.home.join(".local").join("share"));
    let shared = variable("XDG_DATA_DIRS").map_or(DATA_FOLDERS, String::as_str);
    std::iter::once(own).chain(shared.split(':').map(PathBuf::from)).collect()
}
