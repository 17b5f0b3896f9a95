//! Origins of URLs (RFC 6454): comparison, and text for messages.

use url::Url;

/// Do two URLs have the scheme, the host and the port in common?
pub(crate) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// A URL's origin as text that can be shown. A host may be as long as its server likes.
pub(crate) fn origin(url: &Url) -> String {
    const MAX_SHOWN_ORIGIN: usize = 300;
    let origin = url.origin();
    match origin.is_tuple() {
        true => origin.ascii_serialization().chars().take(MAX_SHOWN_ORIGIN).collect(),
        false => format!("{}:", url.scheme()).chars().take(MAX_SHOWN_ORIGIN).collect(),
    }
}
