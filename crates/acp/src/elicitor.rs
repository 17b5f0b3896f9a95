//! Elicitations of servers as elicitations of the editor. An editor without them gets a dialog with options where the
//! elicitation has few answers; otherwise it is declined with the reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent_client_protocol_schema::v1::{
    ClientCapabilities, PermissionOption, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionResponse, ToolCallContent, ToolCallStatus, ToolKind,
};
use serde_json::{Map, Value as Json, json};
use switchboard::elicitation::{
    Choice, DENIED_BY_USER, ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor,
    FieldKind, FieldRequirement, Form, FormField, NumberKind, SamplingRequest, TextFormat,
    UrlElicitation,
};
use tokio::sync::mpsc;

use crate::client::{Client, ClientError};
use crate::method::{ELICITATION_CREATE, REQUEST_PERMISSION};
use crate::session_command::{EditorRequest, SessionCommand};

/// The most options of a dialog that replaces a form.
const MAX_OPTIONS: usize = 8;
/// The reason of an elicitation that the user dismissed.
const DISMISSED: &str = "you dismissed it";

/// Answers elicitations through the editor.
pub(crate) struct EditorElicitor {
    client: Client,
    commands: mpsc::WeakSender<SessionCommand>,
    capabilities: Arc<ClientCapabilities>,
    /// Numbers elicitations.
    count: AtomicU64,
}

impl EditorElicitor {
    pub(crate) fn new(
        client: Client,
        commands: mpsc::WeakSender<SessionCommand>,
        capabilities: Arc<ClientCapabilities>,
    ) -> EditorElicitor {
        EditorElicitor { client, commands, capabilities, count: AtomicU64::new(1) }
    }

    async fn answer(&self, elicitation: &Elicitation) -> Result<ElicitResult, ClientError> {
        let server = elicitation.server.as_str();
        let supported = self.capabilities.elicitation.as_ref();
        match &elicitation.kind {
            ElicitationKind::Form(form) if supported.is_some_and(|it| it.form.is_some()) => {
                let params = json!({
                    "mode": "form",
                    "message": with_server(server, &form.message),
                    "requestedSchema": form_schema(form),
                });
                let response = self.request(ELICITATION_CREATE, params).await?;
                Ok(elicit_result(&response))
            }
            ElicitationKind::Url(url) if supported.is_some_and(|it| it.url.is_some()) => {
                let params = json!({
                    "mode": "url",
                    "message": with_server(server, &url.message),
                    "url": url.url.as_str(),
                    "elicitationId": url.id.clone().unwrap_or_else(|| self.next_id("elicitation")),
                });
                let response = self.request(ELICITATION_CREATE, params).await?;
                Ok(elicit_result(&response))
            }
            ElicitationKind::Form(form) => match form_options(form) {
                Some(options) => self.choose(server, &form.message, options).await,
                None => Ok(ElicitResult::Decline(
                    "the editor cannot show forms; answer it with `--answers` or in the terminal"
                        .to_owned(),
                )),
            },
            ElicitationKind::Url(url) => {
                let text = url_text(url);
                self.choose(server, &text, vec![answer("I opened the page", Map::new())]).await
            }
            ElicitationKind::Sampling(request) => {
                let text = sampling_text(request);
                self.choose(server, &text, vec![answer("Allow", Map::new())]).await
            }
        }
    }

    /// Lets the user choose between answers with the dialog of permission requests.
    async fn choose(
        &self,
        server: &str,
        message: &str,
        answers: Vec<FormAnswer>,
    ) -> Result<ElicitResult, ClientError> {
        let option = |(at, it): (usize, &FormAnswer)| {
            PermissionOption::new(at.to_string(), it.label.clone(), PermissionOptionKind::AllowOnce)
        };
        let mut options: Vec<PermissionOption> = answers.iter().enumerate().map(option).collect();
        let decline = "Decline".to_owned();
        options.push(PermissionOption::new("decline", decline, PermissionOptionKind::RejectOnce));
        let tool_call = json!({
            "toolCallId": self.next_id("elicitation"),
            "title": format!("{server} asks"),
            "kind": ToolKind::Other,
            "status": ToolCallStatus::Pending,
            "content": [ToolCallContent::from(message.to_owned())],
        });
        let params = json!({"toolCall": tool_call, "options": options});
        let response = self.request(REQUEST_PERMISSION, params).await?;
        let response: RequestPermissionResponse =
            serde_json::from_value(response).map_err(ClientError::InvalidResult)?;
        Ok(match response.outcome {
            RequestPermissionOutcome::Selected(selected) => {
                let at = selected.option_id.0.parse::<usize>().ok();
                match at.and_then(|at| answers.into_iter().nth(at)) {
                    Some(answer) => ElicitResult::Accept(answer.content),
                    None => ElicitResult::Decline(DENIED_BY_USER.to_owned()),
                }
            }
            RequestPermissionOutcome::Cancelled | _ => ElicitResult::Cancel(DISMISSED.to_owned()),
        })
    }

