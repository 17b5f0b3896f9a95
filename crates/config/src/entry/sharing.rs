//! Which clients may use one copy of a server's program.

use std::fmt;

/// The sharing class of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SharingClass {
    /// One copy for the user, whatever the folder.
    User,
    /// One copy for each working folder.
    Workspace,
    /// Each session runs its own copy.
    Session,
}

impl SharingClass {
    /// Every class.
    pub const ALL: [SharingClass; 3] =
        [SharingClass::User, SharingClass::Workspace, SharingClass::Session];

    /// The classes, for messages about an unknown one.
    pub const EXPECTED: &'static str = "`user`, `workspace` or `session`";

    /// Parses the word in a file.
    pub fn parse(word: &str) -> Option<SharingClass> {
        SharingClass::ALL.into_iter().find(|it| it.as_str() == word)
    }

    /// The word in a file.
    pub fn as_str(self) -> &'static str {
        match self {
            SharingClass::User => "user",
            SharingClass::Workspace => "workspace",
            SharingClass::Session => "session",
        }
    }
}

impl fmt::Display for SharingClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
