//! Variables in configured text: `$VAR`, `${VAR}`, `${VAR:-default}`, `$$`, and named secrets.
//! Parsing and expanding are pure; a secret stays a reference here and is fetched by `host`, late.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use crate::display;

/// Defaults may hold variables in turn, this deep; anything deeper is taken literally.
const MAX_DEFAULT_DEPTH: usize = 16;

/// The variables that a text may name.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The same variables and one more, which hides one of the same name.
    pub fn with(&self, name: &str, value: &str) -> Environment {
        let mut more = self.clone();
        more.0.insert(name.to_owned(), value.to_owned());
        more
    }

    /// A variable's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Environment {
        Environment(pairs.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}

/// A secret that is named instead of written.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SecretReference {
    /// `${keychain:NAME}`: an entry of the system's keychain.
    Keychain(String),
    /// `${file:PATH}`: the content of a file.
    File(String),
    /// `${cmd:COMMAND}`: what a command prints.
    Command(String),
}

impl SecretReference {
    /// What people may see of it: a command may hold a secret to get at a secret.
    pub fn masked(&self) -> String {
        match self {
            SecretReference::Command(command) => {
                format!("${{cmd:{}}}", display::masked_command(command))
            }
            SecretReference::Keychain(_) | SecretReference::File(_) => self.to_string(),
        }
    }

    fn parse(inside: &str) -> Option<SecretReference> {
        let (kind, rest) = inside.split_once(':')?;
        if rest.is_empty() {
            return None;
        }
        match kind {
            "keychain" => Some(SecretReference::Keychain(rest.to_owned())),
            "file" => Some(SecretReference::File(rest.to_owned())),
            "cmd" => Some(SecretReference::Command(rest.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Debug for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

/// The whole of it, as it is written and hashed; for people there is [`SecretReference::shown`].
impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretReference::Keychain(name) => write!(f, "${{keychain:{name}}}"),
            SecretReference::File(path) => write!(f, "${{file:{path}}}"),
            SecretReference::Command(command) => write!(f, "${{cmd:{command}}}"),
        }
    }
}

/// A text as people write it, parsed.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    raw: String,
    parts: Vec<TemplatePart>,
}

#[derive(Clone, PartialEq, Eq)]
enum TemplatePart {
    Literal(String),
    Variable { name: String, default: Option<Template>, written: String },
    Secret(SecretReference),
}

impl Template {
    /// Parses a text. Whatever is no variable stands for itself, so this cannot fail.
    pub fn parse(text: &str) -> Template {
        parse_at(text, 0)
    }

    /// A text in which nothing is a variable.
    pub fn from_literal(text: &str) -> Template {
        Template { raw: text.to_owned(), parts: vec![TemplatePart::Literal(text.to_owned())] }
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.raw
    }

    /// Is there nothing in it at all?
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The secrets it names, those in defaults included.
    pub fn secrets(&self) -> Vec<&SecretReference> {
        let mut found = Vec::new();
        for part in &self.parts {
            match part {
                TemplatePart::Literal(_) => {}
                TemplatePart::Secret(reference) => found.push(reference),
                TemplatePart::Variable { default, .. } => {
                    found.extend(default.iter().flat_map(Template::secrets));
                }
            }
        }
        found
    }

    /// Is it all literal, naming nothing?
    pub fn is_literal(&self) -> bool {
        self.as_literal().is_some()
    }

    /// The whole text, where it names nothing.
    pub fn as_literal(&self) -> Option<&str> {
        match &self.parts[..] {
            [] => Some(""),
            [TemplatePart::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Puts in what the variables hold. A missing one stays as written and is added to `missing`.
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
                TemplatePart::Secret(reference) => {
                    text.0.push(TextSegment::Secret(reference.clone()))
                }
                TemplatePart::Variable { name, default, written } => {
                    match (environment.get(name), default) {
                        (Some(value), _) => text.push(value),
                        (None, Some(default)) => default.expand_into(environment, missing, text),
                        (None, None) => {
                            missing.insert(variable_label(name, written));
                            text.push(written);
                        }
                    }
                }
            }
        }
    }

