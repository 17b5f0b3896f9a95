//! Hides secrets in URLs, headers and bodies of requests.

use serde_json::{Value as Json, json};

use crate::shown_text::cut;

/// A URL without user, password and the values of secret parameters.
pub(super) fn safe_url(url: &str) -> String {
    let Ok(mut parsed) = url::Url::parse(url) else { return url.to_owned() };
    if parsed.scheme() == "data" || parsed.scheme() == "blob" {
        return cut(url, 60);
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        let _has_host = parsed.set_username("");
        let _has_host = parsed.set_password(None);
    }
    if !parsed.query_pairs().any(|(name, _)| is_secret(&name)) {
        return parsed.to_string();
    }
    let pairs: Vec<(String, String)> = parsed
        .query_pairs()
        .map(|(name, value)| match is_secret(&name) {
            true => (name.into_owned(), "REDACTED".to_owned()),
            false => (name.into_owned(), value.into_owned()),
        })
        .collect();
    parsed.query_pairs_mut().clear().extend_pairs(pairs);
    parsed.to_string()
}

/// Names of headers, parameters and fields whose values are secrets.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    const PARTS: [&str; 12] = [
        "authorization",
        "cookie",
        "password",
        "passwd",
        "secret",
        "token",
        "api-key",
        "apikey",
        "api_key",
        "session",
        "credential",
        "csrf",
    ];
    PARTS.iter().any(|it| name.contains(it))
        || matches!(name.as_str(), "pwd" | "sid" | "key" | "sig" | "signature" | "code" | "auth")
}

/// A body without the values of secret fields.
pub(super) fn redacted(body: &str) -> String {
    if let Ok(mut value) = serde_json::from_str::<Json>(body)
        && (value.is_object() || value.is_array())
    {
        redact_json(&mut value, 0);
        return value.to_string();
    }
    let looks_like_form = body.contains('=') && !body.contains(['\n', ' ', '<', '{']);
    if !looks_like_form {
        return body.to_owned();
    }
    let pairs = body.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=REDACTED"),
        Some(_) | None => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

fn redact_json(value: &mut Json, depth: usize) {
    if depth > 60 {
        *value = json!("…");
        return;
    }
    match value {
        Json::Object(members) => {
            for (name, member) in members {
                match is_secret(name) && !member.is_object() && !member.is_array() {
                    true => *member = json!("REDACTED"),
                    false => redact_json(member, depth + 1),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|it| redact_json(it, depth + 1)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_show_in_urls_and_bodies() {
        assert_eq!(
            safe_url("https://me:pw@a.org/x?q=1&access_token=abc"),
            "https://a.org/x?q=1&access_token=REDACTED"
        );
        assert_eq!(safe_url("https://a.org/x?q=a%20b"), "https://a.org/x?q=a%20b");
        assert_eq!(redacted("user=me&password=hunter2"), "user=me&password=REDACTED");
        assert_eq!(
            redacted(r#"{"user":"me","nested":[{"api_key":"k","Set-Cookie":7}],"n":1}"#),
            r#"{"user":"me","nested":[{"api_key":"REDACTED","Set-Cookie":"REDACTED"}],"n":1}"#
        );
        assert_eq!(redacted("a plain text = nothing"), "a plain text = nothing");
        for name in [
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "Set-Cookie",
            "X-Api-Key",
            "X-CSRF-Token",
        ] {
            assert!(is_secret(name), "{name}");
        }
        assert!(!is_secret("content-type"));
    }
}
