//! Which program is the browser.

use std::path::{Path, PathBuf};

/// Names of programs without a screen.
const HEADLESS_NAMES: [&str; 2] = ["chromium-headless-shell", "chrome-headless-shell"];
/// Names of whole browsers.
const NAMES: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/// Whether the browser has a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Window {
    /// It draws nothing on the screen.
    #[default]
    Headless,
    /// It has a window on the user's screen.
    Windowed,
}

/// The program to start: for pages without a window the smaller one, if there is one.
pub(crate) fn find(
    window: Window,
    needs_profile: bool,
    search_path: &[PathBuf],
) -> Option<PathBuf> {
    let small: &[&str] = match (window, needs_profile) {
        (Window::Headless, false) => &HEADLESS_NAMES,
        (Window::Headless, true) | (Window::Windowed, _) => &[],
    };
    let all: &[&str] = match window {
        Window::Headless => &HEADLESS_NAMES,
        Window::Windowed => &[],
    };
    let found = |names: &[&str]| names.iter().find_map(|name| in_path(name, search_path));
    found(small).or_else(|| found(&NAMES)).or_else(|| found(all))
}

/// The absolute path of a program.
pub(crate) fn in_path(name: &str, search_path: &[PathBuf]) -> Option<PathBuf> {
    let mut candidates = search_path.iter().filter(|it| it.is_absolute()).map(|it| it.join(name));
    candidates.find(|it| is_program(it))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(names: &[&str]) -> tempfile::TempDir {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            let path = folder.path().join(name);
            std::fs::write(&path, "").expect("a file");
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        folder
    }

    #[track_caller]
    fn check(window: Window, needs_profile: bool, names: &[&str], expected: Option<&str>) {
        let folder = folder_with(names);
        let found = find(window, needs_profile, &[folder.path().to_owned()]);
        let name = found.as_ref().and_then(|it| it.file_name()).and_then(|it| it.to_str());
        assert_eq!(name, expected);
    }

    #[test]
    fn without_a_window_the_smaller_program_is_preferred() {
        let both = ["chromium", "chromium-headless-shell"];
        check(Window::Headless, false, &both, Some("chromium-headless-shell"));
        check(Window::Headless, true, &both, Some("chromium"));
        check(Window::Windowed, false, &both, Some("chromium"));
        check(
            Window::Headless,
            true,
            &["chromium-headless-shell"],
            Some("chromium-headless-shell"),
        );
        check(Window::Windowed, false, &["chromium-headless-shell"], None);
        check(Window::Headless, false, &["google-chrome"], Some("google-chrome"));
        check(Window::Headless, false, &[], None);
    }
}
