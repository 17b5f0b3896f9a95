//! `swb serve --config FILE`: a file in JSON with comments whose keys are the options of `swb serve`. Its values are added
//! to the command line before that is parsed, so that a value means the same in both places. Options that are given on
//! the command line take precedence.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, ValueHint};
use switchboard::config::display::printable;
use switchboard::config::document::{self, Document, Member, Value};
use switchboard::config::problem::ProblemKind;
use switchboard::config::schema;

use crate::args::Cli;
use crate::exit::Exit;
use crate::outcome::Failure;

/// The largest file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The command that has a file.
const COMMAND: &str = "serve";
/// The option that names the file.
const OPTION: &str = "config";
/// Options that select what this run does.
const NOT_IN_FILES: [&str; 2] = [OPTION, "check"];

/// The words of a command line, with the values of the file that it names.
pub fn expand(words: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let names_file = |it: &OsString| it.to_string_lossy().starts_with("--config");
    if !words.iter().any(|it| it == COMMAND) || !words.iter().any(names_file) {
        return Ok(words);
    }
    // Errors are reported by the parser of the whole command line.
    let lenient = Cli::command().ignore_errors(true).try_get_matches_from(&words);
    let Some(given) = lenient.as_ref().ok().and_then(serve_matches) else { return Ok(words) };
    let Some(path) = given.try_get_one::<PathBuf>(OPTION).ok().flatten() else { return Ok(words) };
    let text = read(path)?;
    let command = serve_command();
    let mut problems = Vec::new();
    let values = parse(path, &text, &command, &mut problems)?;
    let is_given =
        |arg: &Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let given_args: Vec<&Arg> = command.get_arguments().filter(|it| is_given(it)).collect();
    let mut values: Vec<FileValue> = values
        .into_iter()
        .filter(|value| !given_args.iter().any(|it| replaces(&command, it, &value.id)))
        .collect();
    loop {
        let all = with_values(&words, &values, None);
        let Err(error) = Cli::command().try_get_matches_from(&all) else { break };
        let Some((index, message)) = blame(&error, &words, &values) else { break };
        let value = values.remove(index);
        problems.push(FileProblem { at: value.at, key: value.key, message });
    }
    match problems.is_empty() {
        true => Ok(with_values(&words, &values, None)),
        false => Err(failure(path, problems)),
    }
}

/// The keys of the file, with the options that they stand for: for the reference page.
pub fn keys() -> Vec<FileKey> {
    let command = serve_command();
    let keys = command.get_arguments().filter_map(|arg| {
        let key = key_of(arg)?;
        let value = match (arg.get_action(), arg.get_value_hint()) {
            (ArgAction::SetTrue, _) => "boolean",
            (_, ValueHint::AnyPath) if is_list(arg) => "array of paths",
            (_, ValueHint::AnyPath) => "path",
            (_, _) if is_list(arg) => "array of strings",
            (_, _) => "string or number",
        };
        let option = format!("--{}", arg.get_long()?);
        let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
        Some(FileKey { key, value, option, about })
    });
    keys.collect()
}

/// One key of the file.
#[derive(Debug)]
pub struct FileKey {
    /// Its name.
    pub key: String,
    /// The type of its value.
    pub value: &'static str,
    /// The option with the same meaning.
    pub option: String,
    /// The description of the option.
    pub about: String,
}

/// A value of the file as words of a command line.
#[derive(Debug, Clone)]
struct FileValue {
    key: String,
    /// The id of its option.
    id: String,
    /// The option with its dashes.
    option: String,
    words: Vec<OsString>,
    at: (usize, usize),
}

/// An error in the file.
#[derive(Debug)]
struct FileProblem {
    /// The line and the column.
    at: (usize, usize),
    key: String,
    message: String,
}

/// The parsed options of `swb serve` or `swb mcp serve`.
fn serve_matches(matches: &ArgMatches) -> Option<&ArgMatches> {
    match matches.subcommand()? {
        (COMMAND, inner) => Some(inner),
        (_, inner) => inner.subcommand_matches(COMMAND),
    }
}

