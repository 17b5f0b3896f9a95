//! `swb logout`.
