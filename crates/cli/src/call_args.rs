//! Parses the arguments of a call: `key=value`, `key:=json`, `key=@file`, one JSON object, or `-` for standard input.
//! The texts of `key=value` get their type from the tool's schema, once the tool is known.

mod schema_types;

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value as Json};
use switchboard::pool::Tool;

use crate::exit::Exit;
use crate::outcome::Failure;

/// The largest file or input that is read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The most parts of a dotted key. JSON parsers stop at about that depth.
const MAX_KEY_DEPTH: usize = 100;

pub use schema_types::UnknownArgument;

/// The arguments of a call. Texts have no type yet.
#[derive(Debug, Default)]
pub struct CallArguments {
    members: Map<String, Json>,
    /// Where the values are that were written as plain text.
    texts: Vec<Vec<String>>,
}

impl CallArguments {
    /// The arguments with every text as a string.
    pub fn into_json(self) -> Json {
        Json::Object(self.members)
    }

    /// The arguments of a call of this tool: every text has the type that the tool's input schema names.
    pub fn typed_for(self, tool: &Tool) -> Json {
        self.typed_by(&input_schema(tool))
    }

    /// The arguments that the tool's input schema does not name.
    pub fn unknown_to(&self, tool: &Tool) -> Vec<UnknownArgument> {
        schema_types::unknown_arguments(&input_schema(tool), &self.members)
    }

    fn typed_by(mut self, schema: &Json) -> Json {
        for path in &self.texts {
            if let Some(value) = value_at(&mut self.members, path)
                && let Json::String(text) = value
                && let Some(typed) = schema_types::typed_value(schema, path, text)
            {
                *value = typed;
            }
        }
        Json::Object(self.members)
    }
}

/// The input schema as the server wrote it.
fn input_schema(tool: &Tool) -> Json {
    let mut definition: Json = tool.raw.decode().unwrap_or_default();
    match definition.get_mut("inputSchema") {
        Some(schema) => schema.take(),
        None => tool.input_schema.decode().unwrap_or_default(),
    }
}

/// Parses arguments. Relative files are read from `folder`.
pub fn parse(words: &[String], folder: &Path) -> Result<CallArguments, Failure> {
    let whole = |json: Map<String, Json>| CallArguments { members: json, texts: Vec::new() };
    match words {
        [] => Ok(CallArguments::default()),
        [only] if only == "-" => {
            let text = read_text(std::io::stdin().lock(), "standard input")?;
            parse_object(&text, "standard input").map(whole)
        }
        [only] if only.trim_start().starts_with('{') => {
            parse_object(only, "the argument").map(whole)
        }
        words => {
            let mut arguments = CallArguments::default();
            for word in words {
                let (path, value) = parse_pair(word, folder)?;
                let value = match value {
                    PairValue::Json(json) => json,
                    PairValue::Text(text) => {
                        arguments.texts.push(path.clone());
                        Json::String(text)
                    }
                };
                insert_at(&mut arguments.members, &path, value).map_err(|taken| {
                    Failure::new(Exit::Usage, &format!("`{taken}` has two values"))
                })?;
            }
            Ok(arguments)
        }
    }
}

/// Parses the JSON object in a file, and arguments that add to it or replace what it says.
pub fn parse_with_file(
    file: &Path,
    words: &[String],
    folder: &Path,
) -> Result<CallArguments, Failure> {
    let name = file.display().to_string();
    let mut members = parse_object(&read_file(file, folder)?, &name)?;
    let CallArguments { members: replacing, texts } = parse(words, folder)?;
    merge(&mut members, replacing);
    Ok(CallArguments { members, texts })
}

fn merge(members: &mut Map<String, Json>, replacing: Map<String, Json>) {
    for (key, value) in replacing {
        match (members.get_mut(&key), value) {
            (Some(Json::Object(inner)), Json::Object(value)) => merge(inner, value),
            (_, value) => {
                members.insert(key, value);
            }
        }
    }
}

fn parse_object(text: &str, source: &str) -> Result<Map<String, Json>, Failure> {
    match serde_json::from_str::<Json>(text) {
        Ok(Json::Object(members)) => Ok(members),
        Ok(_) => Err(Failure::new(Exit::Usage, &format!("{source} is not a JSON object"))),
        Err(error) => {
            Err(Failure::new(Exit::Usage, &format!("{source} is not valid JSON")).caused_by(error))
        }
    }
}

/// The value of one argument as it was written.
enum PairValue {
    Text(String),
    Json(Json),
}

fn parse_pair(word: &str, folder: &Path) -> Result<(Vec<String>, PairValue), Failure> {
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
        Some(file) => read_file(Path::new(file), folder)?,
        None => value.to_owned(),
    };
    match is_json {
        false => Ok((path, PairValue::Text(text))),
        true => {
            serde_json::from_str(&text).map(|it| (path, PairValue::Json(it))).map_err(|error| {
                let message = format!("the value of `{key}` is not valid JSON");
                Failure::new(Exit::Usage, &message)
                    .caused_by(error)
                    .hint(&format!("for plain text write {key}=…"))
            })
        }
    }
}

fn read_file(file: &Path, folder: &Path) -> Result<String, Failure> {
    let path = folder.join(file);
    let opened = std::fs::File::open(&path).map_err(|error| {
        let message = format!("{} cannot be read", path.display());
        Failure::new(Exit::Usage, &message).caused_by(error)
    })?;
    read_text(opened, &file.display().to_string())
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

/// The value at a path of [`insert_at`].
fn value_at<'m>(members: &'m mut Map<String, Json>, path: &[String]) -> Option<&'m mut Json> {
    let (first, rest) = path.split_first()?;
    let value = members.get_mut(first)?;
    match rest.is_empty() {
        true => Some(value),
        false => value_at(value.as_object_mut()?, rest),
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
        parse(&words, folder.path())
            .map(CallArguments::into_json)
            .map_err(|failure| failure.message)
    }

    #[test]
    fn texts_get_the_type_of_the_schema_and_json_keeps_its_own() {
        let words: Vec<String> =
            ["n=3", "s=3", "a.n=4", "j:=\"3\""].iter().map(|it| (*it).to_owned()).collect();
        let number = json!({"type": "integer"});
        let schema = json!({"properties": {
            "n": number, "s": {"type": "string"}, "j": number, "a": {"properties": {"n": number}},
        }});
        let arguments = parse(&words, Path::new(".")).expect("valid arguments");
        assert_eq!(arguments.typed_by(&schema), json!({"n": 3, "s": "3", "a": {"n": 4}, "j": "3"}));
    }

    #[test]
    fn arguments_add_to_those_of_a_file_and_replace_them() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let file = folder.path().join("a.json");
        std::fs::write(&file, r#"{"a": 1, "b": {"c": 2, "d": 3}}"#).expect("written");
        let words = ["a=x".to_owned(), "b.c:=9".to_owned()];
        let arguments = parse_with_file(Path::new("a.json"), &words, folder.path());
        assert_eq!(
            arguments.map(CallArguments::into_json).map_err(|it| it.message),
            Ok(json!({"a": "x", "b": {"c": 9, "d": 3}}))
        );
        std::fs::write(&file, "[1]").expect("written");
        let refused = parse_with_file(Path::new("a.json"), &[], folder.path());
        assert_eq!(
            refused.map_err(|it| it.message).err().as_deref(),
            Some("a.json is not a JSON object")
        );
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
