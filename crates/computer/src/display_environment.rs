//! Chooses the X display from the environment of a login session, and says why there is none.

use thiserror::Error;

/// The variables of a login session that name its display.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisplayEnvironment {
    /// `DISPLAY`.
    pub display: Option<String>,
    /// `WAYLAND_DISPLAY`.
    pub wayland_display: Option<String>,
    /// `XDG_SESSION_TYPE`.
    pub session_type: Option<String>,
    /// `WINDOWID`: the window of the terminal.
    pub window_id: Option<String>,
}

/// Why there is no X display to work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoDisplay {
    /// The session is a Wayland session.
    #[error(
        "this is a Wayland session: Wayland lets no program see or control the windows of others, and its X server \
         shows only some of them; log in to an X11 (Xorg) session"
    )]
    Wayland,
    /// No display is named.
    #[error("there is no X display: DISPLAY is not set; start swb inside a graphical X11 session")]
    NotSet,
    /// The display belongs to another machine, or is reached as if it did.
    #[error(
        "the X display is reached over the network, as with `ssh -X`, so swb cannot tell which window is the terminal that it \
         runs in, and must not control that one; start swb on the machine with the screen, or name the window of the \
         terminal in WINDOWID (xwininfo shows it)"
    )]
    Remote,
}

impl DisplayEnvironment {
    /// The name of the X display.
    pub fn choose(&self) -> Result<String, NoDisplay> {
        let value = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
        let is_wayland = match (value(&self.session_type), value(&self.wayland_display)) {
            (Some(kind), _) => kind == "wayland",
            (None, wayland_display) => wayland_display.is_some(),
        };
        match value(&self.display) {
            _ if is_wayland => Err(NoDisplay::Wayland),
            Some(display) if is_remote(&display) && value(&self.window_id).is_none() => {
                Err(NoDisplay::Remote)
            }
            Some(display) => Ok(display),
            None => Err(NoDisplay::NotSet),
        }
    }
}

/// Does the name begin with that of a machine? `unix` stands for this one.
fn is_remote(display: &str) -> bool {
    let host = display.rsplit_once(':').map_or("", |(host, _)| host);
    !matches!(host, "" | "unix") && !host.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: [&str; 3], expected: Result<&str, NoDisplay>) {
        let [display, wayland_display, session_type] =
            variables.map(|it| (it != "-").then(|| it.to_owned()));
        let window_id = None;
        let environment = DisplayEnvironment { display, wayland_display, session_type, window_id };
        assert_eq!(environment.choose(), expected.map(str::to_owned));
    }

    #[test]
    fn the_display_of_an_x11_session_is_used() {
        check([":0", "-", "x11"], Ok(":0"));
        check([":7", "-", "-"], Ok(":7"));
        check([":7", "", "tty"], Ok(":7"));
    }

    #[test]
    fn a_wayland_session_is_refused_even_with_an_x_display() {
        check([":0", "wayland-0", "wayland"], Err(NoDisplay::Wayland));
        check([":0", "wayland-0", "-"], Err(NoDisplay::Wayland));
        check(["-", "wayland-0", "-"], Err(NoDisplay::Wayland));
    }

    #[test]
    fn the_session_type_wins_over_a_wayland_socket() {
        check([":7", "wayland-0", "x11"], Ok(":7"));
    }

    #[test]
    fn a_display_over_the_network_needs_the_window_of_the_own_terminal() {
        for name in ["localhost:10.0", "127.0.0.1:0", "desk.example:0.1", "[::1]:0"] {
            check([name, "-", "tty"], Err(NoDisplay::Remote));
            let environment = DisplayEnvironment {
                display: Some(name.to_owned()),
                window_id: Some("62914574".to_owned()),
                ..DisplayEnvironment::default()
            };
            assert_eq!(environment.choose(), Ok(name.to_owned()));
        }
        for name in [":0", ":0.0", "unix:0", "/run/launch/socket:0"] {
            check([name, "-", "x11"], Ok(name));
        }
    }

    #[test]
    fn without_a_display_there_is_nothing_to_work_on() {
        check(["-", "-", "-"], Err(NoDisplay::NotSet));
        check(["", "-", "x11"], Err(NoDisplay::NotSet));
    }
}
