//! Replaces secrets in a new entry with references to the environment variables that hold them.

use serde_json::{Map, Value as Json};
use switchboard::config::display;
use switchboard::config::display::is_secret_name;
use switchboard::config::template::Template;

use crate::invocation::Invocation;

/// Replaces every value that a shell expanded from a secret variable with a reference to it. Returns the variables'
/// names.
pub fn replace_secrets(invocation: &Invocation, entry: &mut Map<String, Json>) -> Vec<String> {
    let mut secrets: Vec<SecretVariable<'_>> = invocation
        .env
        .variables
        .iter()
        .filter_map(|(name, value)| secret_variable(name, value))
        .collect();
    // The longest first: one value may be a prefix of another.
    secrets.sort_by_key(|secret| (std::cmp::Reverse(secret.value.len()), secret.name));
    let mut found = Vec::new();
    for (key, value) in entry.iter_mut() {
        if !matches!(key.as_str(), "type" | "command" | "description" | "tools" | "timeout") {
            replace_secrets_in(key, value, &secrets, &mut found);
        }
    }
    found.sort();
    found.dedup();
    found
}

/// A variable whose value is a secret.
#[derive(Debug)]
struct SecretVariable<'v> {
    name: &'v str,
    value: &'v str,
    /// Can only be a secret, so it is replaced anywhere in a text.
    is_distinct: bool,
}

/// The variable, if its name or its value shows that it holds a secret.
fn secret_variable<'v>(name: &'v str, value: &'v str) -> Option<SecretVariable<'v>> {
    const MIN_SECRET_LENGTH: usize = 4;
    let can_be_named = Template::parse(&format!("${{{name}}}")).as_literal().is_none();
    let is_plain = matches!(value, "true" | "false" | "none" | "null" | "http" | "https" | "stdio");
    let has_password = value.contains("://") && display::masked_url(value).contains(display::MASK);
    let looks_secret = display::looks_like_token(value) || has_password;
    if !can_be_named
        || is_plain
        || !(looks_secret || (is_secret_name(name) && value.len() >= MIN_SECRET_LENGTH))
    {
        return None;
    }
    let is_mixed = value.len() >= 8
        && value.chars().any(char::is_alphabetic)
        && value.chars().any(|c| !c.is_alphabetic());
    Some(SecretVariable { name, value, is_distinct: looks_secret || is_mixed })
}

fn replace_secrets_in(
    key: &str,
    value: &mut Json,
    secrets: &[SecretVariable<'_>],
    found: &mut Vec<String>,
) {
    match value {
        Json::String(text) => {
            for secret in secrets {
                let replaced = match secret.is_distinct {
                    true => replace_with_reference(text, secret.value, secret.name),
                    // An ordinary word is replaced only where a secret is expected.
                    false if is_secret_name(key) && text == secret.value => {
                        Some(format!("${{{}}}", secret.name))
                    }
                    false => None,
                };
                if let Some(replaced) = replaced {
                    *text = replaced;
                    found.push(secret.name.to_owned());
                }
            }
        }
        Json::Array(elements) => {
            for element in elements {
                replace_secrets_in(key, element, secrets, found);
            }
        }
        Json::Object(members) => {
            for (key, member) in members.iter_mut() {
                replace_secrets_in(key, member, secrets, found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Replaces a secret where it is a whole word; `None` where the text does not contain it.
fn replace_with_reference(text: &str, secret: &str, name: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '$' | '{');
    let mut replaced = String::new();
    let mut rest = text;
    let mut any = false;
    while let Some(at) = rest.find(secret) {
        let (before, behind) = (&rest[..at], &rest[at + secret.len()..]);
        let previous = before.chars().next_back().or_else(|| replaced.chars().next_back());
        let stands_alone =
            !previous.is_some_and(is_part) && !behind.chars().next().is_some_and(is_part);
        replaced.push_str(before);
        replaced.push_str(&if stands_alone { format!("${{{name}}}") } else { secret.to_owned() });
        any |= stands_alone;
        rest = behind;
    }
    replaced.push_str(rest);
    any.then_some(replaced)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, secret: &str, expected: Option<&str>) {
        assert_eq!(replace_with_reference(text, secret, "NAME").as_deref(), expected);
    }

    #[test]
    fn a_secret_is_replaced_only_where_it_is_a_word_of_its_own() {
        check("Bearer s3cret", "s3cret", Some("Bearer ${NAME}"));
        check("https://u:s3cret@h/?k=s3cret", "s3cret", Some("https://u:${NAME}@h/?k=${NAME}"));
        check("--password", "password", None);
        check("s3cret345", "s3cret", None);
        check("s3cret,s3cret", "s3cret", Some("${NAME},${NAME}"));
    }

    #[test]
    fn what_is_a_secret_shows_in_its_name_or_in_its_looks() {
        let distinct = |name, value| secret_variable(name, value).map(|secret| secret.is_distinct);
        assert_eq!(distinct("MY_TOKEN", "abcd"), Some(false));
        assert_eq!(distinct("MY_TOKEN", "s3cret-s3cret"), Some(true));
        assert_eq!(distinct("OPENAI", "sk-0123456789abcdef"), Some(true));
        assert_eq!(distinct("DATABASE_URL", "postgres://u:pw@h/db"), Some(true));
        assert_eq!(distinct("POSTGRES_PASSWORD", "postgres"), Some(false));
        for (name, value) in [
            ("HOME", "/somewhere"),
            ("SITE", "https://example.com/"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("AUTH_MODE", "http"),
            ("MY-TOKEN", "s3cret-s3cret"),
        ] {
            assert_eq!(distinct(name, value), None, "{name}");
        }
    }

    #[test]
    fn an_ordinary_word_is_replaced_only_where_a_secret_belongs() {
        let secrets = [secret_variable("POSTGRES_PASSWORD", "postgres").expect("its name says so")];
        let mut entry = json!({"args": ["@acme/postgres", "postgres"], "env": {"DB": "postgres", "DB_PASSWORD": "postgres"}});
        let mut found = Vec::new();
        replace_secrets_in("", &mut entry, &secrets, &mut found);
        assert_eq!(
            entry,
            json!({"args": ["@acme/postgres", "postgres"], "env": {"DB": "postgres", "DB_PASSWORD": "${POSTGRES_PASSWORD}"}})
        );
    }
}
