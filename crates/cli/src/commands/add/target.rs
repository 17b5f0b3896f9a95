//! Checks the target of `swb add` before anything is written: options that `swb` does not have, and addresses that
//! are not URLs, are errors and do not become the command.

use std::path::Path;

use clap::CommandFactory;
use switchboard::config::file::entry_decoder::nearest;

use super::TrailingOptions;
use super::options::AddTransport;
use crate::exit::Exit;
use crate::outcome::Failure;

const SCHEMES: [&str; 4] = ["http", "https", "ws", "wss"];

/// Fails if the command is an option.
pub fn expect_no_option(target: &[String]) -> Result<(), Failure> {
    match target.first() {
        Some(word) if word.starts_with('-') => Err(unknown_option(word)),
        Some(_) | None => Ok(()),
    }
}

/// The failure for an option that `swb add` does not have.
pub fn unknown_option(word: &str) -> Failure {
    // The value may be a secret.
    let name = word.split('=').next().unwrap_or(word);
    let failure = Failure::new(Exit::Usage, &format!("`swb add` has no option `{name}`"));
    let command = TrailingOptions::command();
    let options: Vec<String> = command
        .get_arguments()
        .flat_map(|it| it.get_long_and_visible_aliases().unwrap_or_default())
        .map(|long| format!("--{long}"))
        .collect();
    match nearest(name, options.iter().map(String::as_str)) {
        Some(option) if name.starts_with("--") => {
            failure.hint(&format!("did you mean `{option}`?"))
        }
        Some(_) | None => failure.hint(
            "`swb add --help` lists the options; those of the command follow it: swb add NAME -- COMMAND ARGS…",
        ),
    }
}

/// Fails if a command looks like a URL. `--transport stdio` skips this check.
pub fn expect_command(name: &str, target: &[String], folder: &Path) -> Result<(), Failure> {
    let Some(word) = target.first() else { return Ok(()) };
    match (fixed_url(word), folder.join(word).exists()) {
        (Some(url), false) => Err(Failure::new(
            Exit::Usage,
            &format!("`{}` is neither a command nor a URL", shown(word)),
        )
        .hint(&format!(
            "type `swb add {name} {}`, or add `--transport stdio` if it is a command",
            shown(&url)
        ))),
        (Some(_), true) | (None, _) => Ok(()),
    }
}

/// Fails if the URL of a remote server is a command, or has no usable scheme.
pub fn expect_url(transport: AddTransport, word: &str) -> Result<(), Failure> {
    if word.contains('$') || has_known_scheme(word) {
        return Ok(());
    }
    let id = transport.id();
    let article = match transport {
        AddTransport::Http | AddTransport::Sse => "an",
        AddTransport::Stdio | AddTransport::Ws => "a",
    };
    let message = format!("{article} {id} server needs a URL, and `{}` is not one", shown(word));
    let failure = Failure::new(Exit::Usage, &message);
    Err(match fixed_url(word) {
        Some(url) => failure.hint(&format!("type `{}`", shown(&url))),
        None => failure.hint(&format!("to start it as a command, leave out `--transport {id}`")),
    })
}

fn has_known_scheme(word: &str) -> bool {
    word.split_once("://")
        .is_some_and(|(scheme, _)| SCHEMES.iter().any(|it| it.eq_ignore_ascii_case(scheme)))
}

/// The URL that the user probably means; `None` if the word does not look like a URL.
fn fixed_url(word: &str) -> Option<String> {
    if word.contains('$') || word.contains(char::is_whitespace) || has_known_scheme(word) {
        return None;
    }
    if let Some((scheme, rest)) = word.split_once("://") {
        return Some(match nearest(scheme, ["ws", "wss"].into_iter()) {
            Some(near) if scheme.starts_with(['w', 'W']) => format!("{near}://{rest}"),
            Some(_) | None => with_scheme(rest),
        });
    }
    if let Some((scheme, rest)) = word.split_once(':')
        && SCHEMES.contains(&scheme)
    {
        return Some(format!("{scheme}://{}", rest.trim_start_matches('/')));
    }
    is_address(word).then(|| with_scheme(word))
}

/// Programs on this machine are usually served without TLS.
fn with_scheme(rest: &str) -> String {
    let host = rest.split(['/', ':', '?']).next().unwrap_or_default();
    match host {
        "localhost" | "127.0.0.1" => format!("http://{rest}"),
        _ => format!("https://{rest}"),
    }
}

/// Does the word begin with a host name, and have a port, a path, or at least three labels?
fn is_address(word: &str) -> bool {
    let (authority, has_path) = match word.split_once('/') {
        Some((authority, _)) => (authority, true),
        None => (word, false),
    };
    let (host, has_port) = match authority.split_once(':') {
        Some((host, port)) => {
            (host, !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit()))
        }
        None => (authority, false),
    };
    let labels: Vec<&str> = host.split('.').collect();
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
    };
    if !labels.iter().all(|it| is_label(it)) || (authority.contains(':') && !has_port) {
        return false;
    }
    let has_domain = labels.len() > 1
        && labels
            .last()
            .is_some_and(|it| it.len() > 1 && it.bytes().all(|b| b.is_ascii_alphabetic()));
    has_port || (has_domain && (has_path || labels.len() > 2))
}

/// A URL for messages: its query and its user may hold secrets.
fn shown(url: &str) -> String {
    let (address, query) = match url.split_once('?') {
        Some((address, _)) => (address, "?…"),
        None => (url, ""),
    };
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), address),
    };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let rest = match rest[..authority_end].rfind('@') {
        Some(at) => &rest[at + 1..],
        None => rest,
    };
    format!("{scheme}{rest}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_looks_like_a_url_gets_the_url_to_type() {
        for (word, url) in [
            ("htp://h.example/mcp", Some("https://h.example/mcp")),
            ("wsss://h.example/mcp", Some("wss://h.example/mcp")),
            ("https:/h.example/mcp", Some("https://h.example/mcp")),
            ("mcp.example/mcp", Some("https://mcp.example/mcp")),
            ("mcp.example.com", Some("https://mcp.example.com")),
            ("localhost:3000/mcp", Some("http://localhost:3000/mcp")),
            ("https://h.example/mcp", None),
            ("npx", None),
            ("server.py", None),
            ("./my.server/run", None),
            ("/usr/bin/x", None),
            ("node_modules/.bin/x", None),
            ("${HOST}/mcp", None),
            ("C:/x.exe", None),
        ] {
            assert_eq!(fixed_url(word).as_deref(), url, "{word}");
        }
    }
}
