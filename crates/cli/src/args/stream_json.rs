//! Makes the command line of a program parseable that starts `swb` with `--input-format stream-json`. Such programs are
//! written for a command line that has more options than ours: unknown ones are left out with a note, camelCase is
//! accepted, and the last value of a repeated option counts. All other command lines are parsed as they are.

use std::collections::VecDeque;
use std::ffi::OsString;

use clap::builder::ValueRange;
use clap::{Arg, Command, CommandFactory, FromArgMatches, Parser};

use crate::args::Cli;

/// A parsed command line.
#[derive(Debug)]
pub struct ParsedCommandLine {
    /// The options and the command.
    pub cli: Cli,
    /// The options that were left out, as written, without their values, and the words that belong to no option.
    pub ignored: Vec<String>,
}

/// Parses the words of a command line, the program's name first.
pub fn parse(words: Vec<OsString>) -> Result<ParsedCommandLine, clap::Error> {
    if !selects_stream_json(&words) {
        return Ok(ParsedCommandLine { cli: Cli::try_parse_from(words)?, ignored: Vec::new() });
    }
    let mut command = Cli::command().args_override_self(true);
    // Adds the options of clap itself.
    command.build();
    let (words, ignored) = known_words(words, &command);
    let matches = command.try_get_matches_from_mut(words)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok(ParsedCommandLine { cli, ignored })
}

/// Does a command line read stream-json?
fn selects_stream_json(words: &[OsString]) -> bool {
    let options = words.split(|it| it == "--").next().unwrap_or_default();
    options.iter().any(|it| it == "--input-format=stream-json")
        || options.windows(2).any(|pair| pair[0] == "--input-format" && pair[1] == "stream-json")
}

/// The words without unknown options, and those options.
fn known_words(words: Vec<OsString>, command: &Command) -> (Vec<OsString>, Vec<String>) {
    let mut rest = VecDeque::from(words);
    let mut known: Vec<OsString> = rest.pop_front().into_iter().collect();
    // A command comes first. Any other word is a value of an option that takes fewer values here.
    known.extend(rest.pop_front_if(|it| !begins_with_dash(it)));
    let mut ignored = Vec::new();
    while let Some(word) = rest.pop_front() {
        if word == "--" {
            continue;
        }
        let Some(option) = WrittenOption::parse(&word) else {
            ignored.push(word.to_string_lossy().into_owned());
            continue;
        };
        match option.find(command) {
            Some((name, arg)) => {
                let mut takes_next = !option.has_value && takes_next_word(arg, rest.front());
                known.push(option.renamed(&name, &word));
                while takes_next {
                    known.extend(rest.pop_front());
                    takes_next = takes_many(arg) && takes_next_word(arg, rest.front());
                }
            }
            None => {
                let is_value = |it: &mut OsString| !option.has_value && !begins_with_dash(it);
                rest.pop_front_if(is_value);
                ignored.push(option.name);
            }
        }
    }
    (known, ignored)
}

/// An option as written.
struct WrittenOption {
    /// With its dashes.
    name: String,
    /// Does the word contain the value?
    has_value: bool,
}

impl WrittenOption {
    /// Parses a word; `None` if it is no option.
    fn parse(word: &OsString) -> Option<WrittenOption> {
        if !begins_with_dash(word) || word == "-" {
            return None;
        }
        let text = word.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default().to_owned();
        Some(WrittenOption { has_value: text.contains('='), name })
    }

    /// The name of a long option without its dashes.
    fn long_name(&self) -> Option<&str> {
        self.name.strip_prefix("--")
    }

    /// The option of the table, with the name that the table knows.
    fn find<'c>(&self, command: &'c Command) -> Option<(String, &'c Arg)> {
        let Some(name) = self.long_name() else {
            let mut letters = self.name.chars().skip(1);
            let letter = letters.next()?;
            let arg = command.get_arguments().find(|it| it.get_short() == Some(letter));
            return arg.map(|arg| (self.name.clone(), arg));
        };
        let find = |name: &str| {
            let is_named = |arg: &&Arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long() == Some(name) || aliases.contains(&name)
            };
            command.get_arguments().find(is_named)
        };
        let kebab = kebab_case(name);
        find(name)
            .map(|arg| (self.name.clone(), arg))
            .or_else(|| find(&kebab).map(|arg| (format!("--{kebab}"), arg)))
    }

    /// The word with another name for the option.
    fn renamed(&self, name: &str, word: &OsString) -> OsString {
        match (name == self.name, word.to_str()) {
            (false, Some(text)) => text.replacen(&self.name, name, 1).into(),
            (true, _) | (false, None) => word.clone(),
        }
    }
}

/// Is the next word the value of this option?
fn takes_next_word(arg: &Arg, next: Option<&OsString>) -> bool {
    let values = arg.get_num_args().unwrap_or(match arg.get_action().takes_values() {
        true => ValueRange::SINGLE,
        false => ValueRange::EMPTY,
    });
    let Some(next) = next else { return false };
    values.takes_values()
        && !arg.is_require_equals_set()
        && (arg.is_allow_hyphen_values_set() || !begins_with_dash(next))
}

/// Does the option take as many values as follow it?
fn takes_many(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|it| it.max_values() > 1)
}

fn begins_with_dash(word: &OsString) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}

/// Writes `allowedTools` as `allowed-tools`.
fn kebab_case(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests;
