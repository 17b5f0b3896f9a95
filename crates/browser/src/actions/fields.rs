//! Fields: filling, ticking, choosing.

use serde::Deserialize;
use serde_json::json;

use crate::actions::keys::{KeyPress, Modifiers};
use crate::actions::page::Page;
use crate::actions::pointer::{Button, ElementState, Purpose};
use crate::actions::world::ElementRef;
use crate::cdp::connection::CdpError;
use crate::error::{BrowserError, Result};
use crate::shown_text::{clean, quoted};

/// How text gets into a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypingMode {
    /// At once.
    Insert,
    /// Key by key.
    Keys,
}

/// What happens to the text that is in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OldText {
    Replace,
    Keep,
}

/// What the script says about a field.
#[derive(Debug, Deserialize)]
struct FieldState {
    state: String,
    #[serde(default)]
    what: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    native: bool,
    #[serde(default)]
    empty: bool,
}

/// What a field holds.
#[derive(Debug, Default, Deserialize)]
struct FieldValue {
    value: Option<String>,
    checked: Option<bool>,
    #[serde(default)]
    length: usize,
    #[serde(default)]
    secret: bool,
}

/// What the script says about a choice.
#[derive(Debug, Deserialize)]
struct Choice {
    state: String,
    #[serde(default)]
    what: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    count: usize,
}

impl Page {
    /// Puts text into a field, and returns what was done.
    pub(crate) async fn fill(
        &self,
        element: &ElementRef,
        text: &str,
        old: OldText,
        mode: TypingMode,
    ) -> Result<String> {
        let (frame, number) = (&element.frame, element.number);
        let replace = old == OldText::Replace;
        let mut field: FieldState =
            self.run(frame, "focusField", &json!([number, replace])).await?;
        if field.state == "unfocused" {
            // Some fields only appear where a picture of them is clicked.
            let place = self.locate(element, Purpose::Use).await?;
            self.click(&place, Button::Left, 1, Modifiers::default()).await?;
            field = self.run(frame, "focusField", &json!([number, replace])).await?;
        }
        let what = format!("{} (e{number})", clean(&field.what));
        let wrong = |reason: &str| BrowserError::WrongElement {
            what: what.clone(),
            reason: reason.to_owned(),
        };
        match field.state.as_str() {
            "ok" => {}
            "readonly" => return Err(wrong("is read-only")),
            "unfocused" => return Err(wrong("does not take text: it cannot have the focus")),
            "wrong" => {
                return Err(wrong(match field.kind.as_str() {
                    "select" => "is a list; use select_option",
                    "file" => "takes files; use upload",
                    _ => "takes no text; use click",
                }));
            }
            _ => {
                let state = ElementState {
                    state: field.state,
                    what: field.what,
                    kind: field.kind,
                    cover: String::new(),
                    x: 0.0,
                    y: 0.0,
                    width: 0.0,
                    height: 0.0,
                };
                state.check(element)?;
                return Err(wrong("cannot be filled"));
            }
        }
        if field.native {
            return self.fill_native(element, text, &what).await;
        }
        match mode {
            TypingMode::Keys => {
                if replace && !field.empty {
                    self.press(&KeyPress::parse("Delete")?).await?;
                }
                self.type_keys(text).await?;
            }
            TypingMode::Insert if text.is_empty() => {
                if replace && !field.empty {
                    self.press(&KeyPress::parse("Delete")?).await?;
                }
            }
            TypingMode::Insert => self.insert_text(text).await?,
        }
        if self.dialog().is_some() {
            return Ok(format!("typed into {what}"));
        }
        let held: FieldValue =
            self.run(frame, "valueOf", &json!([number])).await.unwrap_or_default();
        Ok(typed(&what, text, old, &held))
    }

