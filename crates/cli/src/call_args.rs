//! Parses the arguments of a call: `key=value`, `key:=json`, `key=@file`, one JSON object, or `-` for standard input.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value as Json};

use crate::exit::Exit;
use crate::outcome::Failure;

/// The largest file or input that is read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The most parts of a dotted key. JSON parsers stop at about that depth.
const MAX_KEY_DEPTH: usize = 100;

/// Parses arguments. Relative files are read from `folder`.
pub fn parse(words: &[String], folder: &Path) -> Result<Json, Failure> {
    match words {
        [] => Ok(Json::Object(Map::new())),
        [only] if only == "-" => {
            parse_object(&read_text(std::io::stdin().lock(), "standard input")?, "standard input")
        }
        [only] if only.trim_start().starts_with('{') => parse_object(only, "the argument"),
        words => {
            let mut members = Map::new();
            for word in words {
                let (path, value) = parse_pair(word, folder)?;
                insert_at(&mut members, &path, value).map_err(|taken| {
                    Failure::new(Exit::Usage, &format!("`{taken}` has two values"))
                })?;
            }
            Ok(Json::Object(members))
        }
    }
}

fn parse_object(text: &str, source: &str) -> Result<Json, Failure> {
    match serde_json::from_str::<Json>(text) {
        Ok(json @ Json::Object(_)) => Ok(json),
        Ok(_) => Err(Failure::new(Exit::Usage, &format!("{source} is not a JSON object"))),
        Err(error) => {
            Err(Failure::new(Exit::Usage, &format!("{source} is not valid JSON")).caused_by(error))
        }
    }
}

fn parse_pair(word: &str, folder: &Path) -> Result<(Vec<String>, Json), Failure> {
    let invalid = || {
        Failure::new(Exit::Usage, &format!("`{word}` is not an argument"))
            .hint("write key=value, key:=json, key=@file, one JSON object, or - for standard input")
    };
    let (key, value) = word.split_once('=').ok_or_else(invalid)?;
    let (key, is_json) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if key.is_empty() || key.split('.').any(str::is_empty) {
        return Err(invalid());
    }
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    if path.len() > MAX_KEY_DEPTH {
        let message = format!("a key has more than {MAX_KEY_DEPTH} parts");
        return Err(Failure::new(Exit::Usage, &message));
    }
    let text = match value.strip_prefix('@') {
        Some(file) => {
            let path = folder.join(file);
            let opened = std::fs::File::open(&path).map_err(|error| {
                let message = format!("{} cannot be read", path.display());
                Failure::new(Exit::Usage, &message).caused_by(error)
            })?;
            read_text(opened, file)?
        }
        None => value.to_owned(),
    };
    match is_json {
        false => Ok((path, Json::String(text))),
        true => serde_json::from_str(&text).map(|json| (path, json)).map_err(|error| {
            let message = format!("the value of `{key}` is not valid JSON");
            Failure::new(Exit::Usage, &message)
                .caused_by(error)
                .hint(&format!("for plain text write {key}=…"))
        }),
    }
}

fn read_text(from: impl Read, name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = from.take(MAX_BYTES + 1).read_to_string(&mut text);
    match read {
        Ok(count) if count as u64 > MAX_BYTES => {
            Err(Failure::new(Exit::Usage, &format!("{name} is larger than {MAX_BYTES} bytes")))
        }
        Ok(_) => Ok(text),
        Err(error) => {
            Err(Failure::new(Exit::Usage, &format!("{name} cannot be read")).caused_by(error))
        }
    }
}

/// Inserts a value at a dotted path. The error is the part of the path that already has a value.
fn insert_at(members: &mut Map<String, Json>, path: &[String], value: Json) -> Result<(), String> {
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    if rest.is_empty() {
        return match members.insert(first.clone(), value) {
            None => Ok(()),
            Some(_) => Err(first.clone()),
        };
    }
    let inner = members.entry(first.clone()).or_insert_with(|| Json::Object(Map::new()));
    match inner.as_object_mut() {
        Some(inner) => insert_at(inner, rest, value).map_err(|taken| format!("{first}.{taken}")),
        None => Err(first.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(words: &[&str]) -> Result<Json, String> {
        let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
        let folder = tempfile::tempdir().expect("a temp folder");
        std::fs::write(folder.path().join("note.txt"), "hello\n").expect("written");
        std::fs::write(folder.path().join("n.json"), "[1]").expect("written");
        parse(&words, folder.path()).map_err(|failure| failure.message)
    }

    #[test]
    fn pairs_json_files_and_whole_objects_are_arguments() {
        assert_eq!(read(&[]), Ok(json!({})));
        assert_eq!(
            read(&["a=1", "b:=1", "c:={\"d\":[true]}"]),
            Ok(json!({"a": "1", "b": 1, "c": {"d": [true]}}))
        );
        assert_eq!(read(&["a=@note.txt", "b:=@n.json"]), Ok(json!({"a": "hello\n", "b": [1]})));
        assert_eq!(
            read(&["a.b=x", "a.c:=2", "e=x=y"]),
            Ok(json!({"a": {"b": "x", "c": 2}, "e": "x=y"}))
        );
        assert_eq!(read(&[r#" {"a": 1}"#]), Ok(json!({"a": 1})));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (words, expected) in [
            (vec!["a"], "`a` is not an argument"),
            (vec!["=x"], "`=x` is not an argument"),
            (vec!["a..b=x"], "`a..b=x` is not an argument"),
            (vec!["a:=x"], "the value of `a` is not valid JSON"),
            (vec!["{\"a\""], "the argument is not valid JSON"),
            (vec!["a=1", "a=2"], "`a` has two values"),
            (vec!["a=1", "a.b=2"], "`a` has two values"),
        ] {
            assert_eq!(read(&words), Err(expected.to_owned()), "{words:?}");
        }
        let deep = "a.".repeat(MAX_KEY_DEPTH) + "b=1";
        assert!(read(&[&deep]).is_err_and(|message| message.contains("more than 100 parts")));
        assert!(read(&["a=@gone"]).is_err_and(|message| message.ends_with("gone cannot be read")));
    }
}
