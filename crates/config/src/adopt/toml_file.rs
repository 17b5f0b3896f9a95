//! Edits Codex's TOML: removes whole lines and adds one table. The parser says which lines belong to a server.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::line_edit::{LineEdit, Lines};
use super::pool_entry::PoolEntry;
use super::{AdoptError, FileChange};
use crate::document::strip_bom;

const SECTION: &str = "mcp_servers";

/// A key with its value in the text.
struct KeyValue {
    path: Vec<String>,
    range: Range<usize>,
}

pub(super) fn rewrite(change: &FileChange<'_>, text: &str) -> Result<String, AdoptError> {
    let body = strip_bom(text);
    let mark = &text[..text.len() - body.len()];
    let table = DeTable::parse(body).map_err(|_| AdoptError::Unusual)?;
    let mut pairs = Vec::new();
    collect(table.get_ref(), &[], body, &mut pairs);
    if pairs.iter().any(|pair| pair.path == [SECTION]) {
        return Err(AdoptError::OneLine { key: SECTION });
    }
    let lines = Lines::new(body);
    let headers = headers(&lines, &pairs);
    let mut edit = LineEdit::new(&lines);
    let mut place = None;
    for removal in change.removals {
        let is_inside =
            |path: &[String]| path.len() > 1 && path[0] == SECTION && path[1] == removal.name;
        let header_lines = headers.iter().filter(|(path, _)| is_inside(path)).map(|(_, it)| *it);
        place = place.into_iter().chain(header_lines.clone()).min();
        let pairs = pairs.iter().filter(|pair| is_inside(&pair.path));
        edit.remove(header_lines.map(|line| line..line + 1).collect());
        edit.remove(pairs.map(|pair| lines.covering(&pair.range)).collect());
        edit.close_gaps(is_blank_or_comment);
    }
    if let Some(entry) = change.entry {
        let written = entry_lines(entry, lines.newline());
        match place {
            Some(line) => edit.insert_at(line, written),
            None => edit.append_paragraph(written),
        }
    }
    Ok(format!("{mark}{}", edit.finish()))
}

fn entry_lines(entry: &PoolEntry, newline: &str) -> String {
    let string = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let arguments: Vec<String> = entry.arguments.iter().map(|it| string(it)).collect();
    format!(
        "[{SECTION}.{}]{newline}command = {}{newline}args = [{}]{newline}",
        entry.name,
        string(&entry.command),
        arguments.join(", ")
    )
}

fn is_blank_or_comment(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Collects every key with a value. An inline table is one value.
fn collect(table: &DeTable<'_>, path: &[String], text: &str, pairs: &mut Vec<KeyValue>) {
    for (key, value) in table {
        let path = [path, &[key.get_ref().to_string()]].concat();
        let is_inline = text[value.span()].starts_with('{');
        match value.get_ref() {
            DeValue::Table(inner) if !is_inline => collect(inner, &path, text, pairs),
            DeValue::Array(items) if is_array_of_tables(items.iter(), text) => {
                for item in items.iter().filter_map(|item| item.get_ref().as_table()) {
                    collect(item, &path, text, pairs);
                }
            }
            DeValue::Table(_)
            | DeValue::Array(_)
            | DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => {
                pairs.push(KeyValue { path, range: key.span().start..value.span().end });
            }
        }
    }
}

/// Is it written with `[[…]]` headers?
fn is_array_of_tables<'i, 't: 'i>(
    mut items: impl ExactSizeIterator<Item = &'i toml::Spanned<DeValue<'t>>>,
    text: &str,
) -> bool {
    items.len() > 0
        && items.all(|item| item.get_ref().is_table() && !text[item.span()].starts_with('{'))
}

/// The headers of tables: their keys and lines. A line inside a value is none.
fn headers(lines: &Lines<'_>, pairs: &[KeyValue]) -> Vec<(Vec<String>, usize)> {
    let mut in_value = vec![false; lines.len()];
    for pair in pairs {
        for line in lines.covering(&pair.range) {
            in_value[line] = true;
        }
    }
    (0..lines.len())
        .filter(|line| !in_value[*line] && lines.text(*line).trim_start().starts_with('['))
        .filter_map(|line| Some((header_keys(lines.text(line))?, line)))
        .collect()
}

/// The keys of one header line.
fn header_keys(line: &str) -> Option<Vec<String>> {
    let mut value = toml::Value::Table(line.trim_start().parse::<toml::Table>().ok()?);
    let mut keys = Vec::new();
    loop {
        value = match value {
            toml::Value::Table(table) => match table.into_iter().next() {
                Some((key, inner)) => {
                    keys.push(key);
                    inner
                }
                None => return Some(keys),
            },
            toml::Value::Array(items) => items.into_iter().next()?,
            toml::Value::String(_)
            | toml::Value::Integer(_)
            | toml::Value::Float(_)
            | toml::Value::Boolean(_)
            | toml::Value::Datetime(_) => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::adopt::tests::check;
    use crate::import::HostApp;

    #[test]
    fn tables_leave_and_comments_around_them_stay() {
        check(
            HostApp::Codex,
            "\
model = \"gpt\" # mine

# the documents
[mcp_servers.docs]
command = \"docs\"
# inside
args = [
  \"[not.a.header]\",
]

[mcp_servers.docs.env]
TOKEN = \"t\"

# about b
[mcp_servers.\"b c\"] # odd
url = \"https://b\"

[profiles.x]
model = \"y\"
",
            &["docs", "b c"],
            "\
model = \"gpt\" # mine

# the documents
[mcp_servers.switchboard]
command = \"swb\"
args = [\"serve\", \"--pool\"]

# about b

[profiles.x]
model = \"y\"
",
        );
    }

    #[test]
    fn inline_tables_and_dotted_keys_leave() {
        check(
            HostApp::Codex,
            "x = 1\r\n[mcp_servers]\r\na = { command = \"x\" } # a\r\nb.command = \"y\"\r\nb.args = []\r\nc = { command = \"z\" }\r\n",
            &["a", "b"],
            "x = 1\r\n[mcp_servers]\r\nc = { command = \"z\" }\r\n\r\n[mcp_servers.switchboard]\r\ncommand = \"swb\"\r\nargs = [\"serve\", \"--pool\"]\r\n",
        );
    }

    #[test]
    fn the_last_table_of_a_file_without_a_final_line_break_leaves() {
        check(
            HostApp::Codex,
            "[mcp_servers.keep]\ncommand = \"k\"\n\n[mcp_servers.a]\ncommand = \"x\"",
            &["a"],
            "[mcp_servers.keep]\ncommand = \"k\"\n\n[mcp_servers.switchboard]\ncommand = \"swb\"\nargs = [\"serve\", \"--pool\"]\n",
        );
    }

    #[test]
    fn a_file_without_servers_gets_a_table_at_its_end() {
        check(
            HostApp::Codex,
            "model = \"x\"",
            &[],
            "model = \"x\"\n\n[mcp_servers.switchboard]\ncommand = \"swb\"\nargs = [\"serve\", \"--pool\"]\n",
        );
    }

    #[test]
    fn servers_in_one_inline_table_are_refused() {
        check(
            HostApp::Codex,
            "mcp_servers = { a = { command = \"x\" } }\n",
            &["a"],
            "error: `mcp_servers` is written on one line; write each server on lines of its own",
        );
    }
}
