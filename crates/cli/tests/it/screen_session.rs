//! A whole session.
