//! Builds the environment of a server's process: the inherited variables without credentials. A server that needs a
//! credential names it in its entry's `env`.

use std::collections::BTreeMap;

use switchboard_config::display::has_token_prefix;
use url::Url;

/// Fragments that mark a variable as a credential wherever they are in its name.
const SECRET_FRAGMENTS: &[&str] = &[
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASSCODE",
    "SECRET",
    "CREDENTIAL",
    "APIKEY",
    "PRIVATEKEY",
    "ACCESSKEY",
];

/// Words that mark a variable as a credential. A name is split at underscores, hyphens and dots, and where a small letter
/// precedes a capital one.
const SECRET_WORDS: &[&str] = &[
    "PASS", "PASSES", "PWD", "PW", "PSW", "KEY", "KEYS", "TOKEN", "TOKENS", "PAT", "JWT", "COOKIE",
    "WEBHOOK", "DSN", "BEARER", "AUTH",
];

/// Ends of words that mark a variable as a credential: `SSHPASS`, `PGPASS`, `AUTHTOKEN`, `LICENSEKEY`.
const SECRET_ENDINGS: &[&str] = &["PASS", "TOKEN", "APIKEY", "SECRETKEY", "LICENSEKEY"];

/// Words that end like a credential and are none.
const HARMLESS_WORDS: &[&str] = &["BYPASS", "COMPASS", "UNDERPASS", "OVERPASS", "TRESPASS"];

/// Pairs of adjacent words that mark a variable as a credential.
const SECRET_PAIRS: &[(&str, &str)] = &[("CONNECTION", "STRING"), ("DATABASE", "URL")];

/// Last words of names that say where a credential is or what it is like, without containing it.
const DESCRIBING_WORDS: &[&str] = &[
    "FILE", "PATH", "DIR", "FOLDER", "SOCK", "TYPE", "MODE", "METHOD", "TTL", "LIMIT", "LENGTH",
    "COUNT", "TIMEOUT", "REPEAT", "LAYOUT", "RATE", "DELAY", "BINDINGS",
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
const ALLOWED: &[&str] = &[
    "PWD",
    "OLDPWD",
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "XAUTHORITY",
    "GNOME_KEYRING_CONTROL",
    "KEYTIMEOUT",
    "GPG_KEY",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "VSCODE_GIT_ASKPASS_NODE",
    "VSCODE_GIT_ASKPASS_MAIN",
    "XDG_SESSION_COOKIE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
];

/// The variables of a server's process: the inherited ones without credentials, overridden by the entry's.
pub fn child_environment(
    inherited: &BTreeMap<String, String>,
    configured: impl IntoIterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let mut variables: BTreeMap<String, String> = inherited
        .iter()
        .filter(|(name, value)| !is_credential(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    variables.extend(configured);
    variables.into_iter().collect()
}

/// Whether a variable holds a credential, by its name or by the shape of its value.
pub fn is_credential(name: &str, value: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    if ALLOWED.contains(&upper.as_str()) {
        return false;
    }
    EXCLUDED_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || is_credential_name(name)
        || has_password(value)
        || has_token_prefix(value.trim())
}

fn is_credential_name(name: &str) -> bool {
    let words = words(name);
    let describes = words.last().is_some_and(|last| DESCRIBING_WORDS.contains(&last.as_str()));
    let joined = words.concat();
    let is_secret_word = |word: &String| {
        SECRET_WORDS.contains(&word.as_str())
            || (SECRET_ENDINGS.iter().any(|ending| word.ends_with(ending))
                && !HARMLESS_WORDS.contains(&word.as_str()))
    };
    let pairs = words.windows(2).any(|pair| {
        SECRET_PAIRS.iter().any(|(first, second)| pair[0] == *first && pair[1] == *second)
    });
    !describes
        && (SECRET_FRAGMENTS.iter().any(|fragment| joined.contains(fragment))
            || words.iter().any(is_secret_word)
            || pairs)
}

/// The words of a name, in upper case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && after_small) {
            words.push(String::new());
        }
        after_small = c.is_ascii_lowercase();
        if let (Some(last), true) = (words.last_mut(), c.is_ascii_alphanumeric()) {
            last.push(c.to_ascii_uppercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether the value is a URL or a connection string with a password: `redis://:x@h`, `Server=h;Password=x`. Several URLs
/// are separated by commas or spaces.
fn has_password(value: &str) -> bool {
    let is_url_with_password = |word: &str| {
        word.contains("://")
            && Url::parse(word).map_or_else(
                // Drivers accept more than URLs: `postgres://user:p%ssw@rd@h1,h2/db`.
                |_| word.split_once("://").is_some_and(|(_, rest)| has_user_password(rest)),
                |url| url.password().is_some_and(|it| !it.is_empty()),
            )
    };
    let is_password_setting = |part: &str| {
        part.split_once('=').is_some_and(|(key, value)| {
            let key = key.trim().to_ascii_lowercase();
            let is_key =
                ["password", "pwd", "accountkey", "sharedaccesskey"].contains(&key.as_str());
            is_key && !value.trim().is_empty()
        })
    };
    value.split([',', ' ', '\n']).any(is_url_with_password)
        || is_url_with_password(value)
        || (value.contains(';') && value.split(';').any(is_password_setting))
        || (value.contains('=') && value.split_whitespace().any(is_password_setting))
}

fn has_user_password(authority: &str) -> bool {
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| {
        user.split_once(':').is_some_and(|(_, password)| !password.is_empty())
    })
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
            "PGPASSWORD",
            "MYSQL_PWD",
            "SSHPASS",
            "STRIPE_KEY",
            "AZURE_STORAGE_KEY",
            "SENTRY_DSN",
            "REDISCLI_AUTH",
            "npm_config_//registry.example/:_authToken",
            "DOCKER_AUTH_CONFIG",
            "ENCRYPTION_KEYS",
            "clientSecret",
            "SMTP_PASS",
            "RABBITMQ_DEFAULT_PASS",
            "ALGOLIA_ADMIN_KEY",
            "BW_SESSION_KEY",
        ] {
            assert!(is_credential(name, "x"), "{name}");
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
            "PWD",
            "OLDPWD",
            "KEYBOARD_LAYOUT",
            "XKB_KEY_REPEAT",
            "PASSENGER_ROOT",
            "COMPASS",
            "SSL_CERT_FILE",
            "AWS_SHARED_CREDENTIALS_FILE",
            "MONKEY",
            "AUTHOR",
            "BYPASS_CACHE",
            "REDIS_URL",
            "MONGODB_URI",
        ] {
            assert!(!is_credential(name, "x"), "{name}");
        }
    }

    #[test]
    fn credentials_are_known_by_the_shape_of_their_values() {
        for value in [
            "redis://:canary@h:6379/0",
            "mongodb+srv://u:canary@c.example/db",
            "postgres://u:can@ary@h1:1,h2:2/db",
            "http://a/, https://u:canary@h/",
            "Server=h;User Id=u;Password=canary",
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=canary==",
            "host=h user=u password=canary",
            "ghp_canary0123456789012345",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefgh12345",
        ] {
            assert!(is_credential("X", value), "{value}");
        }
        for value in [
            "redis://h:6379/0",
            "https://h.example/a:b@c",
            "ssh://git@h.example/x",
            "unix:path=/run/user/0/bus,guid=0123456789abcdef0123456789abcdef",
            "/usr/local/bin:/usr/bin",
            "a=1;b=2",
            "2",
            "",
        ] {
            assert!(!is_credential("X", value), "{value}");
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
