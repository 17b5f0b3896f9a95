//! Which secrets among the values of an entry were stored for it, so that they can be deleted with it.

use serde_json::{Map, Value as Json};
use switchboard::config::template::{SecretReference, Template};

use crate::commands::import::SecretStorage;
use crate::commands::import::secrets::reference_for;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;

/// The secrets among the values of an entry that were stored for it, and not ones that the user wrote or shares.
pub(crate) fn stored_secrets(
    values: &Map<String, Json>,
    place: (WritableScope, &str),
    invocation: &Invocation,
) -> Vec<SecretReference> {
    let texts = values.values().flat_map(|value| match value {
        Json::Array(items) => items.iter().filter_map(Json::as_str).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
            value.as_str().into_iter().collect::<Vec<_>>()
        }
    });
    let references = texts
        .flat_map(|text| Template::parse(text).secrets().into_iter().cloned().collect::<Vec<_>>());
    // Names of stored values begin with the server's.
    let is_own = |reference: &SecretReference| {
        [SecretStorage::Keychain, SecretStorage::File].into_iter().any(|storage| {
            let prefix = reference_for(invocation, storage, place, "userConfig.");
            prefix.is_some_and(|prefix| match (&prefix, reference) {
                (SecretReference::Keychain(prefix), SecretReference::Keychain(name))
                | (SecretReference::File(prefix), SecretReference::File(name)) => {
                    name.starts_with(prefix) && !name[prefix.len()..].contains(['/', '\\'])
                }
                (
                    SecretReference::Keychain(_)
                    | SecretReference::File(_)
                    | SecretReference::Command(_),
                    _,
                ) => false,
            })
        })
    };
    references.filter(is_own).collect()
}
