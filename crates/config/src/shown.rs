//! What may be shown of untrusted or secret text: escapes for the terminal, masks for secrets.
//! Everything that `cli` prints of a configuration goes through here.

use url::Url;

use crate::template::Template;

/// What stands for a hidden value.
pub const MASK: &str = "•••";

/// The text with everything that a terminal acts on, or that hides from the eye, written as an escape.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Control characters, and those that reorder, join or vanish.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A value that is secret unless it only names variables: names are shown, literals are masked.
/// The scheme in front of a credential is no secret.
pub fn secret(template: &Template) -> String {
    let literal = |text: &str| match text {
        "Bearer " | "Basic " | "Token " => text.to_owned(),
        _ => MASK.to_owned(),
    };
    printable(&template.shown(literal))
}

/// A URL without user, password, query values and fragment.
pub fn url(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) => printable(&safe_url(&url)),
        Err(_) => printable(&unparsed_url(text)),
    }
}

/// Like [`url`], for text that still holds variables.
pub fn url_template(template: &Template) -> String {
    if template.is_literal() {
        return url(&template.shown(str::to_owned));
    }
    printable(&unparsed_url(&template.shown(str::to_owned)))
}

fn safe_url(url: &Url) -> String {
    let mut shown = format!("{}://", url.scheme());
    if !url.username().is_empty() || url.password().is_some() {
        shown.push_str(MASK);
        shown.push('@');
    }
    shown.push_str(url.host_str().unwrap_or(""));
    if let Some(port) = url.port() {
        shown.push_str(&format!(":{port}"));
    }
    shown.push_str(&safe_path(url.path()));
    if let Some(query) = url.query() {
        shown.push('?');
        shown.push_str(&safe_query(query));
    }
    shown
}

/// Without a parser's help: cuts at the marks that a URL's parts begin with.
fn unparsed_url(text: &str) -> String {
    let (front, fragment) = text.split_once('#').map_or((text, None), |(a, b)| (a, Some(b)));
    let (front, query) = match front.split_once('?') {
        Some((front, query)) => (front, Some(query)),
        None => (front, None),
    };
    let (scheme, rest) = front.split_once("://").unwrap_or(("", front));
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let mut shown = String::new();
    if !scheme.is_empty() {
        shown = format!("{scheme}://");
    }
    match authority.rsplit_once('@') {
        Some((_, host)) => shown.push_str(&format!("{MASK}@{host}")),
        None => shown.push_str(authority),
    }
    shown.push_str(&safe_path(path));
    if let Some(query) = query {
        shown.push('?');
        shown.push_str(&safe_query(query));
    }
    if fragment.is_some() {
        shown.push_str(&format!("#{MASK}"));
    }
    shown
}

/// Path segments that look like keys are masked: some services put a token there.
fn safe_path(path: &str) -> String {
    let segment = |segment: &str| {
        if looks_like_a_token(segment) { MASK.to_owned() } else { segment.to_owned() }
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn safe_query(query: &str) -> String {
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, value)) if is_reference(value) => format!("{key}={value}"),
        Some((key, _)) => format!("{key}={MASK}"),
        None => MASK.to_owned(),
    };
    query.split('&').map(pair).collect::<Vec<_>>().join("&")
}

