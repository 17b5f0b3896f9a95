//! Parses `$VAR`, `${VAR}`, `${VAR:-default}`, `$$` and secret references in a text.

use std::collections::HashMap;

use super::secret_reference::SecretReference;
use super::{Template, TemplatePart};

/// How deep defaults may nest; deeper ones are literal.
const MAX_DEFAULT_DEPTH: usize = 16;

pub(super) fn parse_at(text: &str, depth: usize) -> Template {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let closings = if depth < MAX_DEFAULT_DEPTH { closing_braces(text) } else { HashMap::new() };
    let mut at = 0;
    while let Some(distance) = text[at..].find('$') {
        let dollar = at + distance;
        literal.push_str(&text[at..dollar]);
        let (part, end) = parse_dollar(text, dollar, &closings, depth);
        match part {
            TemplatePart::Literal(piece) => literal.push_str(&piece),
            TemplatePart::Variable { .. }
            | TemplatePart::Secret(_)
            | TemplatePart::Masked { .. } => {
                if !literal.is_empty() {
                    parts.push(TemplatePart::Literal(std::mem::take(&mut literal)));
                }
                parts.push(part);
            }
        }
        at = end;
    }
    literal.push_str(&text[at..]);
    if !literal.is_empty() {
        parts.push(TemplatePart::Literal(literal));
    }
    Template { raw: text.to_owned(), parts }
}

/// Parses what starts with the `$` at `dollar`, and returns its end.
fn parse_dollar(
    text: &str,
    dollar: usize,
    closings: &HashMap<usize, usize>,
    depth: usize,
) -> (TemplatePart, usize) {
    let after = &text[dollar + 1..];
    if after.starts_with('$') {
        return (TemplatePart::Literal("$".to_owned()), dollar + 2);
    }
    let name = leading_name(after);
    if !name.is_empty() {
        let end = dollar + 1 + name.len();
        return (variable(name, None, &text[dollar..end]), end);
    }
    let braced = closings.get(&(dollar + 1)).and_then(|close| {
        let end = close + 1;
        let part = parse_braced(&text[dollar + 2..*close], &text[dollar..end], depth)?;
        Some((part, end))
    });
    braced.unwrap_or_else(|| (TemplatePart::Literal("$".to_owned()), dollar + 1))
}

fn parse_braced(inside: &str, written: &str, depth: usize) -> Option<TemplatePart> {
    if let Some(reference) = SecretReference::parse(inside) {
        return Some(TemplatePart::Secret(reference));
    }
    let name = leading_name(inside);
    let after = &inside[name.len()..];
    if name.is_empty() {
        return None;
    }
    match after.strip_prefix(":-") {
        Some(default) => Some(variable(name, Some(parse_at(default, depth + 1)), written)),
        None if after.is_empty() => Some(variable(name, None, written)),
        None => None,
    }
}

fn variable(name: &str, default: Option<Template>, written: &str) -> TemplatePart {
    TemplatePart::Variable { name: name.to_owned(), default, written: written.to_owned() }
}

fn leading_name(text: &str) -> &str {
    let end = text
        .bytes()
        .enumerate()
        .find(|(index, byte)| {
            !(byte.is_ascii_alphabetic() || *byte == b'_' || (*index > 0 && byte.is_ascii_digit()))
        })
        .map_or(text.len(), |(index, _)| index);
    &text[..end]
}

/// Finds the closing brace of each `{` in one pass; braces inside must balance.
pub(crate) fn closing_braces(text: &str) -> HashMap<usize, usize> {
    let mut open = Vec::new();
    let mut closings = HashMap::new();
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open.push(index),
            b'}' => {
                if let Some(start) = open.pop() {
                    closings.insert(start, index);
                }
            }
            _ => {}
        }
    }
    closings
}
