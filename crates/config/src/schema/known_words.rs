//! The keys and words of the format of a file, which an excerpt of it may show.

use super::entry_keys::{ENTRY_KEYS, OAUTH_KEYS, TLS_KEYS, TOOLS_KEYS};
use super::settings_keys::{
    AUDIT_KEYS, BROWSER_KEYS, CONNECTOR_ACCOUNT_KEYS, GATEWAY_LIMITS_KEYS, HOOKS_KEYS,
    IDENTITY_PROVIDER_KEYS, LOGIN_DEFAULTS_KEYS, MODEL_KEYS, PERMISSIONS_KEYS, PRINCIPAL_KEYS,
    REGISTRY_KEYS, SESSION_INGRESS_KEYS, SETTINGS_KEYS, SHARING_KEYS,
};

/// Is the key part of the format?
pub(crate) fn is_known_key(key: &str) -> bool {
    const POLICY_ENTRY_KEYS: [&str; 3] = ["serverName", "serverCommand", "serverUrl"];
    let entry = [ENTRY_KEYS, OAUTH_KEYS, TLS_KEYS, TOOLS_KEYS];
    let settings = [
        SETTINGS_KEYS,
        PERMISSIONS_KEYS,
        PRINCIPAL_KEYS,
        HOOKS_KEYS,
        IDENTITY_PROVIDER_KEYS,
        LOGIN_DEFAULTS_KEYS,
        CONNECTOR_ACCOUNT_KEYS,
        REGISTRY_KEYS,
        SESSION_INGRESS_KEYS,
        MODEL_KEYS,
        AUDIT_KEYS,
        GATEWAY_LIMITS_KEYS,
        SHARING_KEYS,
        BROWSER_KEYS,
    ];
    entry.into_iter().flatten().any(|known| known.name == key)
        || settings.into_iter().flatten().any(|known| known.name == key)
        || POLICY_ENTRY_KEYS.contains(&key)
}

/// The words that values of the format can be, besides names and numbers.
const WORDS: &[&str] = &[
    "true",
    "false",
    "null", // JSON
    "stdio",
    "http",
    "https",
    "sse",
    "ws",
    "wss",
    "websocket",
    "streamable-http",
    "sse-ide",
    "ws-ide",
    "sdk",
    "connector-proxy", // transports
    "authorization_code",
    "client_credentials",
    "jwt_bearer", // grants
    "default",
    "plan",
    "acceptEdits",
    "dontAsk",
    "bypass", // modes
    "client",
    "operator",
    "both", // approvers
    "user",
    "workspace",
    "session", // sharing classes
    "anthropic",
    "openai",
    "openai-responses", // model providers
    "allow",
    "refuse",
    "deny",
    "ask", // decisions
    "dark",
    "light", // themes
];

/// The shortest word that may differ from a word of the format.
const MIN_MISSPELT: usize = 3;

/// Is the word one of the format, but for upper case or one or two characters?
pub(crate) fn is_like_known_word(word: &str) -> bool {
    let lower = word.to_lowercase();
    WORDS.iter().map(|it| it.to_lowercase()).any(|known| {
        let limit = if known.len() >= 8 { 2 } else { 1 };
        let is_long_enough = word.len() >= MIN_MISSPELT && known.len() >= MIN_MISSPELT;
        lower == known || (is_long_enough && strsim::damerau_levenshtein(&lower, &known) <= limit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{OAuthGrant, TransportKind};

    #[test]
    fn misspelt_words_of_the_format_are_found_and_others_are_not() {
        let misspelt =
            ["htpp", "HTTP", "flase", "Ture", "stdo", "autorization_code", "pln", "drak"]; // misspelt on purpose
        for word in misspelt {
            assert!(is_like_known_word(word), "{word}");
        }
        for word in ["", "x", "pw", "canary7f3a", "hunter2", "correct-horse", "12345", "s3cret"] {
            assert!(!is_like_known_word(word), "{word}");
        }
        for (grant, _) in OAuthGrant::NAMES {
            assert!(WORDS.contains(&grant), "{grant}");
        }
        for kind in TransportKind::ALL {
            assert!(WORDS.contains(&kind.id()), "{}", kind.id());
        }
    }
}