    /// Fills a field that takes no typing, such as a date.
    async fn fill_native(&self, element: &ElementRef, text: &str, what: &str) -> Result<String> {
        let values = json!([element.number, text]);
        let held: FieldValue = self.run(&element.frame, "setNative", &values).await?;
        match held.value.as_deref() {
            Some(value) if value == text || !value.is_empty() => {
                Ok(format!("set {what} to {}", quoted(value, 60)))
            }
            Some(_) | None => Err(BrowserError::WrongElement {
                what: what.to_owned(),
                reason:
                    "does not accept this value; dates are 2026-12-31, times 23:59, colours #rrggbb"
                        .to_owned(),
            }),
        }
    }

    /// Ticks or unticks a box, or chooses a radio button.
    pub(crate) async fn tick(&self, element: &ElementRef, wanted: bool) -> Result<String> {
        let (frame, number) = (&element.frame, element.number);
        let held: FieldValue = self.run(frame, "valueOf", &json!([number])).await?;
        let place = self.locate(element, Purpose::Use).await?;
        if held.checked != Some(wanted) {
            self.click(&place, Button::Left, 1, Modifiers::default()).await?;
        }
        let held: FieldValue = self.run(frame, "valueOf", &json!([number])).await?;
        match held.checked {
            Some(checked) if checked != wanted => Err(BrowserError::WrongElement {
                what: place.what,
                reason: "did not change when it was clicked".to_owned(),
            }),
            Some(true) => Ok(format!("ticked {}", place.what)),
            Some(false) => Ok(format!("unticked {}", place.what)),
            None => Ok(format!("clicked {}", place.what)),
        }
    }

    /// Chooses options of a list.
    pub(crate) async fn choose(&self, element: &ElementRef, values: &[String]) -> Result<String> {
        let arguments = json!([element.number, values]);
        let choice: Choice = self.run(&element.frame, "selectOptions", &arguments).await?;
        let what = format!("{} (e{})", clean(&choice.what), element.number);
        let wrong = |reason: String| Err(BrowserError::WrongElement { what: what.clone(), reason });
        match choice.state.as_str() {
            "ok" => Ok(format!("chose {} in {what}", quoted(&choice.value, 80))),
            "missing" => {
                let options: Vec<String> = choice.options.iter().map(|it| quoted(it, 40)).collect();
                let more = choice.count.saturating_sub(options.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let value = quoted(&choice.value, 60);
                wrong(format!("has no option {value}; it has {}{more}", options.join(", ")))
            }
            "single" => wrong("takes only one option".to_owned()),
            "wrong" => wrong(format!(
                "is a {}, not a select; click it, then click the option",
                crate::shown_text::shown(&choice.kind, 30)
            )),
            "disabled" => Err(BrowserError::Disabled { what }),
            _ => {
                let reference = format!("e{}", element.number);
                Err(BrowserError::RemovedRef { reference, what: clean(&choice.what) })
            }
        }
    }

    /// Gives an element the focus.
    pub(crate) async fn focus(&self, element: &ElementRef) -> Result<()> {
        let (session, object) = self.object_of(element).await?;
        let focused =
            self.browser.cdp.call(Some(&session), "DOM.focus", json!({"objectId": object})).await;
        match focused {
            Ok(_) => Ok(()),
            Err(CdpError::Refused { .. }) => Err(BrowserError::WrongElement {
                what: format!("e{}", element.number),
                reason: "cannot have the focus; click it first, and press keys without ref"
                    .to_owned(),
            }),
            Err(error) => Err(error.into()),
        }
    }
}

/// What was typed, and what the field holds if that is something else.
fn typed(what: &str, text: &str, old: OldText, held: &FieldValue) -> String {
    let count = text.chars().count();
    if held.secret {
        return format!("typed {count} characters into {what}");
    }
    let Some(value) = &held.value else { return format!("typed {count} characters into {what}") };
    let is_as_expected = match old {
        OldText::Replace => value == text || held.length > 1900,
        OldText::Keep => value.contains(text.trim()) || held.length > 1900,
    };
    match (is_as_expected, old) {
        (true, OldText::Replace) if text.is_empty() => format!("cleared {what}"),
        (true, _) => format!("typed {} into {what}", quoted(text, 60)),
        (false, _) => {
            format!("typed {} into {what}, which now holds {}", quoted(text, 60), quoted(value, 80))
        }
    }
}
