//! Edits a configuration file and changes nothing else in it: comments, order, indentation, line endings,
//! trailing commas and a byte order mark stay.

mod splice;
mod value_ref;

use std::fmt;

use serde_json::Value as Json;
use thiserror::Error;

use crate::approvals::CorruptApprovals;
use crate::document::{Document, Node, SyntaxError, Value, strip_bom};
use value_ref::{ValueRef, add_to_list, elements, remove_from_list};

/// One change. Its `Debug` output contains no values, because they may be secrets.
#[derive(Clone)]
pub enum Edit {
    /// Adds a server, or replaces the one with that name.
    SetServer {
        /// Its name.
        name: String,
        /// Its entry.
        entry: Json,
    },
    /// Removes a server.
    RemoveServer {
        /// Its name.
        name: String,
    },
    /// Sets one key of a server's entry, or removes it if there is no value.
    SetKey {
        /// The server's name.
        name: String,
        /// The key.
        key: String,
        /// Its new value; `None` removes the key.
        value: Option<Json>,
    },
    /// Adds a string to a top-level list, unless the list contains it.
    AddToList {
        /// The list's key.
        key: String,
        /// The string.
        text: String,
    },
    /// Removes a string from a top-level list.
    RemoveFromList {
        /// The list's key.
        key: String,
        /// The string.
        text: String,
    },
    /// Adds a string to a list in a top-level object, unless the list contains it. Creates the object and the
    /// list if they are missing.
    AddToNestedList {
        /// The object's key.
        object: String,
        /// The key of the list in it.
        key: String,
        /// The string.
        text: String,
    },
    /// Removes a string from a list in a top-level object.
    RemoveFromNestedList {
        /// The object's key.
        object: String,
        /// The key of the list in it.
        key: String,
        /// The string.
        text: String,
    },
    /// Sets a key of the object at a path. Creates the objects on the way if they are missing.
    SetMember {
        /// The keys that lead to the object.
        path: Vec<String>,
        /// The key.
        key: String,
        /// Its value.
        value: Json,
    },
    /// Removes a key from the object at a path, if it is there.
    RemoveMember {
        /// The keys that lead to the object.
        path: Vec<String>,
        /// The key.
        key: String,
    },
    /// Sets a top-level key, unless it exists.
    SetIfAbsent {
        /// The key.
        key: String,
        /// Its value.
        value: Json,
    },
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edit::SetServer { name, .. } => write!(f, "SetServer({name})"),
            Edit::RemoveServer { name } => write!(f, "RemoveServer({name})"),
            Edit::SetKey { name, key, .. } => write!(f, "SetKey({name}, {key})"),
            Edit::AddToList { key, text } => write!(f, "AddToList({key}, {text})"),
            Edit::RemoveFromList { key, text } => write!(f, "RemoveFromList({key}, {text})"),
            Edit::AddToNestedList { object, key, text } => {
                write!(f, "AddToNestedList({object}, {key}, {text})")
            }
            Edit::RemoveFromNestedList { object, key, text } => {
                write!(f, "RemoveFromNestedList({object}, {key}, {text})")
            }
            Edit::SetMember { path, key, .. } => write!(f, "SetMember({}, {key})", path.join(".")),
            Edit::RemoveMember { path, key } => {
                write!(f, "RemoveMember({}, {key})", path.join("."))
            }
            Edit::SetIfAbsent { key, .. } => write!(f, "SetIfAbsent({key})"),
        }
    }
}

