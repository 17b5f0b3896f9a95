//! Origins of URLs (RFC 6454): comparison, and text for messages.

use url::Url;

/// Whether scheme, host and port of two URLs are equal.
pub(crate) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// The origin as text for messages, truncated because a server may choose any host.
pub(crate) fn origin(url: &Url) -> String {
    const MAX_SHOWN_ORIGIN: usize = 300;
    let origin = url.origin();
    match origin.is_tuple() {
        true => origin.ascii_serialization().chars().take(MAX_SHOWN_ORIGIN).collect(),
        false => format!("{}:", url.scheme()).chars().take(MAX_SHOWN_ORIGIN).collect(),
    }
}
