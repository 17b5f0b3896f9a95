//! Which settings a run loads, besides those of the administrator and of the command line.

/// Which settings are loaded, with the servers in them. The administrator's always are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SettingSources {
    /// The user's settings and plugins.
    pub user: SourceUse,
    /// The project's own files.
    pub project: SourceUse,
    /// The user's settings for this project.
    pub local: SourceUse,
}

/// Whether a kind of settings is loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SourceUse {
    /// It is loaded.
    #[default]
    Loaded,
    /// It is not read at all.
    Ignored,
}

impl SourceUse {
    /// Is it loaded?
    pub fn is_loaded(self) -> bool {
        self == SourceUse::Loaded
    }
}
