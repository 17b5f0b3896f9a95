//! What the server needs on this machine, and which package has what is missing.

use std::path::PathBuf;

use crate::display_environment::NoDisplay;
use crate::x11::display::Display;

/// One thing that the server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// What it is.
    pub name: &'static str,
    /// Whether it is there.
    pub state: RequirementState,
}

/// Whether something that the server needs is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementState {
    /// It is there; what was found.
    Met(String),
    /// It is missing, so that nothing works.
    Missing {
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// It is missing, so that a part does not work.
    Limited {
        /// What does not work.
        problem: String,
        /// What to do.
        remedy: String,
    },
}

/// Checks a display and the programs that are needed. `search_path` is the path of programs.
pub fn check(display: &Result<String, NoDisplay>, search_path: &[PathBuf]) -> Vec<Requirement> {
    let mut found = Vec::new();
    let mut add = |name, state| found.push(Requirement { name, state });
    match display {
        Err(reason) => {
            let remedy = match reason {
                NoDisplay::Wayland | NoDisplay::NotSet => {
                    "log in to a graphical X11 session (Debian: packages xserver-xorg and openbox), or start one without a \
                     screen with Xvfb (package xvfb) and set DISPLAY"
                }
                NoDisplay::Remote => {
                    "start swb on the machine with the screen, or set WINDOWID to the window of the terminal of swb \
                     (xwininfo, package x11-utils, shows it)"
                }
            };
            add("X display", missing(reason.to_string(), remedy));
        }
        Ok(name) => match Display::connect(name) {
            Err(error) => {
                let remedy = "check DISPLAY and XAUTHORITY; a server with XTEST, RANDR, XFIXES, X-Resource and XInput 2.2 is in \
                              package xserver-xorg-core, one without a screen in xvfb";
                add("X display", missing(error.to_string(), remedy));
            }
            Ok(display) => {
                let screen = match display.screen_area() {
                    Ok(area) => format!("{name}, {}x{}", area.width, area.height),
                    Err(_) => name.clone(),
                };
                add("X display", RequirementState::Met(screen));
                add("window manager", window_manager(&display));
            }
        },
    }
    let has_setsid = search_path.iter().any(|it| it.join("setsid").is_file());
    add(
        "setsid",
        match has_setsid {
            true => RequirementState::Met("applications can be opened".to_owned()),
            false => RequirementState::Limited {
                problem: "open_application cannot start anything".to_owned(),
                remedy: "install the package util-linux".to_owned(),
            },
        },
    );
    found
}

fn window_manager(display: &Display) -> RequirementState {
    let check = display.values(display.root, display.atoms._NET_SUPPORTING_WM_CHECK, 1);
    match check.is_ok_and(|it| !it.is_empty()) {
        true => RequirementState::Met("windows can be listed and focused".to_owned()),
        false => RequirementState::Limited {
            problem: "no window manager runs: titles and focus are less reliable".to_owned(),
            remedy: "start one, for example openbox (package openbox)".to_owned(),
        },
    }
}

fn missing(problem: String, remedy: &str) -> RequirementState {
    RequirementState::Missing { problem, remedy: remedy.to_owned() }
}
