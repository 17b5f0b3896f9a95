//! Tools for fields and keys.

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard_builtin::kit::HandlerError;

use crate::actions::fields::{OldText, TypingMode};
use crate::actions::keys::{KeyPress, Modifiers};
use crate::actions::page::Page;
use crate::actions::pointer::{Button, Purpose};
use crate::error::{BrowserError, Result};
use crate::shown_text::{clean, cut};
use crate::tools::act::{acts, begin, finish};
use crate::tools::registry::{Answer, CallScope, Registry};

/// The most fields of one form, and the longest text.
const MAX_FIELDS: usize = 50;
const MAX_TEXT: usize = 100_000;
/// The longest text that is typed key by key.
const MAX_KEYS: usize = 2000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypeArguments {
    /// Without it, into the element that has the focus.
    #[serde(rename = "ref")]
    reference: Option<String>,
    text: String,
    /// Press Enter afterwards.
    submit: Option<bool>,
    /// false adds to the text that is there.
    clear: Option<bool>,
    /// Key by key.
    slowly: Option<bool>,
    tab: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PressArguments {
    /// Such as Enter, ctrl+a, or several with spaces between.
    keys: String,
    #[serde(rename = "ref")]
    reference: Option<String>,
    tab: Option<u32>,
}

#[derive(Deserialize)]
struct FormArguments {
    fields: Vec<FormFieldValue>,
    submit: Option<String>,
    tab: Option<u32>,
}

#[derive(Deserialize)]
struct FormFieldValue {
    #[serde(rename = "ref")]
    reference: String,
    value: FieldInput,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FieldInput {
    Ticked(bool),
    Number(serde_json::Number),
    Text(String),
    Options(Vec<String>),
}

impl JsonSchema for FormArguments {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "FormArguments".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "properties": {
                "fields": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"ref": {"type": "string"}, "value": {"description": "Text, an option, a list of options, or true or false for boxes."}},
                    "required": ["ref", "value"],
                }},
                "submit": {"type": "string", "description": "The ref of a button to click afterwards."},
                "tab": {"type": "integer"},
            },
            "required": ["fields"],
            "additionalProperties": false,
        })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SelectArguments {
    #[serde(rename = "ref")]
    reference: String,
    /// Labels or values.
    options: Vec<String>,
    tab: Option<u32>,
}

/// Adds the tools.
pub(super) fn add(registry: &mut Registry) {
    registry.add("type", "Types text into a field, replacing what is there.", acts, type_text);
    registry.add("press_key", "Presses keys.", acts, press_key);
    registry.add(
        "fill_form",
        "Fills several fields, ticks boxes and chooses options.",
        acts,
        fill_form,
    );
    registry.add("select_option", "Chooses options of a select.", acts, select_option);
}

async fn type_text(
    scope: CallScope,
    it: TypeArguments,
) -> std::result::Result<Answer, HandlerError> {
    let mode = if it.slowly == Some(true) { TypingMode::Keys } else { TypingMode::Insert };
    let limit = if mode == TypingMode::Keys { MAX_KEYS } else { MAX_TEXT };
    if it.text.chars().count() > limit {
        let expected = format!("at most {limit} characters");
        return Err(BrowserError::Argument { name: "text", expected }.into());
    }
    let turn = begin(&scope, it.tab).await?;
    let page = &turn.page;
    let mark = page.mark()?;
    let done = match &it.reference {
        Some(reference) => {
            let element = page.element(reference)?;
            let old = if it.clear == Some(false) { OldText::Keep } else { OldText::Replace };
            page.fill(&element, &it.text, old, mode).await?
        }
        None => {
            match mode {
                TypingMode::Insert => page.insert_text(&it.text).await?,
                TypingMode::Keys => page.type_keys(&it.text).await?,
            }
            format!("typed {} characters", it.text.chars().count())
        }
    };
    if it.submit == Some(true) {
        page.press(&KeyPress::parse("Enter")?).await?;
    }
    page.settle(&mark).await;
    let done = if it.submit == Some(true) { format!("{done}, pressed Enter") } else { done };
    Ok(finish(&turn, &done, &mark))
}

async fn press_key(
    scope: CallScope,
    it: PressArguments,
) -> std::result::Result<Answer, HandlerError> {
    let keys: Vec<KeyPress> =
        it.keys.split_whitespace().take(100).map(KeyPress::parse).collect::<Result<_>>()?;
    if keys.is_empty() {
        return Err(BrowserError::UnknownKey(String::new()).into());
    }
    let turn = begin(&scope, it.tab).await?;
    let page = &turn.page;
    let mark = page.mark()?;
    if let Some(reference) = &it.reference {
        let element = page.element(reference)?;
        let place = page.locate(&element, Purpose::Use).await?;
        page.focus(&element).await?;
        drop(place);
    }
    for key in &keys {
        page.press(key).await?;
        if page.dialog().is_some() {
            break;
        }
    }
    page.settle(&mark).await;
    Ok(finish(&turn, &format!("pressed {}", cut(&clean(&it.keys), 60)), &mark))
}

async fn fill_form(
    scope: CallScope,
    it: FormArguments,
) -> std::result::Result<Answer, HandlerError> {
    if it.fields.is_empty() || it.fields.len() > MAX_FIELDS {
        let expected = format!("a list of 1 to {MAX_FIELDS} fields");
        return Err(BrowserError::Argument { name: "fields", expected }.into());
    }
    let turn = begin(&scope, it.tab).await?;
    let page = &turn.page;
    let mark = page.mark()?;
    let count = it.fields.len();
    for (at, field) in it.fields.iter().enumerate() {
        if let Err(error) = fill_one(page, field).await {
            let before = match at {
                0 => String::new(),
                _ => format!("; the {at} fields before it are filled"),
            };
            return Err(HandlerError::failed(clean(&cut(&format!("{error}{before}"), 900))));
        }
        if let Some(dialog) = page.dialog() {
            return Err(page.dialog_error(&dialog).into());
        }
    }
    let mut done = format!("filled {count} fields");
    if let Some(submit) = &it.submit {
        let element = page.element(submit)?;
        let place = page.locate(&element, Purpose::Use).await?;
        page.click(&place, Button::Left, 1, Modifiers::default()).await?;
        done += &format!(", clicked {}", place.what);
    }
    page.settle(&mark).await;
    Ok(finish(&turn, &done, &mark))
}

async fn fill_one(page: &Page, field: &FormFieldValue) -> Result<()> {
    let element = page.element(&field.reference)?;
    match &field.value {
        FieldInput::Ticked(wanted) => page.tick(&element, *wanted).await?,
        FieldInput::Options(options) => page.choose(&element, options).await?,
        FieldInput::Number(number) => {
            let text = number.to_string();
            page.fill(&element, &text, OldText::Replace, TypingMode::Insert).await?
        }
        FieldInput::Text(text) => {
            let filled = page.fill(&element, text, OldText::Replace, TypingMode::Insert).await;
            match filled {
                Err(BrowserError::WrongElement { reason, .. })
                    if reason.contains("select_option") =>
                {
                    page.choose(&element, std::slice::from_ref(text)).await?
                }
                other => other?,
            }
        }
    };
    Ok(())
}

async fn select_option(
    scope: CallScope,
    it: SelectArguments,
) -> std::result::Result<Answer, HandlerError> {
    let turn = begin(&scope, it.tab).await?;
    let page = &turn.page;
    let mark = page.mark()?;
    let element = page.element(&it.reference)?;
    let done = page.choose(&element, &it.options).await?;
    page.settle(&mark).await;
    Ok(finish(&turn, &done, &mark))
}
