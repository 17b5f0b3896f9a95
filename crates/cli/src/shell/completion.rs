//! Answers the completion scripts: finds the candidates and prints them as the shell expects.

use std::path::PathBuf;

use clap::Command;

use crate::env::ProcessEnv;
use crate::invocation::Invocation;
use crate::invocation::options::GlobalOptions;
use crate::output::report;
use crate::runtime::sharing::current_build;
use crate::shell::candidates;
use crate::shell::candidates::Candidate;

/// The argument that requests completion.
const COMPLETE_ARGUMENT: &str = "__complete";

/// Prints candidates if a completion script started this process. Errors complete nothing.
pub fn complete_if_requested(managed: PathBuf, cli: fn() -> Command) -> bool {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
    let [first, format, rest @ ..] = &words[..] else { return false };
    if first != COMPLETE_ARGUMENT {
        return false;
    }
    let build = current_build(None);
    let Ok(env) = ProcessEnv::from_process(managed, build) else { return true };
    let invocation = Invocation::new(env, GlobalOptions::default());
    let mut root = cli();
    root.build();
    let text = match (format.as_str(), rest) {
        ("bash", [line, breaks]) => {
            bash_lines(line, breaks, |words| candidates::complete(&invocation, &root, words))
        }
        ("words", [_, words @ ..]) => {
            tab_separated(&candidates::complete(&invocation, &root, words))
        }
        (_, _) => String::new(),
    };
    let _reader_left = report::print_stdout(&text);
    true
}

/// One candidate per line: value, tab, description.
fn tab_separated(found: &[Candidate]) -> String {
    found.iter().map(|it| format!("{}\t{}\n", it.value, it.description)).collect()
}

/// One escaped candidate per line, without the part that bash treats as earlier words.
fn bash_lines(line: &str, breaks: &str, find: impl FnOnce(&[String]) -> Vec<Candidate>) -> String {
    let mut typed = split_words(line);
    // Skips assignments before the command.
    while typed.words.first().is_some_and(|word| is_assignment(word)) && typed.words.len() > 1 {
        typed.words.remove(0);
    }
    let words = typed.words.get(1..).unwrap_or_default();
    let current = words.last().map(String::as_str).unwrap_or_default();
    let is_break = |c: char| breaks.contains(c) && matches!(c, ':' | '=' | '@');
    let skipped = match typed.is_quoted {
        true => 0,
        false => current.rfind(is_break).map_or(0, |at| at + 1),
    };
    find(words)
        .iter()
        .filter_map(|it| it.value.get(skipped..))
        .map(|value| match typed.is_quoted {
            true => format!("{value}\n"),
            false => format!("{}\n", bash_escaped(value)),
        })
        .collect()
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Escapes a value for bash.
fn bash_escaped(value: &str) -> String {
    let is_plain = |c: char| {
        c.is_alphanumeric()
            || matches!(c, '_' | '-' | '.' | '/' | ':' | '=' | '@' | '%' | '+' | ',')
    };
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        if !is_plain(c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// The words up to the cursor. The last one is being typed and may be empty.
struct TypedLine {
    words: Vec<String>,
    /// Is the last word quoted?
    is_quoted: bool,
}

fn split_words(line: &str) -> TypedLine {
    let mut words = vec![String::new()];
    let mut quote: Option<char> = None;
    let mut has_begun = false;
    let mut letters = line.chars();
    while let Some(c) = letters.next() {
        let last = words.last_mut().expect("there is always one");
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => last.push(c),
            (_, '\\') => last.extend(letters.next()),
            (Some(_), c) => last.push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                has_begun = true;
            }
            (None, c) if c.is_whitespace() => {
                if has_begun || !last.is_empty() {
                    words.push(String::new());
                }
                has_begun = false;
            }
            (None, c) => last.push(c),
        }
    }
    TypedLine { words, is_quoted: quote.is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, words: &[&str], values: &[&str], expected: &str) {
        let found = |given: &[String]| {
            assert_eq!(given, words, "{line}");
            values
                .iter()
                .map(|it| Candidate { value: (*it).to_owned(), description: String::new() })
                .collect()
        };
        assert_eq!(bash_lines(line, " \t\n\"'><=;|&(:", found), expected, "{line}");
    }

    #[test]
    fn a_line_is_taken_apart_as_bash_would() {
        check("swb ", &[""], &["call"], "call\n");
        check("swb call a", &["call", "a"], &[], "");
        check("A=1 swb  get\ta\\ b", &["get", "a b"], &["a bc"], "a\\ bc\n");
        check("swb get 'a ", &["get", "a "], &["a bc"], "a bc\n");
        check("swb get \"\" x", &["get", "", "x"], &[], "");
    }

    #[test]
    fn what_bash_takes_for_earlier_words_is_not_repeated() {
        check(
            "swb read s scripted://re",
            &["read", "s", "scripted://re"],
            &["scripted://resource/0"],
            "//resource/0\n",
        );
        check("swb call t --mode=p", &["call", "t", "--mode=p"], &["--mode=plan"], "plan\n");
        check(
            "swb permissions remove mcp__a",
            &["permissions", "remove", "mcp__a"],
            &["mcp__a(b=c)"],
            "mcp__a\\(b=c\\)\n",
        );
    }
}
