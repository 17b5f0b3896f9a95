//! Edits of a file: the edit is applied, and every other byte stays in place. Compares the text that `config::edit`
//! produces with the same edit of a parsed tree.

use serde_json::{Value as Json, json};
use switchboard_config::document::{Document, Node, Span, Value, strip_bom};
use switchboard_config::edit::{self, Edit};

const SERVERS: &str = "mcpServers";
const LIST: &str = "disabledMcpServers";
const OBJECT: &str = "permissions";
const INNER_LIST: &str = "deny";

/// - A text that parses can be edited, unless a value that must be an object or a list is neither.
/// - The edited text parses, and differs from the old one only by the edit.
/// - An insertion moves nothing, a removal leaves the rest, and a replacement is at the position of the old value.
/// - A byte order mark and line endings are preserved. Edits are idempotent.
pub(super) fn check(text: &str) {
    let body = strip_bom(text);
    let Ok(document) = Document::parse(body) else {
        let edits = [Edit::RemoveServer { name: "a".to_owned() }];
        assert!(body.trim().is_empty() || edit::apply(text, &edits).is_err(), "it was no JSON");
        return;
    };
    let old = document.root.as_ref();
    for edit in edits(old) {
        let expected = expected_after(old.map_or(PlainTree::Members(Vec::new()), tree), &edit);
        let changed = edit::apply(text, std::slice::from_ref(&edit));
        let (new, expected) = match (changed, expected) {
            (Ok(new), Some(expected)) => (new, expected),
            (Err(_), None) => continue,
            (changed, expected) => panic!("{edit:?}: {changed:?} where {expected:?} was meant"),
        };
        let new_body = strip_bom(&new);
        let parsed = Document::parse(new_body);
        let parsed = parsed.unwrap_or_else(|fault| panic!("{edit:?} broke it: {fault:?}\n{new}"));
        let said = parsed.root.as_ref().map(tree);
        assert_eq!(said.as_ref(), Some(&expected), "{edit:?} changed something else:\n{new}");

        assert_eq!(new.len() - new_body.len(), text.len() - body.len(), "{edit:?}: the mark");
        if !body.trim().is_empty() {
            keeps_bytes(old, (body, new_body), &edit);
            keeps_line_endings(body, new_body, &edit);
        }
        if let Ok(again) = edit::apply(&new, std::slice::from_ref(&edit)) {
            // A list may contain a string twice; one is removed at a time.
            let is_once =
                !matches!(edit, Edit::RemoveFromList { .. } | Edit::RemoveFromNestedList { .. });
            // Indentation other than blanks and tabs is replaced in each edit.
            let is_usual = !text.contains(['\u{b}', '\u{c}', '\u{a0}', '\u{feff}']);
            let is_same = !(is_once && is_usual) || again == new;
            assert!(is_same, "{edit:?} does something the second time:\n{again}");
        }
    }
}

/// Edits of every kind, of members that exist and of members that do not.
fn edits(root: Option<&Node>) -> Vec<Edit> {
    let servers = root.and_then(|root| last(root, SERVERS));
    let servers: Vec<&str> = servers.map(keys).unwrap_or_default();
    let mut edits = vec![
        Edit::SetServer {
            name: "put \"in\"".to_owned(),
            entry: json!({"command": "x", "args": []}),
        },
        Edit::RemoveServer { name: "absent".to_owned() },
        Edit::AddToList { key: LIST.to_owned(), text: "added".to_owned() },
        Edit::AddToNestedList {
            object: OBJECT.to_owned(),
            key: INNER_LIST.to_owned(),
            text: "mcp__added".to_owned(),
        },
        Edit::SetIfAbsent { key: "$schema".to_owned(), value: json!("a\nb") },
        Edit::SetMember { path: member_path(), key: "new".to_owned(), value: json!({"a": [1]}) },
        Edit::SetMember { path: Vec::new(), key: OBJECT.to_owned(), value: json!(1) },
    ];
    if root.is_some() {
        edits.push(Edit::RemoveMember { path: member_path(), key: INNER_LIST.to_owned() });
    }
    // The first and the last: faults are most likely at an edge.
    let mut some = vec![servers.first(), servers.last()];
    some.dedup();
    for name in some.into_iter().flatten() {
        let name = (*name).to_owned();
        let entry = root.and_then(|root| last(last(root, SERVERS)?, &name));
        let inner: Vec<&str> = entry.map(keys).unwrap_or_default();
        let inner = [inner.first(), inner.last(), Some(&"timeout")];
        for key in inner.into_iter().flatten() {
            let (name, key) = (name.clone(), (*key).to_owned());
            let set = Some(json!({"a": [1, {}], "b": null}));
            edits.push(Edit::SetKey { name: name.clone(), key: key.clone(), value: set });
            edits.push(Edit::SetKey { name, key, value: None });
        }
        edits.push(Edit::SetServer {
            name: name.clone(),
            entry: json!({"url": "u", "h": {"a": 1}}),
        });
        edits.push(Edit::RemoveServer { name });
    }
    let list = root.and_then(|root| last(root, LIST));
    for text in list.map(texts).unwrap_or_default() {
        edits.push(Edit::RemoveFromList { key: LIST.to_owned(), text });
    }
    let list = root.and_then(|root| last(last(root, OBJECT)?, INNER_LIST));
    for text in list.map(texts).unwrap_or_default() {
        let (object, key) = (OBJECT.to_owned(), INNER_LIST.to_owned());
        edits.push(Edit::RemoveFromNestedList { object, key, text });
    }
    edits
}

