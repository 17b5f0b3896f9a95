//! Limits that several tools and formats share.

/// The maximum size of a file's text in one result, in bytes.
pub(super) const MAX_SHOWN_BYTES: usize = 200_000;