fn serve_command() -> Command {
    let mut all = Cli::command();
    all.build();
    all.find_subcommand(COMMAND).expect("the table has this command").clone()
}

fn key_of(arg: &Arg) -> Option<String> {
    let name = arg.get_long().filter(|it| !NOT_IN_FILES.contains(it) && !arg.is_global_set())?;
    if matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong) {
        return None;
    }
    let mut parts = name.split('-');
    let mut key = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        key.extend(letters.next().map(|it| it.to_ascii_uppercase()));
        key.push_str(letters.as_str());
    }
    Some(key)
}

fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Does an option on the command line take the place of a value of the file?
fn replaces(command: &Command, given: &Arg, id: &str) -> bool {
    let conflicts = |one: &Arg, other: &str| {
        command.get_arg_conflicts_with(one).iter().any(|it| it.get_id().as_str() == other)
    };
    let of_file = command.get_arguments().find(|it| it.get_id().as_str() == id);
    given.get_id().as_str() == id
        || conflicts(given, id)
        || of_file.is_some_and(|it| conflicts(it, given.get_id().as_str()))
}

fn read(path: &Path) -> Result<String, Failure> {
    let refuse = |message: &str| {
        let text = format!("--config: `{}` {message}", path.display());
        Failure::new(Exit::Configuration, &text)
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|it| it.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| refuse("cannot be read").caused_by(error))?;
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(refuse("is larger than 1 MB")),
        false => Ok(text),
    }
}

fn parse(
    path: &Path,
    text: &str,
    command: &Command,
    problems: &mut Vec<FileProblem>,
) -> Result<Vec<FileValue>, Failure> {
    let text = document::strip_bom(text);
    let syntax = |at: (usize, usize), message: String| {
        failure(path, vec![FileProblem { at, key: String::new(), message }])
    };
    let lines = document::LineIndex::new(text);
    let position = |byte: usize| {
        let at = lines.position(byte);
        (at.line, at.column)
    };
    let document = Document::parse(text).map_err(|error| {
        let at = position(error.span().start);
        syntax(at, ProblemKind::Syntax(error).to_string())
    })?;
    let Some(root) = &document.root else { return Ok(Vec::new()) };
    let Value::Object(members) = &root.value else {
        return Err(syntax(position(root.span.start), "expected an object".to_owned()));
    };
    let args: Vec<(String, &Arg)> =
        command.get_arguments().filter_map(|it| Some((key_of(it)?, it))).collect();
    // Relative paths start at the folder of the file.
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut values: Vec<FileValue> = Vec::new();
    for member in members {
        let key = member.key.clone();
        let known = args.iter().find(|it| it.0 == key).map(|it| it.1);
        let value = match known {
            None => {
                let nearest = schema::nearest(&key, args.iter().map(|it| it.0.as_str()));
                let hint = nearest.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
                Err((member.key_span.start, format!("unknown key{hint}")))
            }
            Some(_) if values.iter().any(|it| it.key == key) => {
                Err((member.key_span.start, "the key is there twice".to_owned()))
            }
            Some(arg) => words_of(arg, member, folder)
                .map(|words| (arg, words))
                .map_err(|expected| (member.node.span.start, format!("expected {expected}"))),
        };
        match value {
            Ok((arg, words)) => values.push(FileValue {
                key,
                id: arg.get_id().to_string(),
                option: option_of(arg),
                words,
                at: position(member.node.span.start),
            }),
            Err((byte, message)) => {
                problems.push(FileProblem { at: position(byte), key, message });
            }
        }
    }
    Ok(values)
}

fn option_of(arg: &Arg) -> String {
    format!("--{}", arg.get_long().unwrap_or_default())
}

