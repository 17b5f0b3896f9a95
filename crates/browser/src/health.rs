//! What the server needs on this machine, and which package has what is missing.

use std::path::PathBuf;

use crate::browser::launch::{runs_without_sandbox, search_path};
use crate::browser::program::{Window, find};
use crate::settings::{BrowserSettings, BrowserSource};

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

/// Where systems keep fonts.
const FONT_FOLDERS: [&str; 3] =
    ["/usr/share/fonts", "/usr/local/share/fonts", "/System/Library/Fonts"];
/// Where the colour emoji font of Debian is.
const EMOJI_FONTS: [&str; 2] = [
    "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf",
    "/usr/share/fonts/noto/NotoColorEmoji.ttf",
];

/// Checks what a browser with these settings needs. Starts nothing.
pub fn check(settings: &BrowserSettings) -> Vec<Requirement> {
    let mut found = Vec::new();
    let mut add = |name, state| found.push(Requirement { name, state });
    match &settings.source {
        BrowserSource::Endpoint(_) => {
            add("browser", RequirementState::Met("the one of --cdp-endpoint".to_owned()));
        }
        BrowserSource::Own { window, profile, program } => {
            let path = search_path(&settings.environment);
            add("browser", program_state((*window, profile.is_some()), program.as_ref(), &path));
            if *window == Window::Windowed {
                add("screen", screen_state(settings));
            }
            add("sandbox", sandbox_state());
        }
    }
    add("fonts", fonts_state());
    found
}

fn program_state(
    (window, has_profile): (Window, bool),
    program: Option<&PathBuf>,
    path: &[PathBuf],
) -> RequirementState {
    let package = match window {
        Window::Headless => {
            "install the package chromium-headless-shell (small, no window) or chromium"
        }
        Window::Windowed => "install the package chromium",
    };
    match program {
        Some(program) if program.is_file() => RequirementState::Met(program.display().to_string()),
        Some(program) => RequirementState::Missing {
            problem: format!("{} does not exist", program.display()),
            remedy: format!("correct the setting, or {package}"),
        },
        None => match find(window, has_profile, path) {
            Some(found) => RequirementState::Met(found.display().to_string()),
            None => RequirementState::Missing {
                problem: "no Chromium was found in PATH".to_owned(),
                remedy: package.to_owned(),
            },
        },
    }
}

fn screen_state(settings: &BrowserSettings) -> RequirementState {
    let variable = |name: &str| {
        settings.environment.iter().find(|(it, value)| it == name && !value.is_empty())
    };
    match variable("WAYLAND_DISPLAY").or_else(|| variable("DISPLAY")) {
        Some((name, value)) => RequirementState::Met(format!("{name}={value}")),
        None => RequirementState::Missing {
            problem: "a window needs a screen: neither DISPLAY nor WAYLAND_DISPLAY is set"
                .to_owned(),
            remedy: "leave out --browser-window, or start a screen (package xvfb) and set DISPLAY"
                .to_owned(),
        },
    }
}

fn sandbox_state() -> RequirementState {
    match runs_without_sandbox() {
        false => RequirementState::Met("pages are isolated from this account".to_owned()),
        true => RequirementState::Limited {
            problem: "swb runs as root, where Chromium starts only without its sandbox".to_owned(),
            remedy: "run swb as an ordinary user".to_owned(),
        },
    }
}

fn fonts_state() -> RequirementState {
    let has_fonts = FONT_FOLDERS
        .iter()
        .any(|it| std::fs::read_dir(it).is_ok_and(|mut entries| entries.next().is_some()));
    let has_emoji =
        EMOJI_FONTS.iter().any(|it| PathBuf::from(it).is_file()) || cfg!(not(target_os = "linux"));
    match (has_fonts, has_emoji) {
        (true, true) => RequirementState::Met("text and emoji can be drawn".to_owned()),
        (true, false) => RequirementState::Limited {
            problem: "emoji are boxes in pictures".to_owned(),
            remedy: "install the package fonts-noto-color-emoji".to_owned(),
        },
        (false, _) => RequirementState::Limited {
            problem: "text is boxes in pictures".to_owned(),
            remedy: "install the packages fonts-liberation and fonts-noto-color-emoji".to_owned(),
        },
    }
}
