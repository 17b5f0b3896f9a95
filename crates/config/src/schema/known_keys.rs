//! The keys that may appear in an excerpt of a file.

use super::entry_keys::{ENTRY_KEYS, OAUTH_KEYS, TLS_KEYS, TOOLS_KEYS};
use super::settings_keys::{
    CONNECTOR_ACCOUNT_KEYS, HOOKS_KEYS, IDENTITY_PROVIDER_KEYS, MODEL_KEYS, PERMISSIONS_KEYS,
    PRINCIPAL_KEYS, SETTINGS_KEYS,
};

/// Is the key part of the format? Such keys are shown in excerpts, all others are masked.
pub(crate) fn is_known_key(key: &str) -> bool {
    const POLICY_ENTRY_KEYS: [&str; 3] = ["serverName", "serverCommand", "serverUrl"];
    let entry = [ENTRY_KEYS, OAUTH_KEYS, TLS_KEYS, TOOLS_KEYS];
    let settings = [
        SETTINGS_KEYS,
        PERMISSIONS_KEYS,
        PRINCIPAL_KEYS,
        HOOKS_KEYS,
        IDENTITY_PROVIDER_KEYS,
        CONNECTOR_ACCOUNT_KEYS,
        MODEL_KEYS,
    ];
    entry.into_iter().flatten().any(|known| known.name == key)
        || settings.into_iter().flatten().any(|known| known.name == key)
        || POLICY_ENTRY_KEYS.contains(&key)
}
