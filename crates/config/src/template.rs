//! Variables in configured text: `$VAR`, `${VAR}`, `${VAR:-default}`, `$$`, and references to secrets.
//! Parsing and expansion are pure; a secret stays a reference here, and `host` fetches it when it is used.

mod environment;
mod expanded_text;
mod masked;
mod parser;
mod secret_reference;

use std::collections::BTreeSet;
use std::fmt;

pub use environment::Environment;
pub use expanded_text::{ExpandedText, TextSegment};
pub use masked::{
    LiteralText, ShownText, masked_arguments, masked_template, masked_url_template, shown_command,
    shown_text, shown_url, shown_value,
};
pub(crate) use parser::closing_braces;
pub use secret_reference::SecretReference;

/// A configured text, parsed.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    raw: String,
    parts: Vec<TemplatePart>,
}

#[derive(Clone, PartialEq, Eq)]
enum TemplatePart {
    Literal(String),
    Variable {
        name: String,
        default: Option<Template>,
        written: String,
    },
    Secret(SecretReference),
    /// A value that is never shown, only its name.
    Masked {
        name: String,
        value: String,
    },
}

impl Template {
    /// Parses a text. Everything that is not a variable is literal, so this cannot fail.
    pub fn parse(text: &str) -> Template {
        parser::parse_at(text, 0)
    }

    /// Creates a text without variables.
    pub fn from_literal(text: &str) -> Template {
        Template { raw: text.to_owned(), parts: vec![TemplatePart::Literal(text.to_owned())] }
    }

    /// Creates a text without variables that is shown as `${name}`: a value that may be secret.
    pub fn from_masked(name: &str, value: &str) -> Template {
        let part = TemplatePart::Masked { name: name.to_owned(), value: value.to_owned() };
        Template { raw: format!("${{{name}}}"), parts: vec![part] }
    }

