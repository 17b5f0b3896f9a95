//! The keyboard: single keys, and text.

use std::time::Duration;

use serde_json::json;

use crate::actions::keys::{Key, KeyPress, Modifiers};
use crate::actions::page::Page;
use crate::error::Result;

const INPUT_LIMIT: Duration = Duration::from_secs(10);

impl Page {
    /// Presses a key and releases it. A dialog that the key opens ends it early.
    pub(crate) async fn press(&self, press: &KeyPress) -> Result<()> {
        self.press_key(&press.key, press.modifiers).await
    }

    async fn press_key(&self, key: &Key, modifiers: Modifiers) -> Result<()> {
        let mut event = json!({
            "type": if key.text.is_some() { "keyDown" } else { "rawKeyDown" },
            "key": key.key,
            "code": key.code,
            "windowsVirtualKeyCode": key.number,
            "modifiers": modifiers.bits(),
        });
        if let Some(text) = &key.text {
            event["text"] = json!(text);
            event["unmodifiedText"] = json!(text);
        }
        let method = "Input.dispatchKeyEvent";
        if self.call_page(&self.session, method, &event, INPUT_LIMIT).await?.is_none() {
            return Ok(());
        }
        event["type"] = json!("keyUp");
        if let Some(members) = event.as_object_mut() {
            members.remove("text");
            members.remove("unmodifiedText");
        }
        self.call_page(&self.session, method, &event, INPUT_LIMIT).await?;
        Ok(())
    }

    /// Types text at the caret, all at once: any character of Unicode, without key events.
    pub(crate) async fn insert_text(&self, text: &str) -> Result<()> {
        let params = json!({"text": text});
        self.call_page(&self.session, "Input.insertText", params, INPUT_LIMIT).await?;
        Ok(())
    }

    /// Types text key by key, for pages that follow keys.
    pub(crate) async fn type_keys(&self, text: &str) -> Result<()> {
        for character in text.chars() {
            let key = Key::of_character(character);
            match key.code.is_empty() {
                // No key makes it.
                true => self.insert_text(&character.to_string()).await?,
                false => self.press_key(&key, Modifiers::default()).await?,
            }
        }
        Ok(())
    }
}
