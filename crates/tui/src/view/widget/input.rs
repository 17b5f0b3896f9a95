//! What widgets say about keys: whether one was handled, and which widget receives them.

/// Whether a widget handled a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHandled {
    /// It did, and may have changed.
    Yes,
    /// It did not.
    No,
}

/// Whether a widget receives the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFocus {
    /// It does.
    Focused,
    /// It does not.
    Unfocused,
}