    /// Replaces each `${NAME}` in the literal parts for which `resolve` returns a text. What is inserted is not searched
    /// again, and everything else stays.
    pub fn fill(&self, resolve: &mut dyn FnMut(&str) -> Option<Template>) -> Template {
        let mut filled = Template { raw: String::new(), parts: Vec::new() };
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => filled.push_filled(text, resolve),
                TemplatePart::Variable { name, default, written } => {
                    let default = default.as_ref().map(|it| it.fill(resolve));
                    filled.raw.push_str(written);
                    filled.parts.push(TemplatePart::Variable {
                        name: name.clone(),
                        default,
                        written: written.clone(),
                    });
                }
                TemplatePart::Secret(_) | TemplatePart::Masked { .. } => {
                    filled.raw.push_str(&part_text(part));
                    filled.parts.push(part.clone());
                }
            }
        }
        filled
    }

    fn push_filled(&mut self, text: &str, resolve: &mut dyn FnMut(&str) -> Option<Template>) {
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let inside = &rest[start + 2..];
            let found = inside
                .find('}')
                .and_then(|end| Some((resolve(&inside[..end])?, &inside[end + 1..])));
            match found {
                Some((inserted, after)) => {
                    self.push_literal(&rest[..start]);
                    self.raw.push_str(&inserted.raw);
                    for part in inserted.parts {
                        match part {
                            TemplatePart::Literal(text) => self.join_literal(&text),
                            TemplatePart::Variable { .. }
                            | TemplatePart::Secret(_)
                            | TemplatePart::Masked { .. } => self.parts.push(part),
                        }
                    }
                    rest = after;
                }
                None => {
                    self.push_literal(&rest[..start + 2]);
                    rest = inside;
                }
            }
        }
        self.push_literal(rest);
    }

    fn push_literal(&mut self, text: &str) {
        self.raw.push_str(text);
        self.join_literal(text);
    }

    /// Adjacent literals are one part, so that a text without variables stays recognisable as such.
    fn join_literal(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(TemplatePart::Literal(last)) => last.push_str(text),
            Some(
                TemplatePart::Variable { .. }
                | TemplatePart::Secret(_)
                | TemplatePart::Masked { .. },
            )
            | None => self.parts.push(TemplatePart::Literal(text.to_owned())),
        }
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.raw
    }

    /// Is the text empty?
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Returns the secret references, including those in defaults.
    pub fn secrets(&self) -> Vec<&SecretReference> {
        let mut found = Vec::new();
        for part in &self.parts {
            match part {
                TemplatePart::Literal(_) | TemplatePart::Masked { .. } => {}
                TemplatePart::Secret(reference) => found.push(reference),
                TemplatePart::Variable { default, .. } => {
                    found.extend(default.iter().flat_map(Template::secrets));
                }
            }
        }
        found
    }

    /// Does the text contain neither variables nor secret references?
    pub fn is_literal(&self) -> bool {
        self.as_literal().is_some()
    }

    /// Returns the whole text, if it is literal.
    pub fn as_literal(&self) -> Option<&str> {
        match &self.parts[..] {
            [] => Some(""),
            [TemplatePart::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Expands the variables. A missing one stays as written, and its name is added to `missing`.
    pub fn expand(
        &self,
        environment: &Environment,
        missing: &mut BTreeSet<String>,
    ) -> ExpandedText {
        let mut text = ExpandedText::default();
        self.expand_into(environment, missing, &mut text);
        text
    }

    fn expand_into(
        &self,
        environment: &Environment,
        missing: &mut BTreeSet<String>,
        text: &mut ExpandedText,
    ) {
        for part in &self.parts {
            match part {
                TemplatePart::Literal(literal) => text.push(literal),
                TemplatePart::Secret(reference) => text.push_secret(reference.clone()),
                TemplatePart::Masked { name, value } => text.push_variable(name, value),
                TemplatePart::Variable { name, default, written } => {
                    match (environment.get(name), default) {
                        (Some(value), _) if environment.is_of_user(name) => {
                            text.push_variable(name, value);
                        }
                        (Some(value), _) => text.push(value),
                        (None, Some(default)) => default.expand_into(environment, missing, text),
                        (None, None) => {
                            let label = variable_label(name, written);
                            match label.as_str() {
                                "" => text.push(written),
                                label => text.push_variable(label, written),
                            }
                            missing.insert(label);
                        }
                    }
                }
            }
        }
    }

    /// Returns the text for users: variables by name, defaults left out, literals through `literal`.
    pub fn masked_with(&self, literal: impl Fn(&str) -> String) -> String {
        let show = |part: &TemplatePart| match part {
            TemplatePart::Literal(text) => literal(text),
            TemplatePart::Secret(reference) => reference.masked(),
            TemplatePart::Masked { name, .. } => format!("${{{name}}}"),
            TemplatePart::Variable { name, default: None, written } => {
                match variable_label(name, written).as_str() {
                    "" => literal(written),
                    name => format!("${{{name}}}"),
                }
            }
            TemplatePart::Variable { name, default: Some(_), .. } => format!("${{{name}:-…}}"),
        };
        self.parts.iter().map(show).collect()
    }
}

/// Does not show the text, because it may be a secret.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(…)")
    }
}

/// The part as it is written in a text.
fn part_text(part: &TemplatePart) -> String {
    match part {
        TemplatePart::Literal(text) => text.clone(),
        TemplatePart::Variable { written, .. } => written.clone(),
        TemplatePart::Secret(reference) => reference.to_string(),
        TemplatePart::Masked { name, .. } => format!("${{{name}}}"),
    }
}

