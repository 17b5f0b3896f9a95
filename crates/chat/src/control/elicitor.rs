//! Passes what servers ask the user on to the program.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use switchboard::elicitation::{
    Choice, ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor, FieldKind,
    FieldRequirement, Form, FormField, NumberKind, TextFormat,
};

use crate::control::peer::{ControlError, ControlPeer};

/// Asks the program.
#[derive(Debug, Clone)]
pub struct SdkElicitor {
    peer: ControlPeer,
}

impl SdkElicitor {
    /// Asks the program at the other end of this channel.
    pub fn new(peer: ControlPeer) -> SdkElicitor {
        SdkElicitor { peer }
    }
}

impl Elicitor for SdkElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(async move {
            let Some(request) = request(elicitation) else {
                return ElicitResult::Decline("programs are not asked for sampling".to_owned());
            };
            match self.peer.request(&request).await {
                Ok(answer) => result(&answer),
                Err(ControlError::Closed) => {
                    ElicitResult::Cancel("the program ended its input".to_owned())
                }
                Err(error @ (ControlError::Refused(_) | ControlError::TooLarge(_))) => {
                    ElicitResult::Decline(format!("the program does not answer: {error}"))
                }
            }
        })
    }
}

fn request(elicitation: &Elicitation) -> Option<Json> {
    let server = &elicitation.server;
    Some(match &elicitation.kind {
        ElicitationKind::Form(form) => json!({
            "subtype": "elicitation", "mcp_server_name": server, "message": form.message,
            "mode": "form", "requested_schema": schema(form),
            "property_order": form.fields.iter().map(|it| &it.name).collect::<Vec<_>>(),
        }),
        ElicitationKind::Url(url) => json!({
            "subtype": "elicitation", "mcp_server_name": server, "message": url.message,
            "mode": "url", "url": url.url.as_str(), "elicitation_id": url.id,
        }),
        ElicitationKind::Sampling(_) => return None,
    })
}

fn result(answer: &Json) -> ElicitResult {
    match answer["action"].as_str() {
        Some("accept") => {
            ElicitResult::Accept(answer["content"].as_object().cloned().unwrap_or_default())
        }
        Some("cancel") => ElicitResult::Cancel("the program cancelled".to_owned()),
        Some(_) | None => ElicitResult::Decline("the program declined".to_owned()),
    }
}

/// The schema of a form, as servers write it.
fn schema(form: &Form) -> Json {
    let is_required = |it: &&FormField| it.requirement == FieldRequirement::Required;
    let required: Vec<&String> =
        form.fields.iter().filter(is_required).map(|it| &it.name).collect();
    let properties: Map<String, Json> =
        form.fields.iter().map(|it| (it.name.clone(), field_schema(it))).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn field_schema(field: &FormField) -> Json {
    let mut members: BTreeMap<&str, Json> = BTreeMap::new();
    let mut set = |name: &'static str, value: Option<Json>| {
        if let Some(value) = value {
            members.insert(name, value);
        }
    };
    set("title", field.title.clone().map(Json::from));
    set("description", field.description.clone().map(Json::from));
    set("default", field.default.clone());
    match &field.kind {
        FieldKind::Text { min_length, max_length, format } => {
            set("type", Some("string".into()));
            set("minLength", min_length.map(Json::from));
            set("maxLength", max_length.map(Json::from));
            set("format", format.map(|it| format_id(it).into()));
        }
        FieldKind::Number { number_kind, least, most } => {
            let kind = match number_kind {
                NumberKind::Integer => "integer",
                NumberKind::Any => "number",
            };
            set("type", Some(kind.into()));
            set("minimum", least.map(Json::from));
            set("maximum", most.map(Json::from));
        }
        FieldKind::Boolean => set("type", Some("boolean".into())),
        FieldKind::SingleSelect(choices) => {
            set("type", Some("string".into()));
            set("oneOf", Some(choices_schema(choices)));
        }
        FieldKind::MultiSelect { choices, least, most } => {
            set("type", Some("array".into()));
            set("items", Some(json!({"anyOf": choices_schema(choices)})));
            set("minItems", least.map(Json::from));
            set("maxItems", most.map(Json::from));
        }
    }
    json!(members)
}

fn choices_schema(choices: &[Choice]) -> Json {
    choices.iter().map(|it| json!({"const": it.value, "title": it.title})).collect()
}

fn format_id(format: TextFormat) -> &'static str {
    match format {
        TextFormat::Email => "email",
        TextFormat::Uri => "uri",
        TextFormat::Date => "date",
        TextFormat::DateTime => "date-time",
    }
}