/// Why a text could not be changed. The text stays as it was.
#[derive(Debug, Clone, Error)]
pub enum EditError {
    /// The text is not valid JSON, so an edit could destroy something.
    #[error("the file is not valid JSON, so it was not changed")]
    Syntax(SyntaxError),
    /// A value that must be an object or a list has another type.
    #[error("`{key}` is not {expected}, so the file was not changed")]
    WrongType {
        /// The key.
        key: String,
        /// The required type.
        expected: &'static str,
    },
    /// The approvals file is not valid.
    #[error(transparent)]
    CorruptApprovals(#[from] CorruptApprovals),
    /// The text does not define the server.
    #[error("there is no server `{name}` in the file")]
    ServerNotFound {
        /// The name of the server.
        name: String,
    },
}

const SERVERS: &str = "mcpServers";

/// Applies the changes in order. If one fails, none is applied.
pub fn apply(text: &str, edits: &[Edit]) -> Result<String, EditError> {
    let body = strip_bom(text);
    let mark = &text[..text.len() - body.len()];
    let mut body = if body.trim().is_empty() { "{}\n".to_owned() } else { body.to_owned() };
    for edit in edits {
        body = apply_one(body, edit)?;
    }
    Ok(format!("{mark}{body}"))
}

/// Does the text define a server with that name? A text that is not valid JSON defines none.
pub fn has_server(text: &str, name: &str) -> bool {
    let text = strip_bom(text);
    let root = Document::parse(text).ok().and_then(|document| document.root);
    root.is_some_and(|root| {
        let servers = ValueRef { text, node: &root }.member(SERVERS);
        servers.is_some_and(|servers| servers.index(name).is_some())
    })
}

/// Returns the strings of a list in a top-level object; none if the text is not valid JSON.
pub fn strings_in_list(text: &str, object: &str, key: &str) -> Vec<String> {
    let text = strip_bom(text);
    let Some(root) = Document::parse(text).ok().and_then(|document| document.root) else {
        return Vec::new();
    };
    let list = ValueRef { text, node: &root }.member(object).and_then(|it| it.member(key));
    let elements = list.and_then(|list| elements(&list, key).ok()).unwrap_or_default();
    let as_text = |node: &Node| match &node.value {
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    };
    elements.iter().filter_map(as_text).collect()
}

fn apply_one(text: String, edit: &Edit) -> Result<String, EditError> {
    let root = match Document::parse(&text).map_err(EditError::Syntax)?.root {
        Some(root) => root,
        None => {
            let newline = splice::line_ending(&text);
            return apply_one(format!("{}{{}}{newline}", with_trailing_newline(&text)), edit);
        }
    };
    let top = ValueRef { text: &text, node: &root };
    top.require_object("the top level")?;
    match edit {
        Edit::SetServer { name, entry } => match top.member(SERVERS) {
            Some(servers) => {
                servers.require_object(SERVERS)?;
                Ok(servers.set(name, entry))
            }
            None => {
                let mut servers = serde_json::Map::new();
                servers.insert(name.clone(), entry.clone());
                Ok(top.set(SERVERS, &Json::Object(servers)))
            }
        },
        Edit::RemoveServer { name } => {
            let servers = top.servers()?.ok_or_else(|| server_not_found(name))?;
            let removed = servers.remove(name).ok_or_else(|| server_not_found(name))?;
            // Otherwise an older definition of a duplicate name would apply again.
            if has_server(&removed, name) { apply_one(removed, edit) } else { Ok(removed) }
        }
        Edit::SetKey { name, key, value } => {
            let servers = top.servers()?;
            let entry = servers
                .and_then(|servers| servers.member(name))
                .ok_or_else(|| server_not_found(name))?;
            entry.require_object(name)?;
            Ok(match value {
                Some(value) => entry.set(key, value),
                None => match entry.remove(key) {
                    // Otherwise an older value of a duplicate key would apply again.
                    Some(removed) => apply_one(removed, edit)?,
                    None => text.clone(),
                },
            })
        }
        Edit::AddToList { key, text: item } => add_to_list(&top, key, item),
        Edit::RemoveFromList { key, text: item } => remove_from_list(&top, key, item),
        Edit::AddToNestedList { object, key, text: item } => match top.non_null_member(object) {
            Some(inner) => {
                inner.require_object(object)?;
                add_to_list(&inner, key, item)
            }
            None => {
                let mut inner = serde_json::Map::new();
                inner.insert(key.clone(), Json::from(vec![item.as_str()]));
                Ok(top.set(object, &Json::Object(inner)))
            }
        },
        Edit::RemoveFromNestedList { object, key, text: item } => match top.non_null_member(object)
        {
            Some(inner) => {
                inner.require_object(object)?;
                remove_from_list(&inner, key, item)
            }
            None => Ok(text.clone()),
        },
        Edit::SetMember { path, key, value } => set_member(top, path, key, value),
        Edit::RemoveMember { path, key } => {
            let mut object = top;
            for step in path {
                let Some(inner) = object.non_null_member(step) else { return Ok(text.clone()) };
                inner.require_object(step)?;
                object = inner;
            }
            match object.remove(key) {
                // Otherwise an older value of a duplicate key would apply again.
                Some(removed) => apply_one(removed, edit),
                None => Ok(text.clone()),
            }
        }
        Edit::SetIfAbsent { key, value } => Ok(match top.member(key) {
            Some(_) => text.clone(),
            None => top.set(key, value),
        }),
    }
}

fn set_member(
    top: ValueRef<'_>,
    path: &[String],
    key: &str,
    value: &Json,
) -> Result<String, EditError> {
    let mut object = top;
    for (depth, step) in path.iter().enumerate() {
        let Some(inner) = object.non_null_member(step) else {
            let wrap = |inner: Json, key: &String| {
                Json::Object(std::iter::once((key.clone(), inner)).collect())
            };
            let missing = path[depth + 1..].iter().rev();
            return Ok(object.set(step, &missing.fold(wrap(value.clone(), &key.to_owned()), wrap)));
        };
        inner.require_object(step)?;
        object = inner;
    }
    Ok(object.set(key, value))
}

fn with_trailing_newline(text: &str) -> String {
    let newline = splice::line_ending(text);
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}{newline}") }
}

