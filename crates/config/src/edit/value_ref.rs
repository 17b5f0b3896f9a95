//! One value of a parsed text, and the text with that value changed.

use serde_json::Value as Json;

use super::splice::{Container, EmptyLayout, Layout, indent_unit, line_ending};
use super::{EditError, SERVERS};
use crate::document::{Member, Node, Span, Value};

/// A value and the text that it is part of.
#[derive(Clone, Copy)]
pub(super) struct ValueRef<'t> {
    pub(super) text: &'t str,
    pub(super) node: &'t Node,
}

impl<'t> ValueRef<'t> {
    pub(super) fn require_object(&self, key: &str) -> Result<(), EditError> {
        match &self.node.value {
            Value::Object(_) => Ok(()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(wrong_type(key, "an object")),
        }
    }

    fn members(&self) -> &'t [Member] {
        match &self.node.value {
            Value::Object(members) => members,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => &[],
        }
    }

    /// Of a duplicate key the last one counts, so that one is changed.
    pub(super) fn index(&self, key: &str) -> Option<usize> {
        self.members().iter().rposition(|member| member.key == key)
    }

    pub(super) fn member(&self, key: &str) -> Option<ValueRef<'t>> {
        let index = self.index(key)?;
        Some(ValueRef { text: self.text, node: &self.members()[index].node })
    }

    /// Returns the member, unless its value is `null`, which counts as absent.
    pub(super) fn non_null_member(&self, key: &str) -> Option<ValueRef<'t>> {
        self.member(key).filter(|it| it.node.value != Value::Null)
    }

    pub(super) fn servers(&self) -> Result<Option<ValueRef<'t>>, EditError> {
        let servers = self.member(SERVERS);
        if let Some(servers) = &servers {
            servers.require_object(SERVERS)?;
        }
        Ok(servers)
    }

    fn container(&self) -> Container<'t> {
        let item =
            |member: &Member| Span { start: member.key_span.start, end: member.node.span.end };
        Container::new(self.text, self.node.span, self.members().iter().map(item).collect())
    }

    pub(super) fn set(&self, key: &str, value: &Json) -> String {
        match self.member(key) {
            Some(old) => old.replace(value),
            None => self.container().append(EmptyLayout::Expand, |layout| {
                format!("{}: {}", Json::from(key), render(value, layout))
            }),
        }
    }

    pub(super) fn remove(&self, key: &str) -> Option<String> {
        self.index(key).map(|index| self.container().remove(index))
    }

    fn replace(&self, value: &Json) -> String {
        let span = self.node.span;
        let old = &self.text[span.start..span.end];
        let line = self.text[..span.start].rsplit('\n').next().unwrap_or("");
        let layout = if old.contains('\n') {
            let indent = line.chars().take_while(|c| *c == ' ' || *c == '\t').collect();
            Layout::Block { indent, unit: indent_unit(self.text), newline: line_ending(self.text) }
        } else {
            Layout::Inline
        };
        let value = render(value, &layout);
        format!("{}{value}{}", &self.text[..span.start], &self.text[span.end..])
    }
}

pub(super) fn add_to_list(top: &ValueRef<'_>, key: &str, item: &str) -> Result<String, EditError> {
    let Some(list) = top.non_null_member(key) else {
        return Ok(top.set(key, &Json::from(vec![item])));
    };
    let elements = elements(&list, key)?;
    if elements.iter().any(|element| is_string(element, item)) {
        return Ok(top.text.to_owned());
    }
    let spans = elements.iter().map(|element| element.span).collect();
    let container = Container::new(top.text, list.node.span, spans);
    Ok(container.append(EmptyLayout::Inline, |_| Json::from(item).to_string()))
}

pub(super) fn remove_from_list(
    top: &ValueRef<'_>,
    key: &str,
    item: &str,
) -> Result<String, EditError> {
    let Some(list) = top.non_null_member(key) else { return Ok(top.text.to_owned()) };
    let elements = elements(&list, key)?;
    let Some(index) = elements.iter().position(|element| is_string(element, item)) else {
        return Ok(top.text.to_owned());
    };
    let spans = elements.iter().map(|element| element.span).collect();
    Ok(Container::new(top.text, list.node.span, spans).remove(index))
}

pub(super) fn elements<'t>(list: &ValueRef<'t>, key: &str) -> Result<&'t [Node], EditError> {
    match &list.node.value {
        Value::Array(elements) => Ok(elements),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Err(wrong_type(key, "a list"))
        }
    }
}

fn is_string(node: &Node, text: &str) -> bool {
    matches!(&node.value, Value::String(found) if found == text)
}

/// Renders a value. In a block, objects get lines of their own and arrays stay on one line.
fn render(value: &Json, layout: &Layout) -> String {
    match (value, layout) {
        (Json::Object(members), Layout::Block { indent, unit, newline }) if !members.is_empty() => {
            let inner =
                Layout::Block { indent: format!("{indent}{unit}"), unit: unit.clone(), newline };
            let member = |(key, value): (&String, &Json)| {
                format!("{indent}{unit}{}: {}", Json::from(key.as_str()), render(value, &inner))
            };
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{{newline}{}{newline}{indent}}}", members.join(&format!(",{newline}")))
        }
        (Json::Object(members), _) => {
            let member = |(key, value): (&String, &Json)| {
                format!("{}: {}", Json::from(key.as_str()), render(value, layout))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        (Json::Array(elements), _) => {
            let element = |element: &Json| render(element, &Layout::Inline);
            format!("[{}]", elements.iter().map(element).collect::<Vec<_>>().join(", "))
        }
        (Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_), _) => value.to_string(),
    }
}

fn wrong_type(key: &str, expected: &'static str) -> EditError {
    EditError::WrongType { key: key.to_owned(), expected }
}
