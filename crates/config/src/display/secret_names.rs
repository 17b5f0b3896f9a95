//! Tells by name or by shape whether a text is a secret.

/// Words that announce a secret, as they occur in flags, variables and headers.
const SECRET_WORDS: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "credential",
    "authorization",
    "cookie",
    "bearer",
    "privatekey",
    "accesskey",
];

/// Names that hold such a word and announce no secret.
const NON_SECRET_NAMES: [&str; 6] =
    ["maxtokens", "tokenizer", "tokenizers", "oldpwd", "pwd", "stricthostkeychecking"];

/// What such a name ends with when it speaks of a secret without holding it.
const NON_SECRET_SUFFIXES: [&str; 10] =
    ["file", "path", "dir", "type", "mode", "url", "uri", "endpoint", "ttl", "limit"];

/// Does a flag's, variable's or header's name announce a secret?
pub fn is_secret_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let is_negation = name.trim_start_matches('-').starts_with("no-");
    let words = split_words(name);
    let is_about = words.last().is_some_and(|last| NON_SECRET_SUFFIXES.contains(&last.as_str()));
    if NON_SECRET_NAMES.iter().any(|word| plain == *word) || is_negation || is_about {
        return false;
    }
    SECRET_WORDS.iter().any(|word| plain.contains(word))
        || words.iter().any(|word| {
            matches!(word.as_str(), "key" | "pat" | "pwd" | "pass" | "pw" | "auth" | "jwt" | "sig")
        })
}

/// The words of a name, split at marks and where a capital begins.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && after_small) {
            words.push(String::new());
        }
        after_small = c.is_ascii_lowercase();
        if let (Some(last), true) = (words.last_mut(), c.is_ascii_alphanumeric()) {
            last.push(c.to_ascii_lowercase());
        }
    }
    words
}

/// Prefixes that well-known services give their tokens.
const TOKEN_PREFIXES: [&str; 36] = [
    "sk-",
    "sk_",
    "pk-",
    "pk_",
    "rk-",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "glsa_",
    "glc_",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "hf_",
    "shpat_",
    "shpss_",
    "lin_api_",
    "dop_v1_",
    "SG.",
    "pypi-",
    "dckr_pat_",
    "ntn_",
    "secret_",
    "whsec_",
];

/// Does a bare word have the shape of a token: a known prefix with digits behind, or long and random?
/// A word that reads like a name is none, however it begins: people must see what they run.
pub fn looks_like_token(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let known = TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'=' | b'+' | b'%');
    (known && word.len() >= 12 && digits >= 2)
        || (word.len() >= 32 && word.bytes().all(plain) && digits >= 4 && letters >= 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_ordinary_words_are_not_taken_for_tokens() {
        for word in [
            "/usr/local/share/some/very/long/path/to/a/folder",
            "mcp-server-filesystem",
            "2024-11-05",
            "monkey",
            "--keyboard",
            "@modelcontextprotocol/server-everything@2025.11.25",
        ] {
            assert!(!looks_like_token(word), "{word}");
        }
        for word in [
            "--keyboard",
            "passenger",
            "author",
            "monkey",
            "PWD",
            "--max-tokens",
            "no-auth",
            "--key-file",
            "TOKEN_URL",
            "--auth-type",
        ] {
            assert!(!is_secret_name(word), "{word}");
        }
        for word in ["GITHUB_PAT", "AccountKey", "NOTION_TOKEN", "NODE_AUTH_TOKEN", "X-Api-Key"] {
            assert!(is_secret_name(word), "{word}");
        }
    }
}