    async fn request(&self, method: &'static str, params: Json) -> Result<Json, ClientError> {
        let commands = self.commands.upgrade().ok_or(ClientError::Closed)?;
        let (request, response) = self.client.prepare();
        let request = EditorRequest { request, method, params, call_id: None };
        let sent = commands.send(SessionCommand::Ask(Box::new(request))).await;
        sent.map_err(|_| ClientError::Closed)?;
        drop(commands);
        response.await?.decode().map_err(ClientError::InvalidResult)
    }

    fn next_id(&self, kind: &str) -> String {
        format!("{kind}_{}", self.count.fetch_add(1, Ordering::Relaxed))
    }
}

impl Elicitor for EditorElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(async move {
            match self.answer(elicitation).await {
                Ok(result) => result,
                Err(error) => ElicitResult::Cancel(error.to_string()),
            }
        })
    }
}

/// An answer that the user can choose.
#[derive(Debug, Clone, PartialEq)]
struct FormAnswer {
    label: String,
    content: Map<String, Json>,
}

fn answer(label: &str, content: Map<String, Json>) -> FormAnswer {
    FormAnswer { label: label.to_owned(), content }
}

fn with_server(server: &str, message: &str) -> String {
    format!("{server}: {message}")
}

fn url_text(url: &UrlElicitation) -> String {
    format!("{}\n\nOpen this page in your browser:\n{}", url.message, url.url)
}

fn sampling_text(request: &SamplingRequest) -> String {
    let mut text = "It wants to send this to your model:".to_owned();
    if let Some(system) = &request.system_prompt {
        text.push_str(&format!("\n\nsystem: {system}"));
    }
    for (role, message) in &request.messages {
        text.push_str(&format!("\n\n{role}: {message}"));
    }
    text
}

/// The answers of a form with at most one field that has few values; none for other forms.
fn form_options(form: &Form) -> Option<Vec<FormAnswer>> {
    let (field, rest) = match &form.fields[..] {
        [] => return Some(vec![answer("Accept", Map::new())]),
        [field, rest @ ..] => (field, rest),
    };
    if !rest.is_empty() {
        return None;
    }
    let with = |label: &str, value: Json| {
        let content = Map::from_iter([(field.name.clone(), value)]);
        answer(label, content)
    };
    match &field.kind {
        FieldKind::Boolean => Some(vec![with("Yes", true.into()), with("No", false.into())]),
        FieldKind::SingleSelect(choices) if choices.len() <= MAX_OPTIONS => {
            Some(choices.iter().map(|it| with(&it.title, it.value.clone().into())).collect())
        }
        FieldKind::SingleSelect(_)
        | FieldKind::Text { .. }
        | FieldKind::Number { .. }
        | FieldKind::MultiSelect { .. } => None,
    }
}

/// A form as the schema that the editor gets.
fn form_schema(form: &Form) -> Json {
    let properties = form.fields.iter().map(|it| (it.name.clone(), field_schema(it)));
    let required = form.fields.iter().filter(|it| it.requirement == FieldRequirement::Required);
    json!({
        "type": "object",
        "properties": properties.collect::<Map<String, Json>>(),
        "required": required.map(|it| it.name.as_str()).collect::<Vec<_>>(),
    })
}

