//! Edits goose's YAML: removes whole lines of a block mapping and adds one entry in its indentation.

use serde_json::Value as Json;

use super::line_edit::{LineEdit, Lines};
use super::pool_entry::PoolEntry;
use super::{AdoptError, FileChange};
use crate::document::{Member, Node, Value, find_member, strip_bom};
use crate::import::{HostApp, yaml_tree};

const SECTION: &str = "extensions";
const INDENT: &str = "  ";

pub(super) fn rewrite(change: &FileChange<'_>, text: &str) -> Result<String, AdoptError> {
    let body = strip_bom(text);
    let mark = &text[..text.len() - body.len()];
    let root = yaml_tree::parse(body).map_err(|_| AdoptError::Unusual)?;
    let members = match root.as_ref().map(|root| &root.value) {
        Some(Value::Object(members)) => members.as_slice(),
        Some(_) | None => &[],
    };
    let after = match find_member(members, SECTION) {
        None => append_section(change, body),
        Some(section) if section.node.value == Value::Null => fill_section(change, body, section),
        Some(section) => edit_section(change, body, section)?,
    };
    Ok(format!("{mark}{after}"))
}

/// The file has no section yet.
fn append_section(change: &FileChange<'_>, body: &str) -> String {
    let lines = Lines::new(body);
    let mut edit = LineEdit::new(&lines);
    if let Some(entry) = change.entry {
        let newline = lines.newline();
        edit.append_paragraph(format!(
            "{SECTION}:{newline}{}",
            entry_lines(entry, INDENT, newline)
        ));
    }
    edit.finish()
}

/// The section has no value yet.
fn fill_section(change: &FileChange<'_>, body: &str, section: &Member) -> String {
    let Some(entry) = change.entry else { return body.to_owned() };
    let newline = Lines::new(body).newline();
    let line_end = body[section.key_span.end..]
        .find('\n')
        .map_or(body.len(), |distance| section.key_span.end + distance + 1);
    let (front, back) = body.split_at(line_end);
    let end = if front.ends_with('\n') { "" } else { newline };
    format!("{front}{end}{}{back}", entry_lines(entry, INDENT, newline))
}

fn edit_section(
    change: &FileChange<'_>,
    body: &str,
    section: &Member,
) -> Result<String, AdoptError> {
    let Value::Object(members) = &section.node.value else { return Err(AdoptError::Unusual) };
    let span = section.node.span;
    if body[span.start..].starts_with('{') {
        if !members.is_empty() {
            return Err(AdoptError::OneLine { key: SECTION });
        }
        let without = format!("{}{}", body[..span.start].trim_end(), &body[span.end..]);
        return Ok(fill_section(change, &without, section));
    }
    let lines = Lines::new(body);
    let mut edit = LineEdit::new(&lines);
    let mut place = None;
    for member in members {
        let range = lines.covering(&(member.key_span.start..end_of(member, body)));
        if change.removals.iter().any(|removal| removal.name == member.key) {
            place = place.or(Some(range.start));
            edit.remove(vec![range]);
            edit.close_gaps(|_| false);
        }
    }
    if let (Some(entry), Some(first), Some(last)) = (change.entry, members.first(), members.last())
    {
        let line = lines.text(lines.at(first.key_span.start));
        let indent = &line[..line.len() - line.trim_start().len()];
        let after_last = lines.at(end_of(last, body).saturating_sub(1)) + 1;
        let written = entry_lines(entry, indent, lines.newline());
        match place {
            Some(line) => edit.insert_at(line, written),
            None if after_last < lines.len() => edit.insert_at(after_last, written),
            None if body.ends_with('\n') => return Ok(format!("{}{written}", edit.finish())),
            None => return Ok(format!("{}{}{written}", edit.finish(), lines.newline())),
        }
    }
    Ok(edit.finish())
}

/// One past the last byte of a member, without the comments and blank lines after it.
fn end_of(member: &Member, body: &str) -> usize {
    end_of_node(&member.node, body).unwrap_or(0).max(member.key_span.end)
}

fn end_of_node(node: &Node, body: &str) -> Option<usize> {
    let own = || {
        let written = &body[node.span.start..node.span.end];
        Some(node.span.start + written.trim_end().len())
    };
    let is_flow = body[node.span.start..].starts_with(['{', '[']);
    match &node.value {
        Value::Object(members) if !is_flow => {
            let last = members.last()?;
            Some(end_of(last, body))
        }
        Value::Array(items) if !is_flow => end_of_node(items.last()?, body),
        Value::Null if node.span.start == node.span.end => None,
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => own(),
    }
}

fn entry_lines(entry: &PoolEntry, indent: &str, newline: &str) -> String {
    let mut text = format!("{indent}{}:{newline}", entry.name);
    let value = entry.value_for(HostApp::Goose);
    for (key, value) in value.as_object().into_iter().flatten() {
        text.push_str(&format!("{indent}{INDENT}{key}: {}{newline}", scalar_or_flow(value)));
    }
    text
}

fn scalar_or_flow(value: &Json) -> String {
    let is_plain = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || " /._-".contains(c))
            && !matches!(text, "true" | "false" | "null" | "yes" | "no" | "on" | "off")
            && !text.ends_with(' ')
    };
    match value {
        Json::String(text) if is_plain(text) => text.clone(),
        Json::Array(items) => {
            format!("[{}]", items.iter().map(scalar_or_flow).collect::<Vec<_>>().join(", "))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::adopt::tests::check;
    use crate::import::HostApp;

    const ENTRY: &str = "  switchboard:
    enabled: true
    type: stdio
    name: switchboard
    description: All servers of Switchboard
    cmd: swb
    args: [serve, \"--pool\"]
    envs: {}
    env_keys: []
    timeout: 300
";

    #[test]
    fn extensions_leave_and_comments_around_them_stay() {
        check(
            HostApp::Goose,
            "\
GOOSE_PROVIDER: x # mine
extensions:
  # built in
  developer:
    type: builtin
  # my files
  files:
    type: stdio
    # inside
    cmd: npx
    args:
    - -y
    - files # last
  # about web
  web: {type: stdio, cmd: \"é\"}

  block:
    type: stdio
    cmd: x
    description: |
      one
      two

  # trailing
GOOSE_MODEL: y
",
            &["files", "web", "block"],
            &format!(
                "\
GOOSE_PROVIDER: x # mine
extensions:
  # built in
  developer:
    type: builtin
  # my files
{ENTRY}  # about web

  # trailing
GOOSE_MODEL: y
"
            ),
        );
    }

    #[test]
    fn a_section_that_is_missing_or_empty_is_filled() {
        check(HostApp::Goose, "A: b\n", &[], &format!("A: b\n\nextensions:\n{ENTRY}"));
        let filled = format!("extensions:\n{ENTRY}A: b\n");
        check(HostApp::Goose, "extensions:\nA: b\n", &[], &filled);
        check(HostApp::Goose, "extensions: {}\nA: b\n", &[], &filled);
        check(
            HostApp::Goose,
            "extensions:\n  a:\n    type: builtin",
            &[],
            &format!("extensions:\n  a:\n    type: builtin\n{ENTRY}"),
        );
    }

    #[test]
    fn servers_on_one_line_are_refused() {
        check(
            HostApp::Goose,
            "extensions: {a: {type: stdio, cmd: x}}\n",
            &["a"],
            "error: `extensions` is written on one line; write each server on lines of its own",
        );
    }
}
