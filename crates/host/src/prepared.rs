//! Answers that somebody wrote down beforehand, for runs where nobody is there. What they do not answer goes on to
//! whoever is asked otherwise.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use switchboard_config::permission::Glob;
use thiserror::Error;

use crate::inquiry::{Ask, Asking, Inquiry, Reply, Subject, Waiting};

/// Prepared answers, and who is asked where there is none.
#[derive(Clone)]
pub struct Prepared {
    answers: Vec<Answer>,
    otherwise: Arc<dyn Ask>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({})", self.answers.len())
    }
}

/// One of them. What it does not name may be anything.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// Whose questions; `*` stands for any characters.
    #[serde(default)]
    server: Option<String>,
    /// Which message.
    #[serde(default)]
    message: Option<String>,
    /// Which address, of questions that send people somewhere. Those are only answered where this is there.
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    action: Action,
    #[serde(default)]
    content: Map<String, Json>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    #[default]
    Accept,
    Decline,
    Cancel,
}

/// Why a text holds no answers.
#[derive(Debug, Error)]
#[error(
    "answers are an object of a form's fields, or {{\"answers\": [{{\"server\": …, \"message\": …, \"content\": {{…}}}}]}}"
)]
pub struct PreparedError(#[source] Option<serde_json::Error>);

impl Prepared {
    /// Reads answers: a list of them under `answers`, or an object with the fields of whatever form comes.
    pub fn read(text: &str, otherwise: Arc<dyn Ask>) -> Result<Prepared, PreparedError> {
        let json: Json = serde_json::from_str(text).map_err(|error| PreparedError(Some(error)))?;
        let Json::Object(mut members) = json else { return Err(PreparedError(None)) };
        let answers = match members.remove("answers") {
            Some(list @ Json::Array(_)) if members.is_empty() => {
                serde_json::from_value(list).map_err(|error| PreparedError(Some(error)))?
            }
            Some(_) => return Err(PreparedError(None)),
            None => vec![Answer {
                server: None,
                message: None,
                url: None,
                action: Action::Accept,
                content: members,
            }],
        };
        Ok(Prepared { answers, otherwise })
    }

    fn reply(&self, inquiry: &Inquiry) -> Option<Reply> {
        let answer = self.answers.iter().find(|it| it.is_about(inquiry))?;
        let said = || "the prepared answers say so".to_owned();
        Some(match answer.action {
            Action::Accept => Reply::Accept(answer.content.clone()),
            Action::Decline => Reply::Decline(said()),
            Action::Cancel => Reply::Cancel(said()),
        })
    }
}

impl Answer {
    fn is_about(&self, inquiry: &Inquiry) -> bool {
        let fits = |pattern: &Option<String>, text: &str| {
            pattern.as_ref().is_none_or(|it| Glob::parse(it).matches(text))
        };
        let is_this = match &inquiry.subject {
            Subject::Form(form) => self.url.is_none() && fits(&self.message, &form.message),
            Subject::Visit(visit) => {
                self.url.is_some()
                    && fits(&self.url, visit.url.as_str())
                    && fits(&self.message, &visit.message)
            }
            // Nobody wrote down beforehand what a model may be told.
            Subject::Sample(_) => false,
        };
        is_this && fits(&self.server, &inquiry.server)
    }
}

impl Ask for Prepared {
    fn ask<'a>(&'a self, inquiry: &'a Inquiry) -> Asking<'a> {
        match self.reply(inquiry) {
            Some(reply) => Box::pin(std::future::ready(reply)),
            None => self.otherwise.ask(inquiry),
        }
    }

    fn wait<'a>(&'a self, inquiry: &'a Inquiry) -> Waiting<'a> {
        self.otherwise.wait(inquiry)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::form::Form;
    use crate::inquiry::{Nobody, Visit};

    fn prepared(answers: &Json) -> Prepared {
        Prepared::read(&answers.to_string(), Arc::new(Nobody::default())).expect("answers")
    }

    fn form(server: &str, message: &str) -> Inquiry {
        let params = json!({"message": message, "requestedSchema": {"properties": {}}});
        let subject = Subject::Form(Form::read(&params).expect("a form"));
        Inquiry { server: server.to_owned(), subject }
    }

    fn visit(url: &str) -> Inquiry {
        let visit = Visit::read(&json!({"url": url, "message": "Go."})).expect("a visit");
        Inquiry { server: "s".to_owned(), subject: Subject::Visit(visit) }
    }

    #[tokio::test]
    async fn the_first_answer_that_is_about_a_question_counts_and_the_rest_is_asked() {
        let answers = prepared(&json!({"answers": [
            {"server": "bank*", "action": "decline"},
            {"message": "*name*", "content": {"name": "Ada"}},
            {"url": "https://example.com/*"},
        ]}));
        let ada = json!({"name": "Ada"}).as_object().cloned().unwrap_or_default();
        let nobody = Reply::Decline("nobody is here to answer".to_owned());
        assert_eq!(answers.ask(&form("s", "Your name?")).await, Reply::Accept(ada));
        assert!(matches!(answers.ask(&form("bank1", "Your name?")).await, Reply::Decline(_)));
        assert_eq!(answers.ask(&form("s", "Your age?")).await, nobody);
        let yes = Reply::Accept(Map::new());
        assert_eq!(answers.ask(&visit("https://example.com/sign")).await, yes);
        assert_eq!(answers.ask(&visit("https://example.org/sign")).await, nobody);
    }

    #[tokio::test]
    async fn plain_fields_answer_every_form_and_no_address() {
        let answers = prepared(&json!({"name": "Ada"}));
        assert!(matches!(answers.ask(&form("s", "x")).await, Reply::Accept(_)));
        assert!(matches!(answers.ask(&visit("https://example.com/")).await, Reply::Decline(_)));
    }

    #[test]
    fn what_holds_no_answers_is_refused() {
        for text in ["", "[]", "{", r#"{"answers": {}}"#, r#"{"answers": [{"sever": "x"}]}"#] {
            assert!(Prepared::read(text, Arc::new(Nobody::default())).is_err(), "{text}");
        }
    }
}
