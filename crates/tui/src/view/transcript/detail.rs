//! How much of an entry is shown.

/// How much of an entry is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Its first lines.
    Folded,
    /// All of it.
    Expanded,
}

impl Detail {
    pub(crate) fn toggled(self) -> Detail {
        match self {
            Detail::Folded => Detail::Expanded,
            Detail::Expanded => Detail::Folded,
        }
    }
}
