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
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
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
    let has_user = match Url::parse(text) {
        // Behind `http`, an `@` in the path is a path; behind other schemes people write passwords as they come.
        Ok(url) if matches!(url.scheme(), "http" | "https" | "ws" | "wss") => {
            !url.username().is_empty() || url.password().is_some()
        }
        Ok(_) | Err(_) => text.contains('@'),
    };
    printable(&masked_url(text, has_user))
}

/// Like [`url`], for text that still holds variables.
pub fn url_template(template: &Template) -> String {
    match template.literal() {
        Some(literal) => url(literal),
        None => {
            let text = template.shown(str::to_owned);
            let has_user = text.contains('@');
            printable(&masked_url(&text, has_user))
        }
    }
}

/// Cuts at the marks that a URL's parts begin with, since what people write does not always parse.
fn masked_url(text: &str, has_user: bool) -> String {
    let (scheme, rest) = match text.find("://") {
        Some(at) => text.split_at(at + 3),
        None => ("", text),
    };
    let mut shown = scheme.to_owned();
    let rest = match rest.rsplit_once('@') {
        Some((_, rest)) if has_user => {
            shown.push_str(MASK);
            shown.push('@');
            rest
        }
        Some(_) | None => rest,
    };
    let (rest, fragment) = split_off(rest, '#');
    let (rest, query) = split_off(rest, '?');
    shown.push_str(&safe_path(rest));
    if let Some(query) = query {
        shown.push('?');
        shown.push_str(&safe_query(query));
    }
    if fragment.is_some() {
        shown.push_str(&format!("#{MASK}"));
    }
    shown
}

fn split_off(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(front, back)| (front, Some(back)))
}

/// Path segments that look like keys are masked: some services put a token there.
fn safe_path(path: &str) -> String {
    let segment = |segment: &str| {
        let (front, parameters) = split_off(segment, ';');
        let shown = if looks_like_a_token(front) { MASK } else { front };
        match parameters {
            Some(_) => format!("{shown};{MASK}"),
            None => shown.to_owned(),
        }
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
    let mut covers = Covers::Nothing;
    for argument in arguments {
        let text = argument.shown(str::to_owned);
        let is_flag = text.starts_with('-') && text.len() > 1;
        shown.push(match covers {
            Covers::Next | Covers::TwoNext if !is_flag => secret(argument),
            Covers::Value if !is_flag => printable(&covered_value(&text)),
            Covers::Nothing | Covers::Next | Covers::TwoNext | Covers::Value => {
                printable(&one_argument(&text))
            }
        });
        covers = match covers {
            Covers::TwoNext if !is_flag => Covers::Next,
            Covers::Nothing | Covers::Next | Covers::TwoNext | Covers::Value => covers_after(&text),
        };
    }
    shown
}

/// What an argument says of those behind it.
#[derive(Clone, Copy)]
enum Covers {
    Nothing,
    /// The next one is a secret.
    Next,
    /// A header's name was split off: a scheme and a credential follow.
    TwoNext,
    /// The next one is `KEY=VALUE` or `user:password`.
    Value,
}

fn covers_after(text: &str) -> Covers {
    let flag = text.trim_start_matches('-');
    if text.ends_with(':') && is_secret_word(text) {
        return Covers::TwoNext;
    }
    if !text.starts_with('-') || text.contains(['=', ':']) {
        return Covers::Nothing;
    }
    match flag {
        "e" | "env" | "u" | "user" => Covers::Value,
        _ if is_secret_word(flag) || is_header_flag(flag) => Covers::Next,
        _ => Covers::Nothing,
    }
}

/// `KEY=VALUE` and `user:password` without what is behind the mark.
fn covered_value(text: &str) -> String {
    match text.find(['=', ':']) {
        Some(at) if is_reference(&text[at + 1..]) => text.to_owned(),
        Some(at) => format!("{}{MASK}", &text[..=at]),
        None => text.to_owned(),
    }
}

fn one_argument(text: &str) -> String {
    let is_json = text.trim_start().starts_with(['{', '[']) && text.contains('"');
    if is_json && is_secret_word(text) {
        return MASK.to_owned();
    }
    let front = text.split(['=', ':']).next().unwrap_or("");
    let flag = front.trim_start_matches('-');
    if front.len() < text.len()
        && !text.contains("://")
        && (is_secret_word(flag) || (front.starts_with('-') && is_header_flag(flag)))
    {
        return covered_value(text);
    }
    if text.contains("://") {
        return masked_urls(text);
    }
    if text.contains(';') && text.contains('=') {
        return text.split(';').map(assignment).collect::<Vec<_>>().join(";");
    }
    if text.contains(' ') {
        return text.split(' ').map(one_argument).collect::<Vec<_>>().join(" ");
    }
    if looks_like_a_token(text) { MASK.to_owned() } else { assignment(text) }
}

fn assignment(text: &str) -> String {
    match text.split_once('=') {
        Some((key, value)) if is_secret_word(key) || looks_like_a_token(value) => {
            covered_value(text)
        }
        Some(_) | None => text.to_owned(),
    }
}

/// Every URL in a text masked, wherever it begins and ends.
fn masked_urls(text: &str) -> String {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '|');
    let mut shown = String::new();
    let mut rest = text;
    while let Some(mark) = rest.find("://") {
        let start = rest[..mark]
            .rfind(|c: char| !is_scheme(c))
            .map_or(0, |at| at + rest[at..].chars().next().map_or(1, char::len_utf8));
        let end = rest[mark..].find(ends).map_or(rest.len(), |at| mark + at);
        let (front, found) = (&rest[..start], &rest[start..end]);
        let key = front.trim_end_matches(['=', ':']);
        shown.push_str(front);
        shown.push_str(&if is_secret_word(key) && key.len() < front.len() {
            MASK.to_owned()
        } else {
            url(found)
        });
        rest = &rest[end..];
    }
    shown.push_str(rest);
    shown
}

