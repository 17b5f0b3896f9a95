//! Builds the environment of a server's process: the inherited variables without credentials. A server that needs a
//! credential names it in its entry's `env`.

use std::collections::BTreeMap;

/// Words, separated by underscores, that mark a variable as a credential.
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

/// Pairs of adjacent words that mark a variable as a credential.
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

/// Prefixes of variables that belong to model providers or to Switchboard; servers never get them.
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

/// Exceptions: names that look like credentials but are harmless, or useless unless passed on.
const ALLOWED: &[&str] = &["SSH_AUTH_SOCK", "GPG_AGENT_INFO"];

/// The variables of a server's process: the inherited ones without credentials, overridden by the entry's.
pub fn child_environment(
    inherited: &BTreeMap<String, String>,
    configured: impl IntoIterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let mut variables: BTreeMap<String, String> = inherited
        .iter()
        .filter(|(name, _)| !is_credential(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    variables.extend(configured);
    variables.into_iter().collect()
}

/// Whether a variable's name marks its value as a credential.
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
    fn configured_variables_override_inherited_ones() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let inherited =
            BTreeMap::from([pair("A", "1"), pair("GH_TOKEN", "s"), pair("PATH", "/bin")]);
        let configured = [pair("GH_TOKEN", "configured"), pair("A", "2")];
        assert_eq!(
            child_environment(&inherited, configured),
            [pair("A", "2"), pair("GH_TOKEN", "configured"), pair("PATH", "/bin")]
        );
    }
}
