//! The catalogue of a server: its lists, how they are fetched, and the parts that are stored for later
//! runs. When lists are fetched is left to `connection`.

pub(crate) mod completion_cache;
pub(crate) mod fetch;
pub(crate) mod lists;
pub(crate) mod remembered;

pub use completion_cache::CompletionCache;
pub use fetch::{MAX_ITEMS, fetch};
pub use lists::{Catalogue, FetchedList, ListIssue, ListIssueKind, ListItem, ListKind};
pub use remembered::{MAX_CATALOGUE_BYTES, RememberedServer};
