//! Finds the secrets that imported entries hold in clear text, and stores them outside the settings.

use std::path::Path;

use serde_json::{Map, Value as Json};
use switchboard::config::display::{is_secret_name, looks_like_token};
use switchboard::config::secret::Secret;
use switchboard::config::template::{SecretReference, Template};
use switchboard::sources::secrets;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::Failure;

/// Where secrets in clear text go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SecretStorage {
    /// The system's keychain.
    Keychain,
    /// Files that only you can read.
    File,
    /// The settings, in clear text as before.
    Keep,
}

/// A secret in clear text. Its value is not part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiteralSecret {
    /// The keys that lead to its text.
    keys: [String; 2],
    /// Where the secret begins in the text; before it is a flag or the scheme of a header.
    start: usize,
}

impl LiteralSecret {
    /// Its place in the entry: `env.API_KEY`.
    pub(crate) fn place(&self) -> String {
        self.keys.join(".")
    }

    fn text<'e>(&self, entry: &'e mut Map<String, Json>) -> Option<&'e mut String> {
        let [section, key] = &self.keys;
        let found = match entry.get_mut(section)? {
            Json::Object(members) => members.get_mut(key)?,
            Json::Array(items) => items.get_mut(key.parse::<usize>().ok()?)?,
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => return None,
        };
        match found {
            Json::String(text) => Some(text),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => None,
        }
    }
}

/// Finds the secrets of an entry that are there in clear text.
pub(crate) fn literal_secrets(entry: &Map<String, Json>) -> Vec<LiteralSecret> {
    let mut found = Vec::new();
    for section in ["env", "headers", "oauth"] {
        let members = entry.get(section).and_then(Json::as_object).into_iter().flatten();
        for (key, text) in members.filter_map(|(key, value)| Some((key, value.as_str()?))) {
            let start = match section {
                "headers" => text.find(' ').map_or(0, |space| space + 1),
                _ => 0,
            };
            if is_literal_secret(text, start, is_secret_name(key)) {
                found.push(LiteralSecret { keys: [section.to_owned(), key.clone()], start });
            }
        }
    }
    let arguments: Vec<&str> = entry
        .get("args")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    for (index, text) in arguments.iter().enumerate() {
        let flag_before = index.checked_sub(1).map_or("", |before| arguments[before]);
        let (start, is_named) = match text.split_once('=') {
            Some((flag, _)) if flag.starts_with('-') => (flag.len() + 1, is_secret_name(flag)),
            Some(_) | None => {
                let follows_flag = flag_before.starts_with('-') && !flag_before.contains('=');
                (0, follows_flag && !text.starts_with('-') && is_secret_name(flag_before))
            }
        };
        if is_literal_secret(text, start, is_named) {
            let keys = ["args".to_owned(), index.to_string()];
            found.push(LiteralSecret { keys, start });
        }
    }
    found
}

/// Is the text from `start` on a secret and not a reference to one?
fn is_literal_secret(text: &str, start: usize, is_named: bool) -> bool {
    let value = &text[start..];
    let is_plain = matches!(value, "" | "true" | "false" | "none" | "null")
        || value.bytes().all(|byte| byte.is_ascii_digit());
    let is_literal = Template::parse(text).as_literal().is_some();
    is_literal && !is_plain && (is_named || looks_like_token(value))
}

/// An entry with references in place of its secrets, and the secrets.
pub(crate) type EntryWithSecrets = (Map<String, Json>, Vec<(SecretReference, Secret)>);

/// Puts references in the places of the secrets of an entry; `None` if one of them has no reference.
pub(crate) fn with_references(
    entry: &Map<String, Json>,
    reference_of: impl Fn(&LiteralSecret) -> Option<SecretReference>,
) -> Option<EntryWithSecrets> {
    let mut replaced = entry.clone();
    let mut secrets = Vec::new();
    for secret in literal_secrets(entry) {
        let reference = reference_of(&secret)?;
        let text = secret.text(&mut replaced)?;
        let value = Template::parse(&text[secret.start..]).as_literal()?.to_owned();
        text.truncate(secret.start);
        text.push_str(&reference.to_string());
        secrets.push((reference, Secret::new(value)));
    }
    Some((replaced, secrets))
}

