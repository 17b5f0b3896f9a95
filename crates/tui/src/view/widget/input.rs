//! What widgets say about keys: whether one was handled, and which widget receives them.

/// What a widget did with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOutcome {
    /// It handled the key, and may have changed.
    Handled,
    /// It did not handle the key.
    NotHandled,
}

/// Whether a widget receives the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFocus {
    /// It does.
    Focused,
    /// It does not.
    Unfocused,
}