fn member_path() -> Vec<String> {
    vec![OBJECT.to_owned()]
}

fn keys(node: &Node) -> Vec<&str> {
    match &node.value {
        Value::Object(members) => members.iter().map(|member| member.key.as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Vec::new()
        }
    }
}

/// The last of duplicate keys counts.
fn last<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    match &node.value {
        Value::Object(members) => {
            members.iter().rev().find(|member| member.key == key).map(|member| &member.node)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

/// The first and the last string of a list.
fn texts(node: &Node) -> Vec<String> {
    let Value::Array(elements) = &node.value else { return Vec::new() };
    let text = |node: &Node| match &node.value {
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    };
    let all: Vec<String> = elements.iter().filter_map(text).collect();
    all.first().into_iter().chain(all.last()).cloned().collect()
}

/// The parsed value of a text, regardless of its formatting.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PlainTree {
    /// Anything that holds nothing.
    Scalar(String),
    List(Vec<PlainTree>),
    Members(Vec<(String, PlainTree)>),
}

fn tree(node: &Node) -> PlainTree {
    match &node.value {
        Value::Null => PlainTree::Scalar("null".to_owned()),
        Value::Bool(truth) => PlainTree::Scalar(truth.to_string()),
        Value::Number(number) => PlainTree::Scalar(number.clone()),
        Value::String(text) => PlainTree::text(text),
        Value::Array(elements) => PlainTree::List(elements.iter().map(tree).collect()),
        Value::Object(members) => {
            PlainTree::Members(members.iter().map(|it| (it.key.clone(), tree(&it.node))).collect())
        }
    }
}

impl PlainTree {
    fn text(text: &str) -> PlainTree {
        PlainTree::Scalar(format!("\"{text}"))
    }

    fn of(json: &Json) -> PlainTree {
        match json {
            Json::Null | Json::Bool(_) | Json::Number(_) => PlainTree::Scalar(json.to_string()),
            Json::String(text) => PlainTree::text(text),
            Json::Array(elements) => PlainTree::List(elements.iter().map(PlainTree::of).collect()),
            Json::Object(members) => PlainTree::Members(
                members.iter().map(|(key, it)| (key.clone(), PlainTree::of(it))).collect(),
            ),
        }
    }

    fn is_null(&self) -> bool {
        *self == PlainTree::Scalar("null".to_owned())
    }

    fn members(&mut self) -> Option<&mut Vec<(String, PlainTree)>> {
        match self {
            PlainTree::Members(members) => Some(members),
            PlainTree::Scalar(_) | PlainTree::List(_) => None,
        }
    }

    fn list(&mut self) -> Option<&mut Vec<PlainTree>> {
        match self {
            PlainTree::List(elements) => Some(elements),
            PlainTree::Scalar(_) | PlainTree::Members(_) => None,
        }
    }
}

fn find<'t>(members: &'t mut [(String, PlainTree)], key: &str) -> Option<&'t mut PlainTree> {
    members.iter_mut().rev().find(|(name, _)| name == key).map(|(_, tree)| tree)
}

fn put(members: &mut Vec<(String, PlainTree)>, key: &str, value: PlainTree) {
    match find(members, key) {
        Some(old) => *old = value,
        None => members.push((key.to_owned(), value)),
    }
}

/// The expected value after the edit; None where the edit is not possible.
fn expected_after(mut root: PlainTree, edit: &Edit) -> Option<PlainTree> {
    let top = root.members()?;
    match edit {
        Edit::SetServer { name, entry } => match find(top, SERVERS) {
            Some(servers) => put(servers.members()?, name, PlainTree::of(entry)),
            None => {
                let servers = PlainTree::Members(vec![(name.clone(), PlainTree::of(entry))]);
                top.push((SERVERS.to_owned(), servers));
            }
        },
        Edit::RemoveServer { name } => {
            let servers = find(top, SERVERS)?.members()?;
            find(servers, name)?;
            servers.retain(|(other, _)| other != name);
        }
        Edit::SetKey { name, key, value } => {
            let entry = find(find(top, SERVERS)?.members()?, name)?.members()?;
            match value {
                Some(value) => put(entry, key, PlainTree::of(value)),
                None => entry.retain(|(other, _)| other != key),
            }
        }
        Edit::AddToList { key, text } => add(top, key, text)?,
        Edit::RemoveFromList { key, text } => remove(top, key, text)?,
        Edit::AddToNestedList { object, key, text } => {
            match find(top, object).filter(|it| !it.is_null()) {
                Some(inner) => add(inner.members()?, key, text)?,
                None => {
                    let list = PlainTree::List(vec![PlainTree::text(text)]);
                    put(top, object, PlainTree::Members(vec![(key.clone(), list)]));
                }
            }
        }
        Edit::RemoveFromNestedList { object, key, text } => {
            if let Some(inner) = find(top, object).filter(|it| !it.is_null()) {
                remove(inner.members()?, key, text)?;
            }
        }
        Edit::SetMember { path, key, value } => {
            let mut object = top;
            for step in path {
                if find(object, step).is_none_or(|it| it.is_null()) {
                    put(object, step, PlainTree::Members(Vec::new()));
                }
                object = find(object, step)?.members()?;
            }
            put(object, key, PlainTree::of(value));
        }
        Edit::RemoveMember { path, key } => {
            let mut object = top;
            for step in path {
                match find(object, step).filter(|it| !it.is_null()) {
                    Some(inner) => object = inner.members()?,
                    None => return Some(root),
                }
            }
            object.retain(|(other, _)| other != key);
        }
        Edit::SetIfAbsent { key, value } => {
            if find(top, key).is_none() {
                put(top, key, PlainTree::of(value));
            }
        }
    }
    Some(root)
}

