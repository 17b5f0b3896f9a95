//! `swb auth`.