/// `${NAME}` and nothing else: a name is no secret.
fn is_reference(text: &str) -> bool {
    text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// A command's arguments, with what looks like a secret masked: values of telling flags and
/// assignments, tokens by their shape, and secret parts of URLs.
pub fn arguments(arguments: &[Template]) -> Vec<String> {
    let mut shown = Vec::with_capacity(arguments.len());
    let mut after_secret_flag = false;
    for argument in arguments {
        let text = argument.shown(str::to_owned);
        let is_flag = text.starts_with('-');
        shown.push(if after_secret_flag && !is_flag {
            secret(argument)
        } else {
            printable(&one_argument(argument, &text))
        });
        after_secret_flag =
            is_flag && !text.contains('=') && (is_secret_word(&text) || is_header_flag(&text));
    }
    shown
}

fn one_argument(argument: &Template, text: &str) -> String {
    if let Some((key, value)) = text.split_once('=')
        && is_secret_word(key)
    {
        let value = if is_reference(value) { value } else { MASK };
        return format!("{key}={value}");
    }
    if let Some((name, _)) = text.split_once(':')
        && is_secret_word(name)
        && !text.contains("://")
    {
        return format!("{name}: {MASK}");
    }
    if text.contains("://") {
        let start = text.find("http").or_else(|| text.find("ws")).unwrap_or(0);
        let (front, address) = text.split_at(start);
        return match argument.is_literal() {
            true => format!("{front}{}", url(address)),
            false => format!("{front}{}", unparsed_url(address)),
        };
    }
    if looks_like_a_token(text) { MASK.to_owned() } else { text.to_owned() }
}

fn is_header_flag(flag: &str) -> bool {
    matches!(flag.trim_start_matches('-'), "H" | "header" | "headers")
}

/// Words that announce a secret, as they occur in flags, variables and headers.
const SECRET_WORDS: [&str; 14] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "api-key",
    "api_key",
    "credential",
    "authorization",
    "cookie",
    "bearer",
    "private-key",
    "access-key",
];

/// Does a flag's, variable's or header's name announce a secret?
pub fn is_secret_word(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
        || name
            .split(['-', '_'])
            .any(|part| matches!(part, "key" | "pat" | "pwd" | "pass" | "auth"))
}

/// Prefixes that well-known services give their tokens.
const TOKEN_PREFIXES: [&str; 17] = [
    "sk-",
    "pk-",
    "rk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
];

/// Does a bare word have the shape of a token: a known prefix, or long and random?
pub fn looks_like_a_token(word: &str) -> bool {
    let known = TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix)) && word.len() >= 12;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let long = word.len() >= 32 && word.bytes().all(plain) && {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
        digits >= 4 && letters >= 4
    };
    known || long
}

/// Keys whose values are safe to show in an excerpt of a file.
const PLAIN_KEYS: [&str; 12] = [
    "type",
    "command",
    "cwd",
    "name",
    "trust",
    "timeout",
    "disabled",
    "scopes",
    "callbackPort",
    "xaa",
    "serverName",
    "ideName",
];

/// A line of a configuration file for an error message: keys stay, values that may be secret are
/// covered character by character, so that columns still fit. Works on broken JSON, by looking at
/// the characters alone.
pub fn excerpt(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    let mut key = None;
    while let Some(c) = rest.chars().next() {
        let token = match c {
            '"' => string_token(rest),
            '{' | '}' | '[' | ']' | ',' | ':' => &rest[..1],
            c if c.is_whitespace() => &rest[..c.len_utf8()],
            _ => bare_token(rest),
        };
        rest = &rest[token.len()..];
        if c == '"' && rest.trim_start().starts_with(':') {
            key = Some(token.trim_matches('"'));
            shown.push_str(token);
        } else if is_punctuation(c) || key.is_some_and(|key| PLAIN_KEYS.contains(&key)) {
            shown.push_str(token);
        } else {
            shown.push_str(&covered(token));
        }
    }
    printable(&shown.replace('\t', " "))
}

fn is_punctuation(c: char) -> bool {
    c.is_whitespace() || matches!(c, '{' | '}' | '[' | ']' | ',' | ':')
}

fn string_token(text: &str) -> &str {
    let mut escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return &text[..=index],
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text
}

fn bare_token(text: &str) -> &str {
    let end = text.find(|c| is_punctuation(c) || c == '"').unwrap_or(text.len());
    &text[..end]
}

