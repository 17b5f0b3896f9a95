//! One object of a settings file. Its keys are checked when it is opened; each value is read, or reported if it
//! is not valid.

use std::collections::{BTreeMap, HashSet};
use std::str::FromStr;

use crate::document::{Member, Node, Span, Value, find_member};
use crate::entry::{is_client_metadata_url, is_https_url};
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
use crate::schema::{SettingsKey, nearest};
use crate::source::Origin;
use crate::template::Template;

/// An object under a key.
pub(crate) struct Section<'m, 'r, 'l> {
    key: &'static str,
    member: &'m Member,
    inner: &'m [Member],
    reporter: &'r mut Reporter<'l>,
}

impl<'m, 'r, 'l> Section<'m, 'r, 'l> {
    /// Opens the object under a key; `None` if it is absent, or reported if it is not an object.
    pub(crate) fn open(
        members: &'m [Member],
        key: &'static str,
        keys: &[SettingsKey],
        reporter: &'r mut Reporter<'l>,
    ) -> Option<Section<'m, 'r, 'l>> {
        let member = find_member(members, key).filter(|it| it.node.value != Value::Null)?;
        let Value::Object(inner) = &member.node.value else {
            let subject = ProblemSubject { server: None, key };
            reporter.report_wrong_type(&member.node, subject, "an object");
            return None;
        };
        let mut section = Section { key, member, inner, reporter };
        section.check_keys(keys);
        Some(section)
    }

    /// Opens an object in the array under a key; `None`, and reported, if it is not an object.
    pub(crate) fn of_item(
        (key, member): (&'static str, &'m Member),
        item: &'m Node,
        keys: &[SettingsKey],
        reporter: &'r mut Reporter<'l>,
    ) -> Option<Section<'m, 'r, 'l>> {
        let Value::Object(inner) = &item.value else {
            let subject = ProblemSubject { server: None, key };
            reporter.report_wrong_type(item, subject, "an object");
            return None;
        };
        let mut section = Section { key, member, inner, reporter };
        section.check_keys(keys);
        Some(section)
    }

    fn check_keys(&mut self, keys: &[SettingsKey]) {
        let mut seen = HashSet::new();
        for member in self.inner {
            if !keys.iter().any(|known| known.name == member.key) {
                let nearest = nearest(&member.key, keys.iter().map(|known| known.name));
                self.report(member.key_span, &member.key, ProblemKind::UnknownKey { nearest });
            } else if !seen.insert(member.key.as_str()) {
                self.report(member.key_span, &member.key, ProblemKind::DuplicateKey);
            }
        }
    }

    /// Reads a string.
    pub(crate) fn string(&mut self, name: &str) -> Option<String> {
        let member = find_member(self.inner, name)?;
        match &member.node.value {
            Value::String(text) => Some(text.clone()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {
                self.report_wrong_type(&member.node, name, "a string");
                None
            }
        }
    }

    /// Reads true or false.
    pub(crate) fn boolean(&mut self, name: &str) -> Option<bool> {
        let member = find_member(self.inner, name)?;
        match &member.node.value {
            Value::Bool(value) => Some(*value),
            Value::Null
            | Value::String(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {
                self.report_wrong_type(&member.node, name, "true or false");
                None
            }
        }
    }

    /// Reads an array of strings.
    pub(crate) fn strings(&mut self, name: &str) -> Option<Vec<String>> {
        let member = find_member(self.inner, name)?;
        let strings = match &member.node.value {
            Value::Array(items) => items
                .iter()
                .map(|it| match &it.value {
                    Value::String(text) => Some(text.clone()),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::Array(_)
                    | Value::Object(_) => None,
                })
                .collect(),
            Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Number(_)
            | Value::Object(_) => None,
        };
        if strings.is_none() {
            self.report_wrong_type(&member.node, name, "an array of strings");
        }
        strings
    }

    /// Reads a required string.
    pub(crate) fn required_string(&mut self, name: &str) -> Option<String> {
        if find_member(self.inner, name).is_none() {
            self.report_wrong_type(&self.member.node, name, "a string");
        }
        self.string(name)
    }

    /// Reads a string that may refer to a secret.
    pub(crate) fn template(&mut self, name: &str) -> Option<Template> {
        self.string(name).map(|text| Template::parse(&text))
    }

    /// Reads an https URL, or a URL of this machine.
    pub(crate) fn https_url(&mut self, name: &str) -> Option<String> {
        let text = self.string(name)?;
        if is_https_or_loopback(&text) {
            return Some(text);
        }
        let span = find_member(self.inner, name).map_or(self.member.node.span, |it| it.node.span);
        self.report(span, name, ProblemKind::InvalidUrl { schemes: "`https://`" });
        None
    }

    /// Reads the URL of a client metadata document.
    pub(crate) fn client_metadata_url(&mut self, name: &str) -> Option<String> {
        let text = self.string(name)?;
        if is_client_metadata_url(&text) {
            return Some(text);
        }
        let span = find_member(self.inner, name).map_or(self.member.node.span, |it| it.node.span);
        self.report(span, name, ProblemKind::InvalidClientMetadataUrl);
        None
    }

    /// Reads a required https URL, or a URL of this machine.
    pub(crate) fn required_https_url(&mut self, name: &str) -> Option<String> {
        if find_member(self.inner, name).is_none() {
            let kind = ProblemKind::InvalidUrl { schemes: "`https://`" };
            self.report(self.member.node.span, name, kind);
        }
        self.https_url(name)
    }

    /// Reads a port.
    pub(crate) fn port(&mut self, name: &str) -> Option<u16> {
        self.number(name, "a port number", |port| *port > 0)
    }

    /// Reads an integer above zero.
    pub(crate) fn positive_integer(&mut self, name: &str) -> Option<u64> {
        self.number(name, "a whole number above zero", |it| *it > 0)
    }

    fn number<T: FromStr>(
        &mut self,
        name: &str,
        expected: &'static str,
        is_valid: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let member = find_member(self.inner, name)?;
        let number = match &member.node.value {
            Value::Number(number) => number.parse().ok().filter(is_valid),
            Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        };
        if number.is_none() {
            self.report_wrong_type(&member.node, name, expected);
        }
        number
    }

    /// Reads a string that `parse` accepts.
    pub(crate) fn optional_one_of<T>(
        &mut self,
        name: &str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        find_member(self.inner, name)?;
        self.one_of(name, expected, parse)
    }

    /// Reads a required string that `parse` accepts.
    pub(crate) fn one_of<T>(
        &mut self,
        name: &str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let member = find_member(self.inner, name);
        let word = member.and_then(|it| match &it.node.value {
            Value::String(text) => parse(text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        });
        if word.is_none() {
            self.report_wrong_type(member.map_or(&self.member.node, |it| &it.node), name, expected);
        }
        word
    }

    /// Reads an object of strings that `parse` accepts. Others are reported and left out.
    pub(crate) fn words<T>(
        &mut self,
        name: &str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> BTreeMap<String, T> {
        let mut words = BTreeMap::new();
        let Some(member) = find_member(self.inner, name) else { return words };
        let Value::Object(inner) = &member.node.value else {
            self.report_wrong_type(&member.node, name, "an object");
            return words;
        };
        for member in inner {
            let word = match &member.node.value {
                Value::String(text) => parse(text),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => None,
            };
            match word {
                Some(word) => {
                    words.insert(member.key.clone(), word);
                }
                None => {
                    let key = format!("{name}.{}", member.key);
                    self.report_wrong_type(&member.node, &key, expected);
                }
            }
        }
        words
    }

    /// Returns the position of the section.
    pub(crate) fn origin(&self) -> Origin {
        self.reporter.origin(self.member.key_span)
    }

    fn report_wrong_type(&mut self, node: &Node, name: &str, expected: &'static str) {
        let kind = ProblemKind::WrongType { expected, found: node.kind() };
        self.report(node.span, name, kind);
    }

    fn report(&mut self, span: Span, name: &str, kind: ProblemKind) {
        let key = format!("{}.{name}", self.key);
        self.reporter.report(span, ProblemSubject { server: None, key: &key }, kind);
    }
}

fn is_https_or_loopback(text: &str) -> bool {
    let is_local = url::Url::parse(text).is_ok_and(|url| {
        url.scheme() == "http"
            && matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
    });
    is_https_url(text) || is_local
}
