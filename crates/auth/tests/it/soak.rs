//! Soak.
