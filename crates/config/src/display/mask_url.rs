//! Masks the user, password, query values, fragment and token-like path segments of a URL.

use super::secret_names::looks_like_token;
use super::{MASK, printable};

/// Returns a URL with its user, password, query values and fragment masked. The host that is shown is always
/// the host that the URL leads to.
pub fn masked_url(text: &str) -> String {
    printable(&mask_url_parts(text))
}

/// Splits the URL into its parts and masks them. Where a password cannot be told from a host, only the scheme
/// is shown: a mask must never make one host look like another.
pub(super) fn mask_url_parts(text: &str) -> String {
    let Some(at) = text.find("://") else {
        return if text.contains('@') { MASK.to_owned() } else { mask_after_authority("", text) };
    };
    let (scheme, rest) = text.split_at(at + 3);
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let is_web = ["http://", "https://", "ws://", "wss://"].iter().any(|web| scheme.ends_with(web));
    if behind.contains('@') && !is_web {
        return format!("{scheme}{MASK}");
    }
    let shown = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}{MASK}@{host}"),
        None => format!("{scheme}{authority}"),
    };
    mask_after_authority(&shown, behind)
}

/// Appends the masked path, query and fragment to `front`.
fn mask_after_authority(front: &str, rest: &str) -> String {
    let (rest, fragment) = split_off(rest, '#');
    let (path, query) = split_off(rest, '?');
    let mut shown = format!("{front}{}", mask_path(path));
    if let Some(query) = query {
        shown.push('?');
        shown.push_str(&mask_query(query));
    }
    if fragment.is_some() {
        shown.push_str(&format!("#{MASK}"));
    }
    shown
}

fn split_off(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(front, back)| (front, Some(back)))
}

/// Masks path segments that look like tokens: some services put a token there.
fn mask_path(path: &str) -> String {
    let segment = |segment: &str| {
        let (front, parameters) = split_off(segment, ';');
        let shown = if looks_like_token(front) { MASK } else { front };
        match parameters {
            Some(_) => format!("{shown};{MASK}"),
            None => shown.to_owned(),
        }
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn mask_query(query: &str) -> String {
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, value)) if is_reference(value) => format!("{key}={value}"),
        Some((key, _)) => format!("{key}={MASK}"),
        None => MASK.to_owned(),
    };
    query.split('&').map(pair).collect::<Vec<_>>().join("&")
}

/// Is it a single `${…}`? The name of a variable is not secret.
pub(super) fn is_reference(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}') && !text[2..text.len() - 1].contains("${")
}
