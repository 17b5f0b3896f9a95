//! Collects the problems of one source, each with its position and the line it is on.

use std::sync::Arc;

use super::Problem;
use super::kind::ProblemKind;
use crate::display::{self, ExcerptSubject};
use crate::document::{LineIndex, Node, Span};
use crate::schema::{is_known_key, is_like_known_word};
use crate::scope::Scope;
use crate::source::{Origin, Source};

/// The maximum number of excerpts per file.
const MAX_EXCERPTS: usize = 100;

/// Collects the problems of one source, with excerpts.
#[derive(Debug)]
pub struct Reporter<'a> {
    source: Arc<Source>,
    lines: &'a LineIndex<'a>,
    /// The problems so far.
    pub problems: Vec<Problem>,
    excerpts: usize,
}

impl<'a> Reporter<'a> {
    /// Creates a reporter without problems.
    pub fn new(source: &Arc<Source>, lines: &'a LineIndex<'a>) -> Reporter<'a> {
        Reporter { source: source.clone(), lines, problems: Vec::new(), excerpts: 0 }
    }

    /// Returns the scope of the source.
    pub(crate) fn scope(&self) -> Scope {
        self.source.scope
    }

    /// Returns the position of a span.
    pub fn origin(&self, span: Span) -> Origin {
        Origin { source: self.source.clone(), position: Some(self.lines.position(span.start)) }
    }

    /// Reports a problem at `span`.
    pub fn report(&mut self, span: Span, subject: ProblemSubject<'_>, kind: ProblemKind) {
        let origin = self.origin(span);
        // Has its own counter, because problems are moved out to the servers they belong to.
        let has_room = self.excerpts < MAX_EXCERPTS;
        self.excerpts += usize::from(has_room);
        let excerpt = origin.position.filter(|_| has_room).map(|position| {
            let end = self.lines.position(span.end);
            let line = self.lines.line(position.line);
            let about = ExcerptSubject {
                key: subject.key.rsplit('.').next().unwrap_or_default(),
                is_known_key: &is_known_key,
                is_like_known_word: &is_like_known_word,
            };
            let (line, column) = display::masked_excerpt(line, position.column - 1, &about);
            let room = line.chars().count().saturating_sub(column);
            let width = match end.line == position.line {
                true => end.column.saturating_sub(position.column),
                false => room,
            };
            Excerpt { line, column, width: width.min(room).max(1) }
        });
        let server = subject.server.map(str::to_owned);
        let key = (!subject.key.is_empty()).then(|| subject.key.to_owned());
        self.problems.push(Problem { origin, server, key, kind, excerpt });
    }

    /// Reports a value that is not of the expected type.
    pub(crate) fn report_wrong_type(
        &mut self,
        node: &Node,
        subject: ProblemSubject<'_>,
        expected: &'static str,
    ) {
        let kind = ProblemKind::WrongType { expected, found: node.kind() };
        self.report(node.span, subject, kind);
    }
}

/// The subject of a problem.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProblemSubject<'a> {
    /// The server's name in the file.
    pub server: Option<&'a str>,
    /// The dotted key, or an empty string.
    pub key: &'a str,
}

/// The line of a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The part of the line around the problem, with values masked.
    pub line: String,
    /// The column in that part, from 0.
    pub column: usize,
    /// The number of marked characters, at least 1.
    pub width: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::scope::Scope;

    #[test]
    fn a_syntax_error_is_shown_with_its_masked_line() {
        let text = "{\n  \"K\": \"canary\" \"x\"\n}";
        let source = Source::file(Scope::User, "settings.json");
        let error = Document::parse(text).expect_err("a comma is missing");
        let lines = LineIndex::new(text);
        let mut reporter = Reporter::new(&source, &lines);
        reporter.report(
            error.span(),
            ProblemSubject::default(),
            ProblemKind::Syntax(error.clone()),
        );
        let problem = &reporter.problems[0];
        assert_eq!(problem.origin.to_string(), "settings.json:2");
        assert_eq!(problem.kind.to_string(), "not valid JSON: expected comma");
        let excerpt = problem.excerpt.as_ref().expect("it has a line");
        assert_eq!(excerpt.line, "  \"K\": \"••••••\" \"•\"");
    }
}
