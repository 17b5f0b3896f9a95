//! Answers elicitations from a prepared list, for runs without a user. Elicitations that no answer matches go to a
//! fallback.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use switchboard_config::permission::Glob;
use thiserror::Error;

use crate::elicitation::elicitor::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor, WaitFuture,
};

/// Prepared answers and the elicitor for everything else.
#[derive(Clone)]
pub struct ScriptedAnswers {
    answers: Vec<ScriptedAnswer>,
    fallback: Arc<dyn Elicitor>,
}

impl std::fmt::Debug for ScriptedAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ScriptedAnswers({})", self.answers.len())
    }
}

/// One prepared answer. Fields that are absent match anything.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedAnswer {
    /// A pattern for the server's name; `*` matches any characters.
    #[serde(default)]
    server: Option<String>,
    /// A pattern for the message.
    #[serde(default)]
    message: Option<String>,
    /// A pattern for the URL. URL elicitations are answered only if this is set.
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    action: AnswerAction,
    #[serde(default)]
    content: Map<String, Json>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AnswerAction {
    #[default]
    Accept,
    Decline,
    Cancel,
}

/// The text is not a valid list of answers.
#[derive(Debug, Error)]
#[error(
    "answers are an object of a form's fields, or {{\"answers\": [{{\"server\": …, \"message\": …, \"content\": {{…}}}}]}}"
)]
pub struct ScriptedAnswersError(#[source] Option<serde_json::Error>);

impl ScriptedAnswers {
    /// Parses answers: a list under `answers`, or an object with the fields of any form.
    pub fn parse(
        text: &str,
        fallback: Arc<dyn Elicitor>,
    ) -> Result<ScriptedAnswers, ScriptedAnswersError> {
        let json: Json =
            serde_json::from_str(text).map_err(|error| ScriptedAnswersError(Some(error)))?;
        let Json::Object(mut members) = json else { return Err(ScriptedAnswersError(None)) };
        let answers = match members.remove("answers") {
            Some(list @ Json::Array(_)) if members.is_empty() => {
                serde_json::from_value(list).map_err(|error| ScriptedAnswersError(Some(error)))?
            }
            Some(_) => return Err(ScriptedAnswersError(None)),
            None => vec![ScriptedAnswer {
                server: None,
                message: None,
                url: None,
                action: AnswerAction::Accept,
                content: members,
            }],
        };
        Ok(ScriptedAnswers { answers, fallback })
    }

    fn reply(&self, elicitation: &Elicitation) -> Option<ElicitResult> {
        let answer = self.answers.iter().find(|it| it.matches(elicitation))?;
        let reason = || "decided by the prepared answers".to_owned();
        Some(match answer.action {
            AnswerAction::Accept => ElicitResult::Accept(answer.content.clone()),
            AnswerAction::Decline => ElicitResult::Decline(reason()),
            AnswerAction::Cancel => ElicitResult::Cancel(reason()),
        })
    }
}

impl ScriptedAnswer {
    fn matches(&self, elicitation: &Elicitation) -> bool {
        let pattern_matches = |pattern: &Option<String>, text: &str| {
            pattern.as_ref().is_none_or(|it| Glob::parse(it).matches(text))
        };
        let kind_matches = match &elicitation.kind {
            ElicitationKind::Form(form) => {
                self.url.is_none() && pattern_matches(&self.message, &form.message)
            }
            ElicitationKind::Url(url_elicitation) => {
                self.url.is_some()
                    && pattern_matches(&self.url, url_elicitation.url.as_str())
                    && pattern_matches(&self.message, &url_elicitation.message)
            }
            // Prepared answers never permit sampling.
            ElicitationKind::Sampling(_) => false,
        };
        kind_matches && pattern_matches(&self.server, &elicitation.server)
    }
}

impl Elicitor for ScriptedAnswers {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        match self.reply(elicitation) {
            Some(reply) => Box::pin(std::future::ready(reply)),
            None => self.fallback.elicit(elicitation),
        }
    }

    fn wait_for_completion<'a>(&'a self, elicitation: &'a Elicitation) -> WaitFuture<'a> {
        self.fallback.wait_for_completion(elicitation)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::elicitation::elicitor::{DeclineAll, UrlElicitation};
    use crate::elicitation::form::Form;

    fn scripted(answers: &Json) -> ScriptedAnswers {
        ScriptedAnswers::parse(&answers.to_string(), Arc::new(DeclineAll::default()))
            .expect("answers")
    }

    fn form(server: &str, message: &str) -> Elicitation {
        let params = json!({"message": message, "requestedSchema": {"properties": {}}});
        let kind = ElicitationKind::Form(Form::parse(&params).expect("a form"));
        Elicitation { server: server.to_owned(), kind }
    }

    fn visit(url: &str) -> Elicitation {
        let visit = UrlElicitation::parse(&json!({"url": url, "message": "Go."}))
            .expect("a URL elicitation");
        Elicitation { server: "s".to_owned(), kind: ElicitationKind::Url(visit) }
    }

    #[tokio::test]
    async fn the_first_matching_answer_counts_and_the_rest_goes_to_the_fallback() {
        let answers = scripted(&json!({"answers": [
            {"server": "bank*", "action": "decline"},
            {"message": "*name*", "content": {"name": "Ada"}},
            {"url": "https://example.com/*"},
        ]}));
        let ada = json!({"name": "Ada"}).as_object().cloned().unwrap_or_default();
        let declined = ElicitResult::Decline("no user is present to answer".to_owned());
        assert_eq!(answers.elicit(&form("s", "Your name?")).await, ElicitResult::Accept(ada));
        assert!(matches!(
            answers.elicit(&form("bank1", "Your name?")).await,
            ElicitResult::Decline(_)
        ));
        assert_eq!(answers.elicit(&form("s", "Your age?")).await, declined);
        let yes = ElicitResult::Accept(Map::new());
        assert_eq!(answers.elicit(&visit("https://example.com/sign")).await, yes);
        assert_eq!(answers.elicit(&visit("https://example.org/sign")).await, declined);
    }

    #[tokio::test]
    async fn plain_fields_answer_every_form_and_no_url() {
        let answers = scripted(&json!({"name": "Ada"}));
        assert!(matches!(answers.elicit(&form("s", "x")).await, ElicitResult::Accept(_)));
        assert!(matches!(
            answers.elicit(&visit("https://example.com/")).await,
            ElicitResult::Decline(_)
        ));
    }

    #[test]
    fn invalid_answers_are_rejected() {
        for text in ["", "[]", "{", r#"{"answers": {}}"#, r#"{"answers": [{"sever": "x"}]}"#] {
            assert!(
                ScriptedAnswers::parse(text, Arc::new(DeclineAll::default())).is_err(),
                "{text}"
            );
        }
    }
}
