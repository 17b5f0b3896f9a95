//! What widgets say about keys: whether one was handled, and which widget receives them.

/// Was a key meant for the text?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHandled {
    /// Yes, and it may be another text now.
    Yes,
    /// No.
    No,
}

/// Do the keys go here?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFocus {
    /// Yes.
    Focused,
    /// No.
    Unfocused,
}
