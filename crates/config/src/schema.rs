//! The keys of every configuration file, for reading, for warnings and for the reference page.
//! What a value means is left to the reader of its section in `file` and `settings`.

mod entry_keys;
mod known_words;
mod settings_keys;

pub use entry_keys::{ENTRY_KEYS, EntryKey, OAUTH_KEYS, TLS_KEYS, TOOLS_KEYS};
pub(crate) use known_words::{is_known_key, is_like_known_word};
pub(crate) use settings_keys::ELICITATION;
pub use settings_keys::{
    AUDIT_KEYS, BROWSER_KEYS, CONNECTOR_ACCOUNT_KEYS, GATEWAY_LIMITS_KEYS, HOOKS_KEYS,
    IDENTITY_PROVIDER_KEYS, LOGIN_DEFAULTS_KEYS, MODEL_KEYS, PERMISSIONS_KEYS, PRINCIPAL_KEYS,
    QUOTA_KEYS, REGISTRY_KEYS, SESSION_INGRESS_KEYS, SETTINGS_KEYS, SHARING_KEYS, SettingsKey,
};

/// Returns the known word that is most similar, if it is similar enough.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    known
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_gets_the_right_word() {
        assert_eq!(nearest("commands", ENTRY_KEYS.iter().map(|key| key.name)), Some("command"));
        assert_eq!(nearest("Headers", ENTRY_KEYS.iter().map(|key| key.name)), Some("headers"));
        assert_eq!(nearest("alwaysLoad", ENTRY_KEYS.iter().map(|key| key.name)), None);
        assert_eq!(
            nearest("streamablehttp", ["http", "streamable-http"].into_iter()),
            Some("streamable-http")
        );
    }
}