fn add(members: &mut Vec<(String, PlainTree)>, key: &str, text: &str) -> Option<()> {
    match find(members, key).filter(|it| !it.is_null()) {
        Some(list) => {
            let list = list.list()?;
            if !list.contains(&PlainTree::text(text)) {
                list.push(PlainTree::text(text));
            }
        }
        None => put(members, key, PlainTree::List(vec![PlainTree::text(text)])),
    }
    Some(())
}

fn remove(members: &mut [(String, PlainTree)], key: &str, text: &str) -> Option<()> {
    if let Some(list) = find(members, key).filter(|it| !it.is_null()) {
        let list = list.list()?;
        let at = list.iter().position(|it| *it == PlainTree::text(text));
        at.map(|at| list.remove(at));
    }
    Some(())
}

/// The value that an edit replaces, if there is one.
fn replaced_span(root: Option<&Node>, edit: &Edit) -> Option<Span> {
    let root = root?;
    let null = |node: &Node| node.value == Value::Null;
    let node = match edit {
        Edit::SetServer { name, .. } => last(last(root, SERVERS)?, name),
        Edit::SetKey { name, key, value: Some(_) } => last(last(last(root, SERVERS)?, name)?, key),
        Edit::AddToList { key, .. } => last(root, key).filter(|it| null(it)),
        Edit::AddToNestedList { object, key, .. } => match last(root, object)? {
            inner if null(inner) => Some(inner),
            inner => last(inner, key).filter(|it| null(it)),
        },
        Edit::SetMember { path, key, .. } => {
            let mut object = root;
            for step in path {
                object = last(object, step)?;
                if null(object) {
                    return Some(object.span);
                }
            }
            last(object, key)
        }
        Edit::RemoveServer { .. }
        | Edit::SetKey { value: None, .. }
        | Edit::RemoveFromList { .. }
        | Edit::RemoveFromNestedList { .. }
        | Edit::RemoveMember { .. }
        | Edit::SetIfAbsent { .. } => None,
    };
    node.map(|node| node.span)
}

fn keeps_bytes(root: Option<&Node>, (old, new): (&str, &str), edit: &Edit) {
    if let Some(span) = replaced_span(root, edit) {
        let (front, back) = (&old[..span.start], &old[span.end..]);
        let is_kept =
            new.len() >= front.len() + back.len() && new.starts_with(front) && new.ends_with(back);
        assert!(is_kept, "{edit:?} changed what stands around it:\n{new}");
        return;
    }
    let is_kept = match edit {
        Edit::RemoveServer { .. }
        | Edit::SetKey { value: None, .. }
        | Edit::RemoveFromList { .. }
        | Edit::RemoveFromNestedList { .. }
        | Edit::RemoveMember { .. } => is_subsequence(new, old),
        Edit::SetServer { .. }
        | Edit::SetKey { .. }
        | Edit::AddToList { .. }
        | Edit::AddToNestedList { .. }
        | Edit::SetMember { .. }
        | Edit::SetIfAbsent { .. } => {
            is_subsequence(old, new) || is_subsequence(&without_whitespace(old), new)
        }
    };
    assert!(is_kept, "{edit:?} changed something else:\n{new}");
}

/// An empty object that receives a member may lose the blanks in it.
fn without_whitespace(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Whether all characters of one text occur in the other, in the same order.
fn is_subsequence(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|wanted| rest.any(|found| found == wanted))
}

fn keeps_line_endings(old: &str, new: &str, edit: &Edit) {
    let plain = |text: &str| text.matches('\n').count() - text.matches("\r\n").count();
    if old.contains("\r\n") && plain(old) == 0 {
        assert_eq!(plain(new), 0, "{edit:?} mixed line endings:\n{new:?}");
    }
    if !old.contains('\r') {
        assert!(!new.contains('\r'), "{edit:?} mixed line endings:\n{new:?}");
    }
}
