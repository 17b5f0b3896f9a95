//! Masks secrets in the text of a client's file, so that a difference of two texts can be shown.

use toml::de::{DeTable, DeValue};

use crate::display::{MASK, has_token_prefix, is_secret_name, looks_like_token, masked_url};
use crate::document::{Document, Node, Span, Value, strip_bom};
use crate::import::{FileFormat, HostApp, yaml_tree};

/// Objects of an entry whose values may all be secret.
const SECRET_SECTIONS: [&str; 9] = [
    "env",
    "environment",
    "envs",
    "headers",
    "http_headers",
    "oauth",
    "auth",
    "settings",
    "oauthAccount",
];

/// A string in a text, and the keys that lead to it. Elements of an array have the key of the array.
struct TextLeaf {
    keys: Vec<String>,
    text: String,
    /// The element before it in an array.
    previous: Option<String>,
    span: Span,
}

/// Returns the text with secrets replaced by a mask: values of environments and headers, values whose name says
/// that they are secret, and values that look like a token. A text that cannot be parsed is masked completely.
pub fn masked_text(app: HostApp, text: &str) -> String {
    let body = strip_bom(text);
    let Some(mut leaves) = leaves_of(app.format(), body) else {
        return if body.trim().is_empty() { body.to_owned() } else { format!("{MASK}\n") };
    };
    leaves.sort_by_key(|leaf| leaf.span.start);
    let mut masked = String::with_capacity(body.len());
    let mut at = 0;
    for leaf in leaves {
        let Some(shown) = masked_leaf(&leaf) else { continue };
        if leaf.span.start < at {
            continue;
        }
        let written = &body[leaf.span.start..leaf.span.end];
        let quote = written.chars().next().filter(|c| matches!(c, '"' | '\'')).map(String::from);
        let quote = quote.unwrap_or_default();
        masked.push_str(&without_tokens(&body[at..leaf.span.start]));
        masked.push_str(&format!("{quote}{shown}{quote}"));
        // A block of YAML ends where the next key starts.
        masked.push_str(&written[written.trim_end().len()..]);
        at = leaf.span.end;
    }
    masked.push_str(&without_tokens(&body[at..]));
    masked
}

/// Masks tokens in comments, where no key says what a word means.
fn without_tokens(text: &str) -> String {
    let is_separator = |c: char| c.is_whitespace() || "\"'`=:,;()[]{}".contains(c);
    let word = |word: &str| {
        let (text, separator) = match word.char_indices().next_back() {
            Some((at, last)) if is_separator(last) => word.split_at(at),
            Some(_) | None => (word, ""),
        };
        format!("{}{separator}", if has_token_prefix(text) { MASK } else { text })
    };
    text.split_inclusive(is_separator).map(word).collect()
}

/// What is shown in place of a string; `None` if it is shown as it is.
fn masked_leaf(leaf: &TextLeaf) -> Option<String> {
    let key = leaf.keys.last().map_or("", String::as_str);
    let in_secret_section = leaf.keys.iter().any(|key| SECRET_SECTIONS.contains(&key.as_str()));
    if in_secret_section || is_secret_name(key) {
        return Some(MASK.to_owned());
    }
    if let Some((flag, value)) = leaf.text.split_once('=')
        && flag.starts_with('-')
        && (is_secret_name(flag) || looks_like_token(value))
    {
        return Some(format!("{flag}={MASK}"));
    }
    let is_secret_flag =
        |flag: &str| flag.starts_with('-') && !flag.contains('=') && is_secret_name(flag);
    let follows_flag = leaf.previous.as_deref().is_some_and(is_secret_flag);
    if follows_flag || leaf.text.split([' ', '=', ':', ',']).any(looks_like_token) {
        return Some(MASK.to_owned());
    }
    let url = masked_url(&leaf.text);
    (leaf.text.contains("://") && url != leaf.text).then_some(url)
}

fn leaves_of(format: FileFormat, text: &str) -> Option<Vec<TextLeaf>> {
    let mut leaves = Vec::new();
    match format {
        FileFormat::Json => collect_node(&Document::parse(text).ok()?.root?, &[], &mut leaves),
        FileFormat::Yaml => collect_node(&yaml_tree::parse(text).ok()??, &[], &mut leaves),
        FileFormat::Toml => {
            collect_table(DeTable::parse(text).ok()?.get_ref(), &[], &mut leaves);
        }
    }
    Some(leaves)
}