/// A value as words of a command line, or what was expected instead.
fn words_of(arg: &Arg, member: &Member, folder: &Path) -> Result<Vec<OsString>, &'static str> {
    let option = option_of(arg);
    if let ArgAction::SetTrue = arg.get_action() {
        return match member.node.value {
            Value::Bool(true) => Ok(vec![option.into()]),
            Value::Bool(false) | Value::Null => Ok(Vec::new()),
            Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                Err("`true` or `false`")
            }
        };
    }
    let is_path = arg.get_value_hint() == ValueHint::AnyPath;
    let word = |value: &Value| {
        let text = match value {
            Value::String(text) | Value::Number(text) => text,
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        let text = if is_path { folder.join(text).into_os_string() } else { text.into() };
        let mut word = OsString::from(format!("{option}="));
        word.push::<&OsStr>(&text);
        Some(word)
    };
    match &member.node.value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) if is_list(arg) => {
            let words: Option<Vec<OsString>> = items.iter().map(|it| word(&it.value)).collect();
            words.ok_or("an array of strings")
        }
        Value::String(_) | Value::Number(_) => {
            word(&member.node.value).map(|it| vec![it]).ok_or("")
        }
        Value::Bool(_) | Value::Array(_) | Value::Object(_) if is_list(arg) => {
            Err("an array of strings")
        }
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err("a string or a number"),
    }
}

fn with_values(words: &[OsString], values: &[FileValue], without: Option<usize>) -> Vec<OsString> {
    let kept = values.iter().enumerate().filter(|(index, _)| Some(*index) != without);
    words.iter().cloned().chain(kept.flat_map(|(_, it)| it.words.clone())).collect()
}

/// The value of the file that makes a command line invalid, and what is wrong with it.
fn blame(error: &clap::Error, words: &[OsString], values: &[FileValue]) -> Option<(usize, String)> {
    let option = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.split([' ', '=']).next().map(str::to_owned),
        Some(ContextValue::Strings(texts)) => {
            texts.first()?.split([' ', '=']).next().map(str::to_owned)
        }
        Some(_) | None => None,
    };
    let find = |name: &str| values.iter().position(|it| it.option == name);
    let key = |name: String| match find(&name) {
        Some(index) => format!("`{}`", values[index].key),
        None => format!("`{name}`"),
    };
    let (invalid, prior) = (option(ContextKind::InvalidArg), option(ContextKind::PriorArg));
    if error.kind() == ErrorKind::MissingRequiredArgument {
        // The value without which nothing is missing, or something else is.
        let still_missing = |without: usize| {
            let rest = with_values(words, values, Some(without));
            let other = Cli::command().try_get_matches_from(rest).err();
            other.is_some_and(|it| it.to_string() == error.to_string())
        };
        let index = (0..values.len()).find(|it| !still_missing(*it))?;
        return Some((index, format!("needs {}", key(invalid?))));
    }
    if error.kind() == ErrorKind::ArgumentConflict {
        let (one, other) = (invalid?, prior?);
        let (index, other) = match (find(&one), find(&other)) {
            (Some(index), _) => (index, other),
            (None, Some(index)) => (index, one),
            (None, None) => return None,
        };
        return Some((index, format!("cannot be combined with {}", key(other))));
    }
    let name = invalid?;
    let index = find(&name)?;
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let message = match line.split_once(&format!(" for '{name}")) {
        Some((what, rest)) => {
            let reason = rest.split_once("': ").map_or("", |it| it.1);
            let separator = if reason.is_empty() { "" } else { ": " };
            format!("{what}{separator}{reason}")
        }
        None => line.to_owned(),
    };
    Some((index, message))
}