fn server_not_found(name: &str) -> EditError {
    EditError::ServerNotFound { name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set_server(name: &str, entry: Json) -> Edit {
        Edit::SetServer { name: name.to_owned(), entry }
    }

    fn remove_server(name: &str) -> Edit {
        Edit::RemoveServer { name: name.to_owned() }
    }

    #[track_caller]
    fn check(before: &str, edit: Edit, after: &str) {
        assert_eq!(apply(before, &[edit]).expect("it can be changed"), after);
    }

    #[test]
    fn a_new_file_is_indented() {
        check(
            "",
            set_server("a", json!({"command": "x", "args": ["-y"]})),
            "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\",\n      \"args\": [\"-y\"]\n    }\n  }\n}\n",
        );
    }

    #[test]
    fn comments_indentation_and_trailing_commas_stay() {
        check(
            "// mine\n{\n\t\"other\": [1,2], // keep\n\t\"mcpServers\": {\n\t\t/* a */ \"a\": {\"command\": \"x\"}, // first\n\t},\n}\n",
            set_server("b", json!({"command": "y"})),
            "// mine\n{\n\t\"other\": [1,2], // keep\n\t\"mcpServers\": {\n\t\t/* a */ \"a\": {\"command\": \"x\"}, // first\n\t\t\"b\": {\n\t\t\t\"command\": \"y\"\n\t\t},\n\t},\n}\n",
        );
    }

    #[test]
    fn a_file_of_comments_keeps_its_line_endings() {
        check(
            "// nothing yet\r\n",
            set_server("a", json!({"command": "x"})),
            "// nothing yet\r\n{\r\n  \"mcpServers\": {\r\n    \"a\": {\r\n      \"command\": \"x\"\r\n    }\r\n  }\r\n}\r\n",
        );
    }

    #[test]
    fn line_endings_and_the_byte_order_mark_stay() {
        check(
            "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n",
            set_server("b", json!({"command": "y"})),
            "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"a\": {},\r\n    \"b\": {\r\n      \"command\": \"y\"\r\n    }\r\n  }\r\n}\r\n",
        );
    }

    #[test]
    fn removing_takes_one_server_and_its_comma() {
        check(
            "{\n  \"mcpServers\": {\n    \"a\": {}, // one\n    \"b\": {} // two\n  }\n}",
            remove_server("b"),
            "{\n  \"mcpServers\": {\n    \"a\": {} // one\n  }\n}",
        );
        check(
            "{\"mcpServers\": {\"a\": {}, \"b\": {}}}",
            remove_server("a"),
            "{\"mcpServers\": {\"b\": {}}}",
        );
    }

    #[test]
    fn a_key_can_be_set_and_removed_again() {
        let set = |value| Edit::SetKey { name: "a".to_owned(), key: "disabled".to_owned(), value };
        check(
            "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
            set(Some(json!(true))),
            "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"disabled\": true}}}",
        );
        check(
            "{\"mcpServers\": {\"a\": {\"disabled\": true, \"command\": \"x\"}}}",
            set(None),
            "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
        );
        check(
            "{\"mcpServers\": {\"a\": {\"disabled\": true}}}",
            set(Some(json!(false))),
            "{\"mcpServers\": {\"a\": {\"disabled\": false}}}",
        );
    }

    #[test]
    fn a_list_inside_an_object_grows_once_and_shrinks_and_comments_stay() {
        let add = |text: &str| Edit::AddToNestedList {
            object: "permissions".to_owned(),
            key: "allow".to_owned(),
            text: text.to_owned(),
        };
        let remove = |text: &str| Edit::RemoveFromNestedList {
            object: "permissions".to_owned(),
            key: "allow".to_owned(),
            text: text.to_owned(),
        };
        check("", add("a"), "{\n  \"permissions\": {\n    \"allow\": [\"a\"]\n  }\n}\n");
        check("{\"permissions\": null}", add("a"), "{\"permissions\": {\"allow\": [\"a\"]}}");
        check(
            "{\"permissions\": {\"allow\": null}}",
            add("a"),
            "{\"permissions\": {\"allow\": [\"a\"]}}",
        );
        let full = "{\n  \"permissions\": { // mine\n    \"allow\": [\n      \"a\", // why\n      \"b\"\n    ]\n  }\n}\n";
        let less = "{\n  \"permissions\": { // mine\n    \"allow\": [\n      \"a\" // why\n    ]\n  }\n}\n";
        check(less, add("b"), full);
        check(full, add("b"), full);
        check(full, remove("b"), less);
        check(full, remove("c"), full);
        check("{}", remove("a"), "{}");
        assert_eq!(strings_in_list(full, "permissions", "allow"), ["a", "b"]);
        assert_eq!(strings_in_list("{", "permissions", "allow"), Vec::<String>::new());
        assert!(matches!(
            apply("{\"permissions\": 5}", &[add("a")]),
            Err(EditError::WrongType { .. })
        ));
    }

    #[test]
    fn lists_grow_once_and_shrink() {
        let add = |text: &str| Edit::AddToList {
            key: "disabledMcpServers".to_owned(),
            text: text.to_owned(),
        };
        let remove_text = |text: &str| Edit::RemoveFromList {
            key: "disabledMcpServers".to_owned(),
            text: text.to_owned(),
        };
        let text =
            apply("{}\n", &[add("a"), add("a"), add("b"), remove_text("a"), remove_text("zzz")])
                .expect("a list");
        assert_eq!(text, "{\n  \"disabledMcpServers\": [\"b\"]\n}\n");
    }

    #[test]
    fn a_member_of_an_inner_object_is_set_and_removed() {
        let path = || vec!["a".to_owned(), "b".to_owned()];
        let set = |value: Json| Edit::SetMember { path: path(), key: "c".to_owned(), value };
        let remove = || Edit::RemoveMember { path: path(), key: "c".to_owned() };
        check("{}", set(json!(1)), "{\n  \"a\": {\n    \"b\": {\n      \"c\": 1\n    }\n  }\n}");
        check("{\"a\": {\"b\": null}}", set(json!(1)), "{\"a\": {\"b\": {\"c\": 1}}}");
        check("{\"a\": {\"b\": {\"c\": 2}}}", set(json!(1)), "{\"a\": {\"b\": {\"c\": 1}}}");
        check("{\"a\": {\"b\": {\"c\": 2, \"c\": 3}}}", remove(), "{\"a\": {\"b\": {}}}");
        check("{\"a\": {}}", remove(), "{\"a\": {}}");
        assert!(apply("{\"a\": 5}", &[set(json!(1))]).is_err());
        assert!(apply("{\"a\": 5}", &[remove()]).is_err());
    }

    #[test]
    fn an_invalid_text_is_not_changed() {
        for (text, message) in [
            ("{", "the file is not valid JSON, so it was not changed"),
            ("[]", "`the top level` is not an object, so the file was not changed"),
            ("{\"mcpServers\": 5}", "`mcpServers` is not an object, so the file was not changed"),
        ] {
            let error =
                apply(text, &[set_server("a", json!({}))]).expect_err("the text is not valid");
            assert_eq!(error.to_string(), message);
        }
        let error = apply("{}", &[remove_server("a")]).expect_err("it is not there");
        assert_eq!(error.to_string(), "there is no server `a` in the file");
    }

    #[test]
    fn every_copy_of_a_duplicate_server_is_removed() {
        let text = "{\"mcpServers\": {\"a\": 1, \"b\": 2, \"a\": 3}}";
        check(text, remove_server("a"), "{\"mcpServers\": {\"b\": 2}}");
    }

    #[test]
    fn the_last_copy_of_a_duplicate_server_is_changed() {
        check(
            "{\"mcpServers\": {\"a\": {\"k\": 1}, \"a\": {\"k\": 2}}}",
            set_server("a", json!(3)),
            "{\"mcpServers\": {\"a\": {\"k\": 1}, \"a\": 3}}",
        );
    }

    /// White space and comments between two tokens.
    fn gap() -> impl Strategy<Value = String> {
        let newline = prop_oneof![Just("\n"), Just("\n  "), Just("\n\t\t"), Just("\n\n    ")];
        prop_oneof![
            3 => Just(String::new()),
            2 => Just(" ".to_owned()),
            3 => newline.clone().prop_map(str::to_owned),
            1 => ("[a-z,\"{}]{0,6}", newline).prop_map(|(text, newline)| format!(" // {text}{newline}")),
            1 => "[a-z,\"{} \n]{0,6}".prop_map(|text| format!("/* {text} */")),
        ]
    }

    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("-1.5e3".to_owned()),
            Just("true".to_owned()),
            "[a-zé\\\\u0041 /*]{0,5}".prop_map(|text| Json::String(text).to_string()),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                (prop::collection::vec((gap(), inner.clone(), gap()), 0..4), any::<bool>())
                    .prop_map(|(items, comma)| joined('[', ']', items, comma)),
                (prop::collection::vec((gap(), member(inner), gap()), 0..4), any::<bool>())
                    .prop_map(|(items, comma)| joined('{', '}', items, comma)),
            ]
        })
    }

    fn member(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
        ("[a-f]{1,2}", gap(), gap(), value)
            .prop_map(|(key, a, b, value)| format!("\"{key}\"{a}:{b}{value}"))
    }

    fn joined(
        open: char,
        close: char,
        items: Vec<(String, String, String)>,
        comma: bool,
    ) -> String {
        let comma = if comma && !items.is_empty() { "," } else { "" };
        let items: Vec<String> =
            items.into_iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
        format!("{open}{}{comma}{close}", items.join(","))
    }

    /// A whole settings file with servers named `s0`, `s1`, … and other keys.
    fn file() -> impl Strategy<Value = String> {
        let servers = prop::collection::vec((gap(), gap(), value(), gap()), 0..4);
        (
            gap(),
            prop::collection::vec(member(value()), 0..3),
            servers,
            gap(),
            any::<bool>(),
            any::<bool>(),
        )
            .prop_map(|(front, mut members, servers, back, crlf, comma)| {
                let servers = servers
                    .into_iter()
                    .enumerate()
                    .map(|(index, (a, b, value, c))| (a, format!("\"s{index}\":{b}{value}"), c))
                    .collect();
                members.push(format!("\"mcpServers\": {}", joined('{', '}', servers, comma)));
                let text = format!("{front}{{{}\n}}{back}", members.join(",\n"));
                if crlf { text.replace('\n', "\r\n") } else { text }
            })
    }

    fn json(text: &str) -> Json {
        Document::parse(strip_bom(text)).expect("still JSON").root.expect("a value").to_json()
    }

    /// Every comment of a text, in order.
    fn comments(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let length = if c == '"' {
                let mut escaped = false;
                1 + rest[1..]
                    .find(|c| {
                        let end = c == '"' && !escaped;
                        escaped = c == '\\' && !escaped;
                        end
                    })
                    .map_or(rest.len() - 1, |at| at + 1)
            } else if rest.starts_with("//") {
                rest.find(['\n', '\r']).unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |at| at + 2)
            } else {
                c.len_utf8()
            };
            if rest.starts_with("//") || rest.starts_with("/*") {
                found.push(rest[..length].to_owned());
            }
            rest = &rest[length..];
        }
        found
    }

    /// Can `whole` be turned into `part` by removing characters?
    fn is_subsequence(part: &str, whole: &str) -> bool {
        let mut rest = whole.chars();
        part.chars().all(|c| rest.any(|other| other == c))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn adding_a_server_changes_nothing_else(before in file()) {
            let after = apply(&before, &[set_server("new", json!({"command": "x"}))]).expect("it can be changed");
            let mut expected = json(&before);
            expected["mcpServers"]["new"] = json!({"command": "x"});
            prop_assert_eq!(json(&after), expected);
            prop_assert_eq!(comments(&before), comments(&after));
            prop_assert!(is_subsequence(&before, &after), "something was taken out of {}", before);
            let endings = |text: &str| (text.matches("\r\n").count() == text.matches('\n').count(), text.contains("\r\n"));
            prop_assert_eq!(endings(&before), endings(&after));
        }

        #[test]
        fn adding_and_removing_again_leaves_the_same_content_and_comments(before in file()) {
            let edits = [set_server("new", json!({"command": "x"})), remove_server("new")];
            let after = apply(&before, &edits).expect("it can be changed");
            prop_assert_eq!(json(&after), json(&before));
            prop_assert_eq!(comments(&after), comments(&before));
        }

        #[test]
        fn removing_a_server_keeps_every_other_one(before in file()) {
            prop_assume!(json(&before)["mcpServers"].get("s0").is_some());
            let after = apply(&before, &[remove_server("s0")]).expect("it can be changed");
            let mut expected = json(&before);
            expected["mcpServers"].as_object_mut().expect("an object").shift_remove("s0");
            prop_assert_eq!(json(&after), expected);
        }

        #[test]
        fn replacing_a_server_keeps_every_other_byte_of_content(before in file()) {
            prop_assume!(json(&before)["mcpServers"].get("s0").is_some());
            let after = apply(&before, &[set_server("s0", json!({"url": "u"}))]).expect("it can be changed");
            let mut expected = json(&before);
            expected["mcpServers"]["s0"] = json!({"url": "u"});
            prop_assert_eq!(json(&after), expected);
        }
    }
}