    /// What people may see of it: variables by name, defaults left out, literals through `literal`.
    pub fn masked_with(&self, literal: impl Fn(&str) -> String) -> String {
        let show = |part: &TemplatePart| match part {
            TemplatePart::Literal(text) => literal(text),
            TemplatePart::Secret(reference) => reference.masked(),
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

/// Prints nothing of the text: it may be a secret.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(…)")
    }
}

/// A text with its variables put in; named secrets are still names.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ExpandedText(Vec<TextSegment>);

/// A stretch of a [`Text`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum TextSegment {
    /// Characters.
    Plain(String),
    /// A secret to fetch when the text is used.
    Secret(SecretReference),
}

impl ExpandedText {
    /// A text with nothing left to fetch.
    pub fn plain(text: &str) -> ExpandedText {
        ExpandedText(vec![TextSegment::Plain(text.to_owned())])
    }

    /// The stretches in order.
    pub fn segments(&self) -> &[TextSegment] {
        &self.0
    }

    /// Is there anything left to fetch?
    pub fn has_secrets(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, TextSegment::Secret(_)))
    }

    /// The secrets that are left to fetch.
    pub fn secrets(&self) -> Vec<&SecretReference> {
        self.0
            .iter()
            .filter_map(|piece| match piece {
                TextSegment::Secret(reference) => Some(reference),
                TextSegment::Plain(_) => None,
            })
            .collect()
    }

    /// The whole text, secrets written as references.
    pub fn to_unresolved_string(&self) -> String {
        let piece = |piece: &TextSegment| match piece {
            TextSegment::Plain(text) => text.clone(),
            TextSegment::Secret(reference) => reference.to_string(),
        };
        self.0.iter().map(piece).collect()
    }

    fn push(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(TextSegment::Plain(last)) => last.push_str(text),
            Some(TextSegment::Secret(_)) | None => self.0.push(TextSegment::Plain(text.to_owned())),
        }
    }
}

/// Prints nothing of the text: it may be a secret.
impl fmt::Debug for ExpandedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text(…)")
    }
}

/// What may be said of a missing variable: `$word` in small letters may be the end of a password.
fn variable_label(name: &str, written: &str) -> String {
    let is_deliberate = written.starts_with("${") || !name.bytes().any(|b| b.is_ascii_lowercase());
    if is_deliberate { name.to_owned() } else { String::new() }
}

fn parse_at(text: &str, depth: usize) -> Template {
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
            TemplatePart::Variable { .. } | TemplatePart::Secret(_) => {
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

/// Reads what begins with the `$` at `dollar`; says where it ends.
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

/// Where each `{` is closed, found in one pass; braces inside must balance.
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
    fn all_three_spellings_are_expanded() {
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
    fn a_doubled_dollar_is_a_dollar_and_shields_what_follows() {
        check("$$HOST costs 5$$", "$HOST costs 5$", &[]);
        check("$${HOST}", "${HOST}", &[]);
    }

    #[test]
    fn what_is_no_variable_stands_for_itself() {
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
    fn named_secrets_stay_names() {
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
    fn people_see_names_but_no_defaults_and_no_literals() {
        let template = Template::parse("Bearer ${TOKEN:-hunter2} $HOST ${cmd:x}");
        assert_eq!(template.masked_with(|_| "•".to_owned()), "•${TOKEN:-…}•${HOST}•${cmd:x}");
        assert_eq!(format!("{template:?}"), "Template(…)");
        assert_eq!(format!("{:?}", ExpandedText::plain("hunter2")), "Text(…)");
    }

    #[test]
    fn a_tower_of_defaults_neither_crashes_nor_hangs() {
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
        fn any_text_can_be_shielded(text in ".*") {
            check(&text.replace('$', "$$"), &text, &[]);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[${}:A-C\\-_é ]{0,40}") {
            let mut missing = BTreeSet::new();
            let _expanded = Template::parse(&text).expand(&environment(), &mut missing);
        }
    }
}
