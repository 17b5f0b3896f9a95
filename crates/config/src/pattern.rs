//! Patterns with `*` as wildcard: [`Glob`] for names and argument values, [`UrlPattern`] for URLs.
//! The rules that use them are in `policy` and `permission`.

mod glob;
mod percent;
pub mod url_pattern;

pub use glob::Glob;
pub(crate) use percent::percent_decode;
pub use url_pattern::UrlPattern;

/// How a pattern is matched where it leaves something open: an allow rule then matches only the default, a deny
/// rule matches everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    /// For allow lists.
    Strict,
    /// For deny lists.
    Broad,
}
