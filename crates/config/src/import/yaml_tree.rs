//! Parses YAML into the tree of `document`, in which every value knows its position.
//! Plain scalars get the types of YAML's core schema. Aliases and keys that are not text are errors.

use saphyr_parser::{Event, Parser, ScalarStyle, Span as Mark};

use super::error::ImportErrorKind;
use crate::document::{Member, Node, Span, Value};

const MAX_DEPTH: usize = 128;

/// Why a text is not valid YAML, and at which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct YamlError {
    pub(crate) offset: usize,
    pub(crate) kind: ImportErrorKind,
}

/// Parses the first document of a text; `None` if it is empty.
pub(crate) fn parse(text: &str) -> Result<Option<Node>, YamlError> {
    let mut reader = TreeReader {
        events: Parser::new_from_str(text),
        offsets: text.char_indices().map(|(at, _)| at).chain([text.len()]).collect(),
        ascii: text.is_ascii(),
    };
    loop {
        let (event, mark) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            Event::StreamEnd | Event::DocumentEnd => return Ok(None),
            Event::Alias(_)
            | Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::SequenceEnd
            | Event::MappingStart(..)
            | Event::MappingEnd => {
                let root = reader.node(event, mark, 0)?;
                reader.expect_end()?;
                // A file of comments alone is an empty scalar.
                return Ok(Some(root).filter(|root| root.value != Value::Null));
            }
        }
    }
}

struct TreeReader<'t> {
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
    /// The byte of each character: the parser counts characters.
    offsets: Vec<usize>,
    ascii: bool,
}

impl<'t> TreeReader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Mark), YamlError> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(YamlError {
                offset: self.byte(error.marker().index()),
                kind: ImportErrorKind::NotYaml,
            }),
            None => Ok((Event::StreamEnd, Mark::default())),
        }
    }

    fn expect_end(&mut self) -> Result<(), YamlError> {
        let (mut event, mut mark) = self.next()?;
        if event == Event::DocumentEnd {
            (event, mark) = self.next()?;
        }
        match event == Event::StreamEnd {
            true => Ok(()),
            false => Err(self.error(mark, ImportErrorKind::TextAfterEnd)),
        }
    }

    fn byte(&self, character: usize) -> usize {
        match self.ascii {
            true => character.min(self.offsets.len() - 1),
            false => self.offsets.get(character).or(self.offsets.last()).copied().unwrap_or(0),
        }
    }

    fn error(&self, mark: Mark, kind: ImportErrorKind) -> YamlError {
        YamlError { offset: self.byte(mark.start.index()), kind }
    }

    fn span(&self, mark: Mark) -> Span {
        Span { start: self.byte(mark.start.index()), end: self.byte(mark.end.index()) }
    }

    fn node(&mut self, event: Event<'t>, mark: Mark, depth: usize) -> Result<Node, YamlError> {
        if depth > MAX_DEPTH {
            return Err(self.error(mark, ImportErrorKind::TooDeep));
        }
        let span = self.span(mark);
        match event {
            Event::Scalar(text, style, _, tag) => {
                let is_plain = style == ScalarStyle::Plain && tag.is_none();
                let value =
                    if is_plain { plain_value(&text) } else { Value::String(text.into_owned()) };
                Ok(Node { span, value })
            }
            Event::SequenceStart(..) => self.sequence(span, depth),
            Event::MappingStart(..) => self.mapping(span, depth),
            Event::Alias(_)
            | Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => Err(self.error(mark, ImportErrorKind::UnsupportedYaml)),
        }
    }

    fn sequence(&mut self, start: Span, depth: usize) -> Result<Node, YamlError> {
        let mut items = Vec::new();
        loop {
            let (event, mark) = self.next()?;
            if event == Event::SequenceEnd {
                let end = self.span(mark).end;
                let span = Span { start: start.start, end };
                return Ok(Node { span, value: Value::Array(items) });
            }
            items.push(self.node(event, mark, depth + 1)?);
        }
    }

    fn mapping(&mut self, start: Span, depth: usize) -> Result<Node, YamlError> {
        let mut members = Vec::new();
        loop {
            let (event, mark) = self.next()?;
            if event == Event::MappingEnd {
                let end = self.span(mark).end;
                let span = Span { start: start.start, end };
                return Ok(Node { span, value: Value::Object(members) });
            }
            let Event::Scalar(key, ..) = event else {
                return Err(self.error(mark, ImportErrorKind::UnsupportedYaml));
            };
            let key_span = self.span(mark);
            let (event, mark) = self.next()?;
            let node = self.node(event, mark, depth + 1)?;
            members.push(Member { key: key.into_owned(), key_span, node });
        }
    }
}

/// The value of a scalar without quotes, by the core schema of YAML 1.2.
fn plain_value(text: &str) -> Value {
    let is_number =
        || serde_json::from_str::<serde_json::Value>(text).is_ok_and(|it| it.is_number());
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        text if is_number() => Value::Number(text.to_owned()),
        text => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = match parse(text) {
            Ok(Some(root)) => root.to_json().to_string(),
            Ok(None) => "nothing".to_owned(),
            Err(YamlError { offset, kind }) => format!("{offset}: {kind}"),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn scalars_have_the_types_of_the_core_schema() {
        check(
            "a: 1\nb: 1.5\nc: yes\nd: \"1\"\ne: ~\nf:\ng: true\nh: 0x1\ni: !!str 1\n",
            r#"{"a":1,"b":1.5,"c":"yes","d":"1","e":null,"f":null,"g":true,"h":"0x1","i":"1"}"#,
        );
        check("# nothing\n", "nothing");
        check("", "nothing");
        check("---\na: [1, {b: c}]\n", r#"{"a":[1,{"b":"c"}]}"#);
        check("a: |\n  x\n  y\nb: 2\n", r#"{"a":"x\ny\n","b":2}"#);
    }

    #[test]
    fn values_know_their_bytes() {
        let text = "é: ü\nextensions:\n  ö: {a: \"ä\"}\n";
        let root = parse(text).expect("YAML").expect("a value");
        let Value::Object(members) = root.value else { panic!("an object") };
        assert_eq!(&text[members[0].node.span.start..members[0].node.span.end], "ü");
        assert_eq!(&text[members[1].key_span.start..members[1].key_span.end], "extensions");
        let Value::Object(inner) = &members[1].node.value else { panic!("an object") };
        assert_eq!(&text[inner[0].node.span.start..inner[0].node.span.end], "{a: \"ä\"}");
    }

    #[test]
    fn what_is_not_supported_is_an_error_with_its_position() {
        check("a: &x 1\nb: *x\n", "11: an alias or a key that is not text is not supported");
        check("[a]: 1\n", "0: an alias or a key that is not text is not supported");
        check("a: [1\n", "6: it is not YAML");
        check("a: 1\n---\nb: 2\n", "5: there is more text after the end");
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(parse(&deep).expect_err("too deep").kind, ImportErrorKind::TooDeep);
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