fn is_header_flag(flag: &str) -> bool {
    matches!(flag, "H" | "header" | "headers")
}

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

/// Does a flag's, variable's or header's name announce a secret?
pub fn is_secret_word(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    SECRET_WORDS.iter().any(|word| plain.contains(word))
        || words(name).iter().any(|word| {
            matches!(word.as_str(), "key" | "pat" | "pwd" | "pass" | "pw" | "auth" | "jwt" | "sig")
        })
}

/// The words of a name, split at marks and where a capital begins.
fn words(name: &str) -> Vec<String> {
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

/// Does a bare word have the shape of a token: a known prefix, or long and random?
pub fn looks_like_a_token(word: &str) -> bool {
    let known = TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix)) && word.len() >= 12;
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'=' | b'.' | b'%' | b'+')
    };
    let long = word.len() >= 32 && word.bytes().all(plain) && {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
        digits >= 4 && letters >= 4
    };
    known || long
}

/// A command in one string, with what looks like a secret masked word by word.
pub fn command(text: &str) -> String {
    let words: Vec<Template> = text.split_whitespace().map(Template::parse).collect();
    arguments(&words).join(" ")
}

/// How much of a line is shown around the place that is meant.
const WINDOW: usize = 48;

/// The part of a line around a column (from 0) for an error message, and the column in that part.
/// Only `known` keys and punctuation are shown; everything else is covered character by character, so
/// that columns still fit. Looks at characters alone, since a file that does not parse cannot say which
/// of its words are secret.
pub fn excerpt(line: &str, column: usize, known: impl Fn(&str) -> bool) -> (String, usize) {
    let start = column.saturating_sub(WINDOW);
    let part: String = line.chars().skip(start).take(2 * WINDOW).collect();
    let more = line.chars().nth(start + 2 * WINDOW).is_some();
    let mut shown = String::new();
    let mut rest = part.as_str();
    while let Some(c) = rest.chars().next() {
        let token = match c {
            '"' => string_token(rest),
            c if is_punctuation(c) => &rest[..c.len_utf8()],
            _ => bare_token(rest),
        };
        rest = &rest[token.len()..];
        let key = token.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let is_known = key.is_some_and(&known) && rest.trim_start().starts_with(':');
        if is_known || is_punctuation(c) {
            shown.push_str(token);
        } else {
            shown.push_str(&covered(token));
        }
    }
    let (before, after) = (if start > 0 { "…" } else { "" }, if more { "…" } else { "" });
    let shown = format!("{before}{}{after}", shown.replace(char::is_whitespace, " "));
    (printable(&shown), column - start + before.chars().count())
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
            "https://•••@h.example/x?key=•••&•••#•••",
        );
        check_url("https://${HOST}/x?key=${KEY}&t=canary", "https://${HOST}/x?key=${KEY}&t=•••");
        check_url("https://h.example/s/sk-canary1234567/mcp", "https://h.example/s/•••/mcp");
        check_url("https://h.example/x;token=canary/y", "https://h.example/x;•••/y");
        check_url("https:/u:canary@${X}/", "•••@${X}/");
        check_url("https://h.example/@scope/package", "https://h.example/@scope/package");
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
        let kept = [
            "-y",
            "@scope/server@1.2.3",
            "--port",
            "8080",
            "--keyboard",
            "us",
            "a=b",
            "-v",
            "/x:/y",
        ];
        check_arguments(&kept, &kept);
        check_arguments(&["--api-key", "canary", "x"], &["--api-key", "•••", "x"]);
        check_arguments(&["--token=canary", "-e", "FOO=canary"], &["--token=•••", "-e", "FOO=•••"]);
        check_arguments(&["--privateKey", "canary"], &["--privateKey", "•••"]);
        check_arguments(&["--accessKeyId=canary"], &["--accessKeyId=•••"]);
        check_arguments(&["--header", "X-Thing: canary"], &["--header", "•••"]);
        check_arguments(&["--header=X-Thing: canary"], &["--header=•••"]);
        check_arguments(&["Authorization: Bearer canary"], &["Authorization:•••"]);
        check_arguments(
            &["--header", "Authorization:", "Bearer", "canary", "x"],
            &["--header", "•••", "•••", "•••", "x"],
        );
        check_arguments(&["-u", "user:canary"], &["-u", "user:•••"]);
        check_arguments(&["{\"a\":1,\"token\":\"canary\"}"], &["•••"]);
        check_arguments(&["Server=h;Password=canary"], &["Server=h;Password=•••"]);
        check_arguments(&["DB_PASSWORD=canary"], &["DB_PASSWORD=•••"]);
        check_arguments(&["ghp_canary0000000000"], &["•••"]);
        check_arguments(&["sk_live_canary00000"], &["•••"]);
        check_arguments(&["--token", "${TOKEN}"], &["--token", "${TOKEN}"]);
        check_arguments(&["--secret=${S}", "${S:-canary}"], &["--secret=${S}", "${S:-…}"]);
    }

    #[test]
    fn urls_in_arguments_are_found_wherever_they_begin_and_end() {
        check_arguments(
            &["postgresql://u:canary@db.amazonaws.com:5432/db"],
            &["postgresql://•••@db.amazonaws.com:5432/db"],
        );
        check_arguments(&["redis://:canary@news:6379"], &["redis://•••@news:6379"]);
        check_arguments(&["mysql://u:canary@http-proxy/db"], &["mysql://•••@http-proxy/db"]);
        check_arguments(&["postgresql://u:p/canary@h/db"], &["postgresql://•••@h/db"]);
        check_arguments(&["postgresql://u:1/canary@h/db"], &["postgresql://•••@h/db"]);
        check_arguments(&["postgresql://u:canary#x@h/db"], &["postgresql://•••@h/db"]);
        check_arguments(&["--url=https://h/?k=canary"], &["--url=https://h/?k=•••"]);
        check_arguments(
            &["a https://x:canary@h/ b redis://:canary@i/ c"],
            &["a https://•••@h/ b redis://•••@i/ c"],
        );
        check_arguments(&["https://h/?u=https://x:canary@i/"], &["https://h/?u=•••"]);
    }

    #[test]
    fn a_command_in_one_string_is_masked_word_by_word() {
        assert_eq!(command("npx  --token canary x"), "npx --token ••• x");
        assert_eq!(command("TOKEN=canary npx"), "TOKEN=••• npx");
        assert_eq!(command("curl -u a:canary https://h/"), "curl -u a:••• https://h/");
    }

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
            assert!(!looks_like_a_token(word), "{word}");
        }
        for word in ["--keyboard", "passenger", "author", "monkey", "tokenless-not"] {
            let telling = word.starts_with("token");
            assert_eq!(is_secret_word(word), telling, "{word}");
        }
        assert!(is_secret_word("GITHUB_PAT") && is_secret_word("AccountKey"));
    }

    fn check_excerpt(line: &str, expected: &str) {
        let known = |key: &str| matches!(key, "args" | "command" | "env" | "type");
        assert_eq!(excerpt(line, 0, known).0, expected);
    }

    #[test]
    fn an_excerpt_shows_known_keys_and_covers_everything_else_even_of_broken_json() {
        check_excerpt(r#"  "args": "oops","#, r#"  "args": "••••","#);
        check_excerpt(r#"  "command": ["x"]"#, r#"  "command": ["•"]"#);
        check_excerpt(r#"  "TOKEN": canary,"#, r#"  "•••••": ••••••,"#);
        check_excerpt(r#"  "TOKEN": "canary"#, r#"  "•••••": "••••••"#);
        check_excerpt(r#"  // "TOKEN": "canary""#, r#"  // "•••••": "••••••""#);
        check_excerpt("\t\"canary\"", " \"••••••\"");
        check_excerpt(
            r#"{"command": npx", "env": {"T": "canary"}}"#,
            r#"{"command": •••"••"•••"•••"•"••"••••••"••"#,
        );
        check_excerpt(
            r#""cwd": "C:\tmp\", "env": {"T": "canary"}"#,
            r#""•••": "•••••••"••"•••"•••"•"••"••••••"•"#,
        );
    }

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let line = format!("{}\"args\": 5{}", " ".repeat(500), " ".repeat(500));
        let (shown, column) = excerpt(&line, 508, |key| key == "args");
        assert!(
            shown.chars().count() <= 2 * WINDOW + 2 && shown.contains("\"args\": •"),
            "{shown}"
        );
        assert_eq!(shown.chars().nth(column), Some('•'));
    }
}
