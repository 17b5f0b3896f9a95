//! Answers the questions of the demo in plain mode, and prints each question with its answer.

use std::fmt::Write;

use serde_json::{Map, Value as Json};
use switchboard::config::display::printable;
use switchboard::elicitation::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor, Form, FormField,
    WaitFuture, WaitOutcome,
};
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};

use crate::output::report;
use crate::prompt::permission::ProposedCall;

/// The answers of the demo.
#[derive(Debug)]
pub struct DemoAnswers {
    form_values: Vec<(&'static str, String)>,
}

impl DemoAnswers {
    /// Answers that fill form fields by name.
    pub fn new(form_values: Vec<(&'static str, String)>) -> DemoAnswers {
        DemoAnswers { form_values }
    }

    fn value_for(&self, field: &FormField) -> Option<Json> {
        let form_values = self.form_values.iter().find(|(name, _)| *name == field.name);
        let value = form_values.and_then(|(_, text)| field.parse(text).ok());
        value.or_else(|| field.default.clone())
    }

    fn fill_form(&self, server: &str, form: &Form) -> ElicitResult {
        let mut text = format!("{} asks: {}\n", printable(server), printable(&form.message));
        let mut answers = Map::new();
        for field in &form.fields {
            let Some(value) = self.value_for(field) else { continue };
            let title = field.title.as_ref().unwrap_or(&field.name);
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _infallible = writeln!(text, "  {}: {}", printable(title), printable(&shown));
            answers.insert(field.name.clone(), value);
        }
        report::print_stdout(&text);
        ElicitResult::Accept(answers)
    }
}

impl PermissionPrompt for DemoAnswers {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        report::print_stdout(&format!(
            "{}? y\n",
            ProposedCall::from_request(request).question_text()
        ));
        let decided_by = "the script of the demonstration says yes".to_owned();
        Box::pin(async { PermissionDecision::Allow { decided_by, scope: GrantScope::Once } })
    }

    fn warn(&self, text: &str) {
        report::print_stdout(&format!("note: {}\n", printable(text)));
    }
}

impl Elicitor for DemoAnswers {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        let reply = match &elicitation.kind {
            ElicitationKind::Form(form) => self.fill_form(&elicitation.server, form),
            ElicitationKind::Url(_) | ElicitationKind::Sampling(_) => {
                ElicitResult::Decline("that is not in the script".to_owned())
            }
        };
        Box::pin(async { reply })
    }

    fn wait_for_completion<'a>(&'a self, _elicitation: &'a Elicitation) -> WaitFuture<'a> {
        Box::pin(async { WaitOutcome::GivenUp })
    }
}
