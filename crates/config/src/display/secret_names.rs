//! Tells by name or by shape whether a text is a secret.

/// Words in flags, variables and headers that mean a secret.
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

/// Names that contain such a word and do not hold a secret.
const NON_SECRET_NAMES: [&str; 6] =
    ["maxtokens", "tokenizer", "tokenizers", "oldpwd", "pwd", "stricthostkeychecking"];

/// Last words of names that describe a secret without holding it.
const NON_SECRET_SUFFIXES: [&str; 10] =
    ["file", "path", "dir", "type", "mode", "url", "uri", "endpoint", "ttl", "limit"];

/// Does the name of a flag, variable or header mean a secret?
pub fn is_secret_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let is_negation = name.trim_start_matches('-').starts_with("no-");
    let words = split_words(name);
    let only_describes =
        words.last().is_some_and(|last| NON_SECRET_SUFFIXES.contains(&last.as_str()));
    if NON_SECRET_NAMES.iter().any(|word| plain == *word) || is_negation || only_describes {
        return false;
    }
    SECRET_WORDS.iter().any(|word| plain.contains(word))
        || words.iter().any(|word| {
            matches!(word.as_str(), "key" | "pat" | "pwd" | "pass" | "pw" | "auth" | "jwt" | "sig")
        })
}

/// Splits a name into words, at punctuation and before capital letters.
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

/// Prefixes of the tokens of well-known services.
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

/// Does a word look like a token: a known prefix and digits, or long and random? A word that reads like a name
/// does not, whatever its prefix: users must see what they run.
pub fn looks_like_token(word: &str) -> bool {
    let digits = count_digits(word);
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'=' | b'+' | b'%');
    has_token_prefix(word)
        || (word.len() >= 32 && word.bytes().all(plain) && digits >= 4 && letters >= 4)
}

/// Does a word look like a token of a well-known service?
pub fn has_token_prefix(word: &str) -> bool {
    let known = TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    known && word.len() >= 12 && count_digits(word) >= 2
}

fn count_digits(word: &str) -> usize {
    word.bytes().filter(u8::is_ascii_digit).count()
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