/// Returns the name of a missing variable for messages; empty for `$word` in lower case, which may be part of a
/// password.
fn variable_label(name: &str, written: &str) -> String {
    let is_deliberate = written.starts_with("${") || !name.bytes().any(|b| b.is_ascii_lowercase());
    if is_deliberate { name.to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn environment() -> Environment {
        [("HOST", "db.internal"), ("PORT", "5432"), ("EMPTY", ""), ("NESTED", "$HOST")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect()
    }

    #[track_caller]
    fn check(written: &str, expanded: &str, missing: &[&str]) {
        let mut not_found = BTreeSet::new();
        let text = Template::parse(written).expand(&environment(), &mut not_found);
        assert_eq!(text.to_unresolved_string(), expanded);
        assert_eq!(not_found.iter().map(String::as_str).collect::<Vec<_>>(), missing);
    }

    #[test]
    fn all_three_forms_are_expanded() {
        check("$HOST:${PORT}/${DB:-main}", "db.internal:5432/main", &[]);
        check("a$HOST.b", "adb.internal.b", &[]);
    }

    #[test]
    fn a_missing_variable_stays_as_written_and_is_reported() {
        check("x $NOPE y ${ALSO_NOPE}", "x $NOPE y ${ALSO_NOPE}", &["ALSO_NOPE", "NOPE"]);
    }

    #[test]
    fn defaults_nest_and_a_set_but_empty_variable_beats_its_default() {
        check("${A:-${B:-${PORT}}}", "5432", &[]);
        check("${A:-${B}}", "${B}", &["B"]);
        check("${A:-b:-c}", "b:-c", &[]);
        check("${EMPTY:-full}", "", &[]);
        check("${A:-{\"k\": {}}}", "{\"k\": {}}", &[]);
        check("${A:-}", "", &[]);
    }

    #[test]
    fn a_double_dollar_sign_is_a_literal_one() {
        check("$$HOST costs 5$$", "$HOST costs 5$", &[]);
        check("$${HOST}", "${HOST}", &[]);
    }

    #[test]
    fn everything_else_is_literal() {
        for text in
            ["$", "5$", "$1", "${}", "${1A}", "${A-b}", "${open", "${a b}", "^x$|y", "${user.key}"]
        {
            check(text, text, &[]);
        }
    }

    #[test]
    fn a_value_is_never_expanded_again() {
        check("$NESTED", "$HOST", &[]);
    }

    #[test]
    fn secrets_stay_references() {
        check("Bearer ${keychain:github}", "Bearer ${keychain:github}", &[]);
        let template = Template::parse("${T:-${cmd:pass show x | head -1}}${file:/run/t}");
        assert_eq!(
            template.secrets(),
            [
                &SecretReference::Command("pass show x | head -1".to_owned()),
                &SecretReference::File("/run/t".to_owned())
            ]
        );
        assert!(Template::parse("${keychain:}").secrets().is_empty());
    }

    #[test]
    fn masked_text_shows_names_but_no_defaults_and_no_literals() {
        let template = Template::parse("Bearer ${TOKEN:-hunter2} $HOST ${cmd:x}");
        assert_eq!(template.masked_with(|_| "•".to_owned()), "•${TOKEN:-…}•${HOST}•${cmd:x}");
        assert_eq!(format!("{template:?}"), "Template(…)");
        assert_eq!(format!("{:?}", ExpandedText::plain("hunter2")), "ExpandedText(…)");
    }

    #[test]
    fn filled_values_are_inserted_as_they_are_and_not_searched_again() {
        let resolve = |name: &str| match name {
            "a.key" => Some(Template::from_literal("$& ${b.key} $HOST")),
            "b.key" => Some(Template::parse("${keychain:token}")),
            "c.key" => Some(Template::from_masked("c.key", "hunter2")),
            _ => None,
        };
        let fill = |text: &str| {
            let filled = Template::parse(text).fill(&mut { resolve });
            let mut missing = BTreeSet::new();
            let expanded = filled.expand(&environment(), &mut missing).to_unresolved_string();
            (filled.masked_with(str::to_owned), expanded)
        };
        let check = |text: &str, shown: &str, expanded: &str| {
            assert_eq!(fill(text), (shown.to_owned(), expanded.to_owned()));
        };
        check("x=${a.key}!", "x=$& ${b.key} $HOST!", "x=$& ${b.key} $HOST!");
        check(
            "${b.key}${other.key}",
            "${keychain:token}${other.key}",
            "${keychain:token}${other.key}",
        );
        check("p=${c.key}", "p=${c.key}", "p=hunter2");
        check("${NOPE:-${c.key}}", "${NOPE:-…}", "hunter2");
        check("${${a.key}", "${$& ${b.key} $HOST", "${$& ${b.key} $HOST");
        check("${a.key", "${a.key", "${a.key");
        let joined = Template::from_literal("1${a.key}2").fill(&mut { resolve });
        assert!(joined.is_literal(), "adjacent literals are one");
    }

    #[test]
    fn deeply_nested_defaults_are_literal() {
        let open = "${A:-".repeat(50_000);
        for tower in [open.clone() + &"}".repeat(50_000), open] {
            let mut missing = BTreeSet::new();
            let text = Template::parse(&tower).expand(&environment(), &mut missing);
            assert!(text.to_unresolved_string().starts_with("${A:-"));
        }
    }

    proptest! {
        #[test]
        fn text_without_a_dollar_is_untouched(text in "[^$]*") {
            check(&text, &text, &[]);
        }

        #[test]
        fn any_text_can_be_escaped(text in ".*") {
            check(&text.replace('$', "$$"), &text, &[]);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[${}:A-C\\-_é ]{0,40}") {
            let mut missing = BTreeSet::new();
            let _expanded = Template::parse(&text).expand(&environment(), &mut missing);
        }
    }
}
