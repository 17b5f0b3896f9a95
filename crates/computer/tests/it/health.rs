//! What `swb doctor computer` finds out.

use std::path::PathBuf;

use switchboard_computer::display_environment::NoDisplay;
use switchboard_computer::health::{RequirementState, check};

use crate::screen::Screen;

/// The state of each requirement in a word.
fn states(display: &Result<String, NoDisplay>, search_path: &[PathBuf]) -> Vec<(String, String)> {
    let word = |state: RequirementState| match state {
        RequirementState::Met(found) => format!("met: {found}"),
        RequirementState::Missing { problem, remedy } => format!("missing: {problem}; {remedy}"),
        RequirementState::Limited { problem, remedy } => format!("limited: {problem}; {remedy}"),
    };
    let found = check(display, search_path).into_iter();
    found.map(|it| (it.name.to_owned(), word(it.state))).collect()
}

#[test]
fn a_complete_desktop_has_everything() {
    let screen = Screen::new();
    let found = states(&Ok(screen.display.clone()), &[PathBuf::from("/usr/bin")]);
    let expected = [
        ("X display", format!("met: {}, 1280x800", screen.display)),
        ("window manager", "met: windows can be listed and focused".to_owned()),
        ("setsid", "met: applications can be opened".to_owned()),
    ];
    let expected = expected.map(|(name, state)| (name.to_owned(), state));
    assert_eq!(found, expected);
}

#[test]
fn what_is_missing_is_named_with_its_package() {
    let screen = Screen::without_window_manager("640x480");
    let found = states(&Ok(screen.display.clone()), &[]);
    assert!(found[1].1.starts_with("limited: no window manager runs"), "{found:?}");
    assert!(found[1].1.ends_with("(package openbox)"), "{found:?}");
    assert!(found[2].1.ends_with("install the package util-linux"), "{found:?}");
    let found = states(&Ok(":987".to_owned()), &[]);
    assert!(found[0].1.starts_with("missing: cannot connect to the X display :987"), "{found:?}");
    assert!(found[0].1.contains("package xserver-xorg-core"), "{found:?}");
    let found = states(&Err(NoDisplay::Wayland), &[]);
    assert!(found[0].1.starts_with("missing: this is a Wayland session"), "{found:?}");
}