fn covered(token: &str) -> String {
    match token {
        "true" | "false" | "null" | "//" | "/*" | "*/" => token.to_owned(),
        _ => token.chars().map(|c| if c == '"' { '"' } else { '•' }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_is_printed() {
        assert_eq!(printable("a\u{1b}[2Jb\u{7}\u{9b}"), "a\\u{1b}[2Jb\\u{7}\\u{9b}");
        assert_eq!(printable("safe\u{202e}evil\u{200b}"), "safe\\u{202e}evil\\u{200b}");
        assert_eq!(printable("naïve 日本"), "naïve 日本");
    }

    #[track_caller]
    fn check_url(text: &str, expected: &str) {
        assert_eq!(url_template(&Template::parse(text)), expected);
    }

    #[test]
    fn a_shown_url_has_no_user_no_query_values_and_no_fragment() {
        check_url("https://api.example.com/mcp", "https://api.example.com/mcp");
        check_url(
            "https://u:p@h.example/x?key=canary&b#canary",
            "https://•••@h.example/x?key=•••&•••",
        );
        check_url("https://${HOST}/x?key=${KEY}&t=canary", "https://${HOST}/x?key=${KEY}&t=•••");
        check_url("https://h.example/s/sk-canary1234567/mcp", "https://h.example/s/•••/mcp");
        check_url("not a url?canary#canary", "not a url?•••#•••");
        check_url("https://user:canary@${HOST:-canary}/", "https://•••@${HOST:-…}/");
    }

    #[track_caller]
    fn check_arguments(written: &[&str], expected: &[&str]) {
        let templates: Vec<_> = written.iter().map(|text| Template::parse(text)).collect();
        assert_eq!(arguments(&templates), expected);
    }

    #[test]
    fn arguments_lose_what_looks_like_a_secret_and_keep_the_rest() {
        check_arguments(
            &["-y", "@scope/server@1.2.3", "--port", "8080"],
            &["-y", "@scope/server@1.2.3", "--port", "8080"],
        );
        check_arguments(&["--api-key", "canary", "x"], &["--api-key", "•••", "x"]);
        check_arguments(
            &["--token=canary", "-e", "DB_PASSWORD=canary"],
            &["--token=•••", "-e", "DB_PASSWORD=•••"],
        );
        check_arguments(&["--header", "X-Thing: canary"], &["--header", "•••"]);
        check_arguments(&["Authorization: Bearer canary"], &["Authorization: •••"]);
        check_arguments(&["postgresql://u:canary@h/db"], &["postgresql://•••@h/db"]);
        check_arguments(&["--url=https://h/?k=canary"], &["--url=https://h/?k=•••"]);
        check_arguments(&["ghp_canary0000000000"], &["•••"]);
        check_arguments(&["--token", "${TOKEN}"], &["--token", "${TOKEN}"]);
        check_arguments(&["--secret=${S}", "${S:-canary}"], &["--secret=${S}", "${S:-…}"]);
    }

    #[test]
    fn paths_and_ordinary_words_are_not_taken_for_tokens() {
        for word in [
            "/usr/local/share/some/very/long/path/to/a/folder",
            "mcp-server-filesystem",
            "2024-11-05",
            "monkey",
            "--keyboard",
        ] {
            assert!(!looks_like_a_token(word), "{word}");
        }
        assert!(!is_secret_word("--keyboard"));
        assert!(is_secret_word("GITHUB_PAT"));
    }

    #[test]
    fn an_excerpt_shows_keys_and_covers_values_even_of_broken_json() {
        assert_eq!(excerpt(r#"  "args": "oops","#), r#"  "args": "••••","#);
        assert_eq!(excerpt(r#"  "command": ["x"]"#), r#"  "command": ["x"]"#);
        assert_eq!(excerpt(r#"  "TOKEN": canary,"#), r#"  "TOKEN": ••••••,"#);
        assert_eq!(excerpt(r#"  "TOKEN": "canary"#), r#"  "TOKEN": "••••••"#);
        assert_eq!(excerpt(r#"  // "TOKEN": "canary""#), r#"  // "TOKEN": "••••••""#);
        assert_eq!(excerpt("\t\"canary\""), " \"••••••\"");
        assert_eq!(excerpt(r#""type": "x", "K": "canary""#), r#""type": "x", "K": "••••••""#);
    }
}