/// The reference to a secret of a server.
pub(crate) fn reference(
    invocation: &Invocation,
    storage: SecretStorage,
    (scope, server): (WritableScope, &str),
    secret: &LiteralSecret,
) -> Option<SecretReference> {
    reference_for(invocation, storage, (scope, server), &secret.keys.join("."))
}

/// The reference to the secret at a key of a server's entry.
pub(crate) fn reference_for(
    invocation: &Invocation,
    storage: SecretStorage,
    (scope, server): (WritableScope, &str),
    key: &str,
) -> Option<SecretReference> {
    let name = file_name(&format!("{server}.{key}"));
    let settings = invocation.scope_file(scope);
    let folder = settings.parent().unwrap_or(Path::new(""));
    match storage {
        SecretStorage::Keep => None,
        SecretStorage::File => {
            let path = folder.join("secrets").join(name);
            let shown = match path.strip_prefix(&invocation.env.home) {
                Ok(inside) => format!("~/{}", inside.to_string_lossy()),
                Err(_) => path.to_string_lossy().into_owned(),
            };
            Some(SecretReference::File(shown))
        }
        SecretStorage::Keychain => Some(SecretReference::Keychain(match scope {
            WritableScope::Local => {
                let project = folder.file_name().map(|it| it.to_string_lossy().into_owned());
                format!("{}.{name}", project.unwrap_or_default())
            }
            WritableScope::User | WritableScope::Project => name,
        })),
    }
}

/// Stores a secret, and reads it back: settings must not refer to one that is not there.
pub(crate) fn store(
    invocation: &Invocation,
    reference: &SecretReference,
    secret: &Secret,
) -> Result<(), Failure> {
    let home = &invocation.env.home;
    secrets::store_secret(reference, secret, home).map_err(|error| {
        Failure::new(Exit::Failure, "nothing was imported: a secret could not be stored")
            .caused_by(error)
            .hint("choose another place: --secrets file, --secrets keychain or --secrets keep")
    })
}

/// A name that is a file name on every system.
fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(value: Json) -> Map<String, Json> {
        let Json::Object(entry) = value else { panic!("an object") };
        entry
    }

    #[test]
    fn secrets_are_found_by_name_and_by_shape_but_not_references() {
        let entry = entry(json!({
            "command": "npx",
            "args": ["-y", "--api-key", "hunter2hunter2", "--token=hunter3", "ghp_0123456789abcdefghij", "--verbose"],
            "env": {"API_KEY": "hunter2", "OTHER_KEY": "${OTHER_KEY}", "MODE": "fast", "MAX_TOKENS": "5", "AUTH": "true"},
            "headers": {"Authorization": "Bearer hunter4", "X-Trace": "on"},
        }));
        let places: Vec<String> =
            literal_secrets(&entry).iter().map(LiteralSecret::place).collect();
        assert_eq!(places, ["env.API_KEY", "headers.Authorization", "args.2", "args.3", "args.4"]);
        let keychain = |it: &LiteralSecret| Some(SecretReference::Keychain(it.place()));
        let (replaced, secrets) = with_references(&entry, keychain).expect("all are literal");
        assert_eq!(
            replaced["headers"]["Authorization"],
            "Bearer ${keychain:headers.Authorization}"
        );
        assert_eq!(replaced["args"][3], "--token=${keychain:args.3}");
        assert_eq!(replaced["env"]["MODE"], "fast");
        let values: Vec<&str> = secrets.iter().map(|(_, secret)| secret.reveal()).collect();
        assert_eq!(
            values,
            ["hunter2", "hunter4", "hunter2hunter2", "hunter3", "ghp_0123456789abcdefghij"]
        );
        assert!(literal_secrets(&replaced).is_empty());
    }

    #[test]
    fn an_escaped_dollar_sign_is_stored_as_the_character() {
        let entry = entry(json!({"env": {"PASSWORD": "a$$b"}}));
        let keychain = |it: &LiteralSecret| Some(SecretReference::Keychain(it.place()));
        let (_, secrets) = with_references(&entry, keychain).expect("it is literal");
        assert_eq!(secrets[0].1.reveal(), "a$b");
    }
}
