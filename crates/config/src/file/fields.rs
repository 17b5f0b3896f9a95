//! The members of one JSON object, read one by one with their types checked.

use std::collections::{HashMap, HashSet};

use crate::document::{Member, Node, Span, Value, find_member};
use crate::entry::TransportKind;
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
use crate::schema::{ENTRY_KEYS, EntryKey, nearest};
use crate::template::Template;

/// The members of an object, read one by one with their types checked.
pub(super) struct Fields<'n, 'r, 'l> {
    pub(super) server: &'n str,
    prefix: &'static str,
    span: Span,
    members: &'n [Member],
    pub(super) reporter: &'r mut Reporter<'l>,
}

impl<'n, 'r, 'l> Fields<'n, 'r, 'l> {
    pub(super) fn open(
        server: &'n str,
        prefix: &'static str,
        node: &'n Node,
        reporter: &'r mut Reporter<'l>,
    ) -> Option<Fields<'n, 'r, 'l>> {
        let Value::Object(members) = &node.value else {
            let subject = ProblemSubject { server: Some(server), key: prefix };
            reporter.report_wrong_type(node, subject, "an object");
            return None;
        };
        let mut fields = Fields { server, prefix, span: node.span, members, reporter };
        let mut seen = HashSet::new();
        for member in members {
            if !seen.insert(member.key.as_str()) {
                fields.report(member.key_span, &member.key, ProblemKind::DuplicateKey);
            }
        }
        Some(fields)
    }

    /// Of a duplicate key the last one counts, as in every JSON parser.
    pub(super) fn find(&self, key: &str) -> Option<&'n Member> {
        find_member(self.members, key)
    }

    pub(super) fn report(&mut self, span: Span, key: &str, kind: ProblemKind) {
        let key =
            if self.prefix.is_empty() { key.to_owned() } else { format!("{}.{key}", self.prefix) };
        self.reporter.report(span, ProblemSubject { server: Some(self.server), key: &key }, kind);
    }

    pub(super) fn report_wrong_type(&mut self, node: &Node, key: &str, expected: &'static str) {
        self.report(node.span, key, ProblemKind::WrongType { expected, found: node.kind() });
    }

    pub(super) fn string(&mut self, key: &str) -> Option<String> {
        let member = self.find(key)?;
        let Value::String(text) = &member.node.value else {
            self.report_wrong_type(&member.node, key, "a string");
            return None;
        };
        Some(text.clone())
    }

    pub(super) fn required(
        &mut self,
        key: &'static str,
        transport: TransportKind,
    ) -> Option<String> {
        let Some(member) = self.find(key) else {
            self.report(self.span, key, ProblemKind::MissingKey { key, transport });
            return None;
        };
        let text = self.string(key)?;
        if text.trim().is_empty() {
            self.report(member.node.span, key, ProblemKind::Empty);
            return None;
        }
        Some(text)
    }

    pub(super) fn boolean(&mut self, key: &str) -> bool {
        let Some(member) = self.find(key) else { return false };
        let Value::Bool(value) = member.node.value else {
            self.report_wrong_type(&member.node, key, "true or false");
            return false;
        };
        value
    }

    pub(super) fn number(&mut self, key: &str) -> Option<(String, Span)> {
        let member = self.find(key)?;
        let Value::Number(text) = &member.node.value else {
            self.report_wrong_type(&member.node, key, "a number");
            return None;
        };
        Some((text.clone(), member.node.span))
    }

    pub(super) fn strings(&mut self, key: &str) -> Option<Vec<String>> {
        let member = self.find(key)?;
        let Value::Array(elements) = &member.node.value else {
            self.report_wrong_type(&member.node, key, "an array of strings");
            return None;
        };
        let mut strings = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            match &element.value {
                Value::String(text) => strings.push(text.clone()),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => {
                    self.report_wrong_type(element, &format!("{key}[{index}]"), "a string");
                }
            }
        }
        Some(strings)
    }

    /// Reads an object of strings whose keys must be valid names.
    pub(super) fn string_map(
        &mut self,
        key: &str,
        of: &'static str,
        is_name: fn(&str) -> bool,
    ) -> Vec<(String, Template)> {
        let Some(member) = self.find(key) else { return Vec::new() };
        let Value::Object(members) = &member.node.value else {
            self.report_wrong_type(&member.node, key, "an object of strings");
            return Vec::new();
        };
        let mut pairs: Vec<(String, Template)> = Vec::with_capacity(members.len());
        let last: HashMap<&str, usize> =
            members.iter().enumerate().map(|(index, it)| (it.key.as_str(), index)).collect();
        for (index, member) in members.iter().enumerate() {
            // An invalid name may contain a value by mistake, so only its first part is shown.
            let label = match is_name(&member.key) {
                true => member.key.as_str(),
                false => member.key.split(['=', ':', ' ']).next().unwrap_or(""),
            };
            let full = format!("{key}.{label}");
            let Value::String(text) = &member.node.value else {
                self.report_wrong_type(&member.node, &full, "a string");
                continue;
            };
            if !is_name(&member.key) {
                self.report(member.key_span, &full, ProblemKind::InvalidName { of });
            } else if text.contains(['\n', '\r', '\0']) && (key == "headers" || text.contains('\0'))
            {
                self.report(member.node.span, &full, ProblemKind::ControlCharacter);
            } else if last.get(member.key.as_str()) == Some(&index) {
                pairs.push((member.key.clone(), Template::parse(text)));
            }
        }
        pairs
    }

    pub(super) fn report_unknown_keys(&mut self, known: &'static [EntryKey]) -> Vec<String> {
        let mut unknown = Vec::new();
        for member in self.members {
            if known.iter().any(|key| key.name == member.key) {
                continue;
            }
            let nearest = nearest(&member.key, known.iter().map(|key| key.name));
            self.report(member.key_span, &member.key, ProblemKind::UnknownKey { nearest });
            unknown.push(member.key.clone());
        }
        unknown
    }

    pub(super) fn report_ignored_keys(&mut self, transport: TransportKind) {
        for member in self.members {
            let key = ENTRY_KEYS.iter().find(|key| key.name == member.key);
            if key.is_some_and(|key| {
                !key.transports.is_empty() && !key.transports.contains(&transport)
            }) {
                self.report(member.key_span, &member.key, ProblemKind::NoEffect { transport });
            }
        }
    }
}