fn collect_node(node: &Node, keys: &[String], leaves: &mut Vec<TextLeaf>) {
    match &node.value {
        Value::String(text) => leaves.push(TextLeaf {
            keys: keys.to_vec(),
            text: text.clone(),
            previous: None,
            span: node.span,
        }),
        // A number may be a password too; its key decides.
        Value::Number(text) if keys.last().is_some_and(|key| is_secret_name(key)) => {
            leaves.push(TextLeaf {
                keys: keys.to_vec(),
                text: text.clone(),
                previous: None,
                span: node.span,
            });
        }
        Value::Array(items) => {
            let mut previous: Option<String> = None;
            for item in items {
                let first = leaves.len();
                collect_node(item, keys, leaves);
                if let (Value::String(text), Some(leaf)) = (&item.value, leaves.get_mut(first)) {
                    leaf.previous = previous.replace(text.clone());
                }
            }
        }
        Value::Object(members) => {
            for member in members {
                let inner = [keys, std::slice::from_ref(&member.key)].concat();
                collect_node(&member.node, &inner, leaves);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn collect_table(table: &DeTable<'_>, keys: &[String], leaves: &mut Vec<TextLeaf>) {
    for (key, value) in table {
        let inner = [keys, &[key.get_ref().to_string()]].concat();
        let span = Span { start: value.span().start, end: value.span().end };
        collect_toml(value.get_ref(), span, &inner, leaves);
    }
}

fn collect_toml(value: &DeValue<'_>, span: Span, keys: &[String], leaves: &mut Vec<TextLeaf>) {
    match value {
        DeValue::String(text) => leaves.push(TextLeaf {
            keys: keys.to_vec(),
            text: text.to_string(),
            previous: None,
            span,
        }),
        DeValue::Array(items) => {
            let mut previous: Option<String> = None;
            for item in items {
                let first = leaves.len();
                let span = Span { start: item.span().start, end: item.span().end };
                collect_toml(item.get_ref(), span, keys, leaves);
                if let (DeValue::String(text), Some(leaf)) = (item.get_ref(), leaves.get_mut(first))
                {
                    leaf.previous = previous.replace(text.to_string());
                }
            }
        }
        DeValue::Table(table) => collect_table(table, keys, leaves),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_the_rest_stays() {
        assert_eq!(
            masked_text(
                HostApp::Cursor,
                r#"{ // mine: ghp_0123456789abcdefghij0123456789abcdef
  "mcpServers": {"a": {"command": "npx", "args": ["-y", "--token", "s3cret", "--key=x1", "b"],
    "env": {"MODE": "fast"}, "url": "https://u:pw@h/p?api_key=1", "headers": {"A": "b"}}},
  "apiKey": "x", "n": 5, "password": 1234
}"#,
            ),
            r#"{ // mine: •••
  "mcpServers": {"a": {"command": "npx", "args": ["-y", "--token", "•••", "--key=•••", "b"],
    "env": {"MODE": "•••"}, "url": "https://•••@h/p?api_key=•••", "headers": {"A": "•••"}}},
  "apiKey": "•••", "n": 5, "password": •••
}"#,
        );
        assert_eq!(
            masked_text(
                HostApp::Codex,
                "model = 'x'\n[mcp_servers.a]\ncommand = \"y\" # c\nargs = [\"--api-key\", \"s\"]\n\
                 [mcp_servers.a.env]\nK = 'v'\nbearer_token = \"\"\"a\nb\"\"\"\n"
            ),
            "model = 'x'\n[mcp_servers.a]\ncommand = \"y\" # c\nargs = [\"--api-key\", \"•••\"]\n\
             [mcp_servers.a.env]\nK = '•••'\nbearer_token = \"•••\"\n"
        );
        assert_eq!(
            masked_text(
                HostApp::Goose,
                "GOOSE_MODEL: m\nextensions:\n  a:\n    cmd: x # c\n    envs:\n      K: v\n      L: |\n        x\n        y\n    type: stdio\n"
            ),
            "GOOSE_MODEL: m\nextensions:\n  a:\n    cmd: x # c\n    envs:\n      K: •••\n      L: |\n        •••\n    type: stdio\n"
        );
    }

    #[test]
    fn a_text_that_cannot_be_parsed_is_masked_completely() {
        assert_eq!(masked_text(HostApp::Cursor, "{\"a\": s3cret"), "•••\n");
        assert_eq!(masked_text(HostApp::Cursor, ""), "");
    }
}