fn field_schema(field: &FormField) -> Json {
    let choices = |choices: &[Choice]| -> Json {
        choices.iter().map(|it| json!({"const": it.value, "title": it.title})).collect()
    };
    let mut schema = match &field.kind {
        FieldKind::Text { min_length, max_length, format } => {
            let format = format.map(|it| match it {
                TextFormat::Email => "email",
                TextFormat::Uri => "uri",
                TextFormat::Date => "date",
                TextFormat::DateTime => "date-time",
            });
            json!({"type": "string", "minLength": min_length, "maxLength": max_length, "format": format})
        }
        FieldKind::Number { number_kind, least, most } => match number_kind {
            NumberKind::Integer => {
                let whole = |it: &f64| Json::from(it.round() as i64);
                let (least, most) = (least.as_ref().map(whole), most.as_ref().map(whole));
                json!({"type": "integer", "minimum": least, "maximum": most})
            }
            NumberKind::Any => json!({"type": "number", "minimum": least, "maximum": most}),
        },
        FieldKind::Boolean => json!({"type": "boolean"}),
        FieldKind::SingleSelect(it) => json!({"type": "string", "oneOf": choices(it)}),
        FieldKind::MultiSelect { choices: it, least, most } => json!({
            "type": "array",
            "items": {"anyOf": choices(it)},
            "minItems": least,
            "maxItems": most,
        }),
    };
    schema["title"] = json!(field.title);
    schema["description"] = json!(field.description);
    schema["default"] = json!(field.default);
    if let Some(members) = schema.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    schema
}

fn elicit_result(response: &Json) -> ElicitResult {
    match response["action"].as_str() {
        Some("accept") => {
            ElicitResult::Accept(response["content"].as_object().cloned().unwrap_or_default())
        }
        Some("decline") => ElicitResult::Decline(DENIED_BY_USER.to_owned()),
        Some(_) | None => ElicitResult::Cancel(DISMISSED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::{ElicitationPropertySchema, ElicitationSchema};

    use super::*;

    fn form(properties: Json, required: Json) -> Form {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let params = json!({"message": "m", "requestedSchema": schema});
        match ElicitationKind::parse(&params).expect("a form") {
            ElicitationKind::Form(form) => form,
            ElicitationKind::Url(_) | ElicitationKind::Sampling(_) => panic!("not a form"),
        }
    }

    #[test]
    fn every_kind_of_field_is_one_that_the_protocol_knows() {
        let form = form(
            json!({
                "text": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 9, "format": "email", "default": "a@b.c"},
                "whole": {"type": "integer", "minimum": 1, "maximum": 5},
                "real": {"type": "number", "minimum": 0.5},
                "yes": {"type": "boolean", "description": "really"},
                "one": {"type": "string", "enum": ["a", "b"]},
                "many": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
            }),
            json!(["text", "one"]),
        );
        let schema: ElicitationSchema =
            serde_json::from_value(form_schema(&form)).expect("a schema");
        assert_eq!(schema.required, Some(vec!["text".to_owned(), "one".to_owned()]));
        let kinds: Vec<String> = schema
            .properties
            .iter()
            .map(|(name, it)| {
                let kind = match it {
                    ElicitationPropertySchema::String(_) => "string",
                    ElicitationPropertySchema::Number(_) => "number",
                    ElicitationPropertySchema::Integer(_) => "integer",
                    ElicitationPropertySchema::Boolean(_) => "boolean",
                    ElicitationPropertySchema::Array(_) => "array",
                    ElicitationPropertySchema::Other(_) | _ => "other",
                };
                format!("{name} {kind}")
            })
            .collect();
        assert_eq!(
            kinds,
            [
                "many array",
                "one string",
                "real number",
                "text string",
                "whole integer",
                "yes boolean"
            ]
        );
    }

    #[test]
    fn a_form_with_one_small_choice_becomes_a_dialog_with_options() {
        let labels = |form: &Form| {
            let answers = form_options(form)?;
            Some(answers.into_iter().map(|it| (it.label, Json::Object(it.content))).collect())
        };
        let one = form(json!({"one": {"type": "string", "enum": ["a", "b"]}}), json!(["one"]));
        let expected: Vec<(String, Json)> =
            vec![("a".to_owned(), json!({"one": "a"})), ("b".to_owned(), json!({"one": "b"}))];
        assert_eq!(labels(&one), Some(expected));
        let text = form(json!({"text": {"type": "string"}}), json!([]));
        assert_eq!(labels(&text), None);
    }
}
