//! Hides secrets in URLs, headers and bodies of requests.

use serde_json::{Value as Json, json};

use crate::shown_text::cut;

/// The value that is shown instead of a secret.
const REDACTED: &str = "REDACTED";

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
    if let Some(query) = parsed.query().and_then(redacted_pairs) {
        parsed.set_query(Some(&query));
    }
    if let Some(fragment) = parsed.fragment().and_then(redacted_pairs) {
        parsed.set_fragment(Some(&fragment));
    }
    parsed.to_string()
}

/// The value of a header that is no secret by its name: it may be a URL, or the end of one.
pub(super) fn safe_header(value: &str) -> String {
    match (value.contains("://"), value.split_once('?')) {
        (true, _) => value.split(' ').map(safe_url).collect::<Vec<_>>().join(" "),
        (false, Some((path, query))) if value.starts_with('/') => {
            let query = redacted_pairs(query).unwrap_or_else(|| query.to_owned());
            format!("{path}?{query}")
        }
        (false, _) => value.to_owned(),
    }
}

/// `name=value` pairs without secret values; `None` if there are no such values.
fn redacted_pairs(text: &str) -> Option<String> {
    let mut has_secret = false;
    let pairs: Vec<String> = text
        .split('&')
        .map(|pair| {
            let (name, _) = url::form_urlencoded::parse(pair.as_bytes()).next().unwrap_or_default();
            match pair.split_once('=') {
                Some((written, _)) if is_secret(&name) => {
                    has_secret = true;
                    format!("{written}={REDACTED}")
                }
                Some(_) | None => pair.to_owned(),
            }
        })
        .collect();
    has_secret.then(|| pairs.join("&"))
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
    if body.starts_with("--") && body.contains("form-data") {
        return redacted_parts(body);
    }
    // A form, or one sent as plain text, with a field on each line.
    let is_field = |line: &str| line.is_empty() || line.contains('=');
    if body.contains(['<', '{']) || !body.lines().all(is_field) {
        return body.to_owned();
    }
    let line = |it: &str| redacted_pairs(it).unwrap_or_else(|| it.to_owned());
    body.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The parts of a `multipart/form-data` body, without the contents of secret ones.
fn redacted_parts(body: &str) -> String {
    let boundary = body.lines().next().unwrap_or_default();
    let parts = body.split(boundary).map(|part| {
        let Some((head, _)) = part.split_once("\r\n\r\n").or_else(|| part.split_once("\n\n"))
        else {
            return part.to_owned();
        };
        let name = head.split(';').find_map(|it| it.trim().strip_prefix("name="));
        let name = name.and_then(|it| it.lines().next()).unwrap_or_default();
        match is_secret(name.trim().trim_matches('"')) {
            true => format!("{head}\r\n\r\n{REDACTED}\r\n"),
            false => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join(boundary)
}

fn redact_json(value: &mut Json, depth: usize) {
    if depth > 60 {
        *value = json!("…");
        return;
    }
    match value {
        Json::Object(members) => {
            for (name, member) in members {
                match is_secret(name) {
                    true => redact_all(member, depth + 1),
                    false => redact_json(member, depth + 1),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|it| redact_json(it, depth + 1)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Redacts everything in a value under a secret name.
fn redact_all(value: &mut Json, depth: usize) {
    match value {
        Json::Object(members) if depth <= 60 => {
            members.values_mut().for_each(|it| redact_all(it, depth + 1));
        }
        Json::Array(items) if depth <= 60 => {
            items.iter_mut().for_each(|it| redact_all(it, depth + 1));
        }
        Json::Object(_)
        | Json::Array(_)
        | Json::Null
        | Json::Bool(_)
        | Json::Number(_)
        | Json::String(_) => *value = json!(REDACTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_show_in_urls_of_headers() {
        let check = |value: &str, expected: &str| assert_eq!(safe_header(value), expected);
        check("https://a.org/cb?code=abc&x=1", "https://a.org/cb?code=REDACTED&x=1");
        check("https://a.org/#access_token=abc", "https://a.org/#access_token=REDACTED");
        check("/cb?code=abc", "/cb?code=REDACTED");
        check("text/html; charset=utf-8", "text/html; charset=utf-8");
    }

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
        assert_eq!(
            redacted(r#"{"tokens":["a",{"b":"c"}],"session":{"id":1},"names":["n"]}"#),
            r#"{"tokens":["REDACTED",{"b":"REDACTED"}],"session":{"id":"REDACTED"},"names":["n"]}"#
        );
        assert_eq!(redacted("user=me\r\npassword=two words"), "user=me\npassword=REDACTED");
        assert_eq!(redacted("pass%77ord=x&b=1"), "pass%77ord=REDACTED&b=1");
        let part = |name: &str, value: &str| {
            format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let body = |password: &str| {
            format!(
                "--x1\r\n{}--x1\r\n{}--x1--\r\n",
                part("user", "me"),
                part("password", password)
            )
        };
        assert_eq!(redacted(&body("hunter2")), body("REDACTED"));
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
