//! What the user has granted to the session, and what an action needs. Pure: who owns a window is found out elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{ComputerError, Result};
use crate::shown_text::quoted;
use crate::x11::own_terminal::OwnTerminal;
use crate::x11::windows::Owner;

/// What the user has granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    /// The key of each application, and the name by which it was granted.
    applications: BTreeMap<String, String>,
    abilities: BTreeSet<Ability>,
}

/// What goes beyond the windows of applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ability {
    ReadClipboard,
    WriteClipboard,
    SystemKeys,
}

impl Ability {
    /// The name of the argument that asks for it, and of its field in the form.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ability::ReadClipboard => "clipboard_read",
            Ability::WriteClipboard => "clipboard_write",
            Ability::SystemKeys => "system_keys",
        }
    }

    /// What the user allows with it.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Ability::ReadClipboard => "Read the clipboard",
            Ability::WriteClipboard => "Write to the clipboard",
            Ability::SystemKeys => "Press keys that act on the whole desktop, such as alt+Tab",
        }
    }
}

impl Grants {
    /// Adds an application under all the keys that its windows may have.
    pub(crate) fn add_application(&mut self, label: &str, keys: &BTreeSet<String>) {
        for key in keys {
            self.applications.insert(key.clone(), label.to_owned());
        }
    }

    pub(crate) fn add_ability(&mut self, ability: Ability) {
        self.abilities.insert(ability);
    }

    pub(crate) fn has_ability(&self, ability: Ability) -> bool {
        self.abilities.contains(&ability)
    }

    /// Whether an application is granted under one of these keys.
    pub(crate) fn has_application(&self, keys: &BTreeSet<String>) -> bool {
        keys.iter().any(|it| self.applications.contains_key(it))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.applications.is_empty() && self.abilities.is_empty()
    }

    /// The names of the granted applications.
    pub(crate) fn application_names(&self) -> BTreeSet<&str> {
        self.applications.values().map(String::as_str).collect()
    }

    /// The abilities.
    pub(crate) fn abilities(&self) -> impl Iterator<Item = Ability> {
        self.abilities.iter().copied()
    }

    /// Whether pixels and titles of a window may be shown.
    pub(crate) fn shows(&self, owner: &Owner, own_terminal: &OwnTerminal) -> bool {
        self.applications.contains_key(&owner.key) && !own_terminal.is_owner(owner)
    }

    /// Fails unless input may go to this program. `target` says which of its windows.
    pub(crate) fn check_target(
        &self,
        owner: &Owner,
        target: &'static str,
        own_terminal: &OwnTerminal,
    ) -> Result<()> {
        if own_terminal.is_owner(owner) {
            return Err(ComputerError::OwnTerminal(target));
        }
        match self.applications.contains_key(&owner.key) {
            true => Ok(()),
            false => {
                let application = quoted(&owner.label, 60);
                Err(ComputerError::NotGranted { target, application })
            }
        }
    }

    /// Fails if nothing has been granted yet.
    pub(crate) fn check_any(&self) -> Result<()> {
        if self.is_empty() { Err(ComputerError::NoAccess) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x11::own_terminal::Multiplexer;

    fn owner(key: &str, pid: u32) -> Owner {
        Owner { window: 7, key: key.to_owned(), label: key.to_owned(), pid: Some(pid) }
    }

    fn grants() -> Grants {
        let mut grants = Grants::default();
        grants.add_application("XTerm", &BTreeSet::from(["xterm".to_owned()]));
        grants
    }

    #[track_caller]
    fn check(owner: &Owner, own_terminal: &OwnTerminal, expected: Option<&str>) {
        let checked = grants().check_target(owner, "focused window", own_terminal);
        let error = checked.err().map(|it| it.to_string());
        assert_eq!(error.as_deref().map(|it| it.split(',').next().unwrap_or(it)), expected);
    }

    #[test]
    fn input_goes_only_to_granted_applications() {
        let elsewhere = OwnTerminal::new(Vec::new(), None, Multiplexer::Absent);
        check(&owner("xterm", 1), &elsewhere, None);
        check(&owner("zenity", 1), &elsewhere, Some("the focused window belongs to \"zenity\""));
    }

    #[test]
    fn the_own_terminal_is_refused_although_its_application_is_granted() {
        let refused = Some(
            "the focused window is the terminal in which swb itself runs; it is never controlled",
        );
        let by_pid = OwnTerminal::new(vec![5], None, Multiplexer::Absent);
        check(&owner("xterm", 5), &by_pid, refused);
        check(&owner("xterm", 6), &by_pid, None);
        let by_window = OwnTerminal::new(Vec::new(), Some(7), Multiplexer::Absent);
        check(&owner("xterm", 6), &by_window, refused);
        assert!(!grants().shows(&owner("xterm", 5), &by_pid));
        assert!(grants().shows(&owner("xterm", 6), &by_pid));
    }

    #[test]
    fn nothing_is_allowed_before_a_grant() {
        assert!(matches!(Grants::default().check_any(), Err(ComputerError::NoAccess)));
        assert!(grants().check_any().is_ok());
        assert!(!grants().has_ability(Ability::SystemKeys));
    }
}
