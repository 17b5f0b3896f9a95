//! What a server offers: its lists, how they are fetched, and the names that are stored for completion.
//! When lists are fetched is left to `connection`.

pub mod completion_cache;
pub mod fetch;
pub mod lists;