fn failure(path: &Path, mut problems: Vec<FileProblem>) -> Failure {
    problems.sort_by_key(|it| it.at);
    let file = path.display();
    let message = match problems.len() {
        1 => format!("`{file}` has an error"),
        count => format!("`{file}` has {count} errors"),
    };
    let line = |it: &FileProblem| {
        let key = if it.key.is_empty() { String::new() } else { format!("`{}`: ", it.key) };
        let line = format!("{file}:{}:{}: {key}{}", it.at.0, it.at.1, it.message);
        format!("  {}\n", printable(&line))
    };
    let detail = problems.iter().map(line).collect();
    Failure::new(Exit::Configuration, &message)
        .detail(detail)
        .hint("the keys are those of `docs/reference/configuration-keys.md`, and the options of `swb serve --help`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str, arguments: &[&str]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("gw.jsonc");
        std::fs::write(&path, text).expect("it can be written");
        let path = path.to_str().expect("UTF-8");
        let start = ["swb", "serve", "--config", path];
        let words = start.iter().chain(arguments).map(OsString::from).collect();
        let root = folder.path().to_str().expect("UTF-8");
        let shown = |it: String| it.replace(root, "DIR");
        match expand(words) {
            Ok(words) => {
                let words =
                    words.into_iter().skip(4).map(|it| shown(it.into_string().expect("UTF-8")));
                Ok(words.collect())
            }
            Err(failure) => Err(shown(failure.detail)),
        }
    }

    #[track_caller]
    fn check(text: &str, arguments: &[&str], expected: &[&str]) {
        let expected = expected.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(expanded(text, arguments), Ok(expected));
    }

    #[track_caller]
    fn check_errors(text: &str, arguments: &[&str], expected: &[&str]) {
        let lines: String = expected.iter().map(|it| format!("  DIR/gw.jsonc:{it}\n")).collect();
        assert_eq!(expanded(text, arguments), Err(lines));
    }

    #[test]
    fn every_kind_of_value_becomes_an_option() {
        let text = r#"{
            // Comments and trailing commas are allowed.
            "pool": true,
            "metricsOpen": false,
            "http": "127.0.0.1:0",
            "tokenFile": "tokens",
            "approvalTimeout": 5,
            "expose": ["github", "git__status"],
            "root": null,
        }"#;
        let expected = [
            "--pool",
            "--http=127.0.0.1:0",
            "--token-file=DIR/tokens",
            "--approval-timeout=5",
            "--expose=github",
            "--expose=git__status",
        ];
        check(text, &[], &expected);
    }

    #[test]
    fn options_of_the_command_line_replace_values_and_what_excludes_them() {
        let text =
            r#"{"pool": true, "http": "127.0.0.1:0", "tokenFile": "t", "expose": ["a", "b"]}"#;
        check(
            text,
            &["--expose", "c", "--no-auth"],
            &["--expose", "c", "--no-auth", "--pool", "--http=127.0.0.1:0"],
        );
    }

    #[test]
    fn every_error_is_reported_with_its_position() {
        let text = "{\n  \"pool\": 1,\n  \"htpp\": \"x\",\n  \"http\": \"nowhere\",\n  \"expose\": {},\n  \
                    \"expose\": [],\n  \"http\": 3\n}";
        check_errors(
            text,
            &[],
            &[
                "2:11: `pool`: expected `true` or `false`",
                "3:3: `htpp`: unknown key; did you mean `http`?",
                "4:11: `http`: invalid value 'nowhere': invalid socket address syntax",
                "5:13: `expose`: expected an array of strings",
                "7:3: `http`: the key is there twice",
            ],
        );
    }

    #[test]
    fn values_that_need_or_exclude_another_are_reported() {
        check_errors(r#"{"names": "plain"}"#, &[], &["1:11: `names`: needs `--pool`"]);
        let both = r#"{"http": "127.0.0.1:0", "noAuth": true, "tokenFile": "t"}"#;
        let errors = expanded(both, &[]).expect_err("they exclude each other");
        assert!(errors.contains("cannot be combined with `"), "{errors}");
        check_errors("{\"a\": }", &[], &["1:7: not valid JSON: unexpected close brace"]);
        check_errors("[]", &[], &["1:1: expected an object"]);
    }

    #[test]
    fn other_command_lines_stay_as_they_are() {
        for words in [&["swb", "list"][..], &["swb", "serve"], &["swb", "serve", "--config"]] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(expand(words.clone()).expect("no file"), words);
        }
    }
}
