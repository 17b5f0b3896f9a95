//! What a server's program gets of our environment: everything but credentials.
//! A server that needs one says so in its entry's `env`.

use std::collections::BTreeMap;

/// Words in a variable's name that make it a credential, wherever they stand between underscores.
const SECRET_WORDS: &[&str] = &[
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
    "PAT",
    "JWT",
    "COOKIE",
    "WEBHOOK",
];

/// Two words that make one together.
const SECRET_PAIRS: &[(&str, &str)] = &[
    ("API", "KEY"),
    ("API", "KEYS"),
    ("ACCESS", "KEY"),
    ("PRIVATE", "KEY"),
    ("SECRET", "KEY"),
    ("SIGNING", "KEY"),
    ("ENCRYPTION", "KEY"),
    ("ACCOUNT", "KEY"),
    ("AUTH", "KEY"),
    ("CONNECTION", "STRING"),
    ("DATABASE", "URL"),
    ("BASIC", "AUTH"),
];

/// Variables of model providers and of ours: none of a server's business.
const EXCLUDED_PREFIXES: &[&str] = &[
    "ANTHROPIC_",
    "OPENAI_",
    "GEMINI_",
    "MISTRAL_",
    "GROQ_",
    "COHERE_",
    "OPENROUTER_",
    "SWITCHBOARD_",
];

/// Harmless, or of no use without being handed down, though they read like one.
const ALLOWED: &[&str] = &["SSH_AUTH_SOCK", "GPG_AGENT_INFO"];

/// The variables that a program gets: ours without credentials, then the entry's.
pub fn child_environment(
    inherited: &BTreeMap<String, String>,
    configured: impl IntoIterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let mut all: BTreeMap<String, String> = inherited
        .iter()
        .filter(|(name, _)| !is_credential(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    all.extend(configured);
    all.into_iter().collect()
}

/// Does a name say that its value lets somebody in?
pub fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if ALLOWED.contains(&name.as_str()) {
        return false;
    }
    let words: Vec<&str> = name.split(['_', '-', '.']).filter(|word| !word.is_empty()).collect();
    EXCLUDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || words.iter().any(|word| SECRET_WORDS.contains(word))
        || words.windows(2).any(|pair| SECRET_PAIRS.contains(&(pair[0], pair[1])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_their_names() {
        for name in [
            "ANTHROPIC_API_KEY",
            "OPENAI_BASE_URL",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "npm_config__authToken_TOKEN",
            "DB_PASSWORD",
            "GITHUB_PAT",
            "SLACK_WEBHOOK_URL",
            "DATABASE_URL",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "my-api-key",
            "SWITCHBOARD_OWNER",
        ] {
            assert!(is_credential(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "LANG",
            "NODE_OPTIONS",
            "SSH_AUTH_SOCK",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD",
            "XDG_RUNTIME_DIR",
            "PATTERN",
            "AWS_REGION",
            "COOKIES_DIR",
            "API_URL",
        ] {
            assert!(!is_credential(name), "{name}");
        }
    }

    #[test]
    fn an_entry_has_the_last_word() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let inherited =
            BTreeMap::from([pair("A", "1"), pair("GH_TOKEN", "s"), pair("PATH", "/bin")]);
        let configured = [pair("GH_TOKEN", "wanted"), pair("A", "2")];
        assert_eq!(
            child_environment(&inherited, configured),
            [pair("A", "2"), pair("GH_TOKEN", "wanted"), pair("PATH", "/bin")]
        );
    }
}
