//! Answers questions in a conversation that plays itself in plain lines: what is asked is said, and what is answered too.

use std::fmt::Write;

use serde_json::{Map, Value as Json};
use switchboard::calling::{Consent, Consented, Consenting, Holds, PermissionQuestion};
use switchboard::config::shown::printable;
use switchboard::form::{Field, Form};
use switchboard::inquiry::{Ask, Asking, Inquiry, Reply, Subject, Waited, Waiting};

use crate::proposal::Proposal;
use crate::report;

/// Whoever answers.
#[derive(Debug)]
pub struct Prompter {
    written: Vec<(&'static str, String)>,
}

impl Prompter {
    /// Writes these into fields of these names.
    pub fn new(written: Vec<(&'static str, String)>) -> Prompter {
        Prompter { written }
    }

    fn value(&self, field: &Field) -> Option<Json> {
        let written = self.written.iter().find(|(name, _)| *name == field.name);
        let value = written.and_then(|(_, text)| field.parse(text).ok());
        value.or_else(|| field.default.clone())
    }

    fn fill(&self, server: &str, form: &Form) -> Reply {
        let mut text = format!("{} asks: {}\n", printable(server), printable(&form.message));
        let mut answers = Map::new();
        for field in &form.fields {
            let Some(value) = self.value(field) else { continue };
            let title = field.title.as_ref().unwrap_or(&field.name);
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _infallible = writeln!(text, "  {}: {}", printable(title), printable(&shown));
            answers.insert(field.name.clone(), value);
        }
        report::say(&text);
        Reply::Accept(answers)
    }
}

impl Consent for Prompter {
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        report::say(&format!("{}? y\n", Proposal::of_question(ask).question()));
        let who = "the script of the demonstration says yes".to_owned();
        Box::pin(async { Consented::Yes { who, holds: Holds::Once } })
    }

    fn note(&self, text: &str) {
        report::say(&format!("note: {}\n", printable(text)));
    }
}

impl Ask for Prompter {
    fn ask<'a>(&'a self, inquiry: &'a Inquiry) -> Asking<'a> {
        let reply = match &inquiry.subject {
            Subject::Form(form) => self.fill(&inquiry.server, form),
            Subject::Visit(_) | Subject::Sample(_) => {
                Reply::Decline("that is not in the script".to_owned())
            }
        };
        Box::pin(async { reply })
    }

    fn wait<'a>(&'a self, _inquiry: &'a Inquiry) -> Waiting<'a> {
        Box::pin(async { Waited::GivenUp })
    }
}
