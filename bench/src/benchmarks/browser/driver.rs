//! One way to do the jobs with each server: what a model would call, in the words of that server's tools.

use serde_json::{Value as Json, json};

use super::mcp_client::{CallResult, McpClient, failed};
use super::programs::Kind;
use crate::failure::Failure;

/// A server, and what is known of its page.
pub struct Driver {
    pub client: McpClient,
    kind: Kind,
    /// The last view of the page, until an action may have changed it.
    view: Option<String>,
}

impl Driver {
    pub fn new(client: McpClient, kind: Kind) -> Driver {
        Driver { client, kind, view: None }
    }

    pub fn open(&mut self, url: &str) -> Result<CallResult, Failure> {
        self.view = None;
        match self.kind {
            Kind::Ours | Kind::OursWithChromium => {
                self.client.done("navigate", json!({"url": url}))
            }
            Kind::Playwright => self.client.done("browser_navigate", json!({"url": url})),
            Kind::DevTools => self.client.done("new_page", json!({"url": url})),
        }
    }

    /// Reads the page, unless nothing has changed since it was read.
    pub fn view(&mut self) -> Result<String, Failure> {
        if let Some(view) = &self.view {
            return Ok(view.clone());
        }
        let result = match self.kind {
            Kind::Ours | Kind::OursWithChromium => self.client.done("read_page", json!({}))?,
            Kind::Playwright => self.client.done("browser_snapshot", json!({}))?,
            Kind::DevTools => self.client.done("take_snapshot", json!({"pageId": 2}))?,
        };
        self.view = Some(result.text.clone());
        Ok(result.text)
    }

    /// Forgets the last view.
    pub fn changed(&mut self) {
        self.view = None;
    }

    /// Searches a large page.
    pub fn find(&mut self, text: &str) -> Result<String, Failure> {
        let result = match self.kind {
            Kind::Ours | Kind::OursWithChromium => {
                self.client.done("find", json!({"text": text}))?
            }
            Kind::Playwright => self.client.done("browser_find", json!({"text": text}))?,
            Kind::DevTools => self.client.done("take_snapshot", json!({"pageId": 2}))?,
        };
        Ok(result.text)
    }

    /// The reference of an element in a text.
    pub fn reference(&self, text: &str, role: &str, name: &str) -> Result<String, Failure> {
        let name = format!("\"{name}\"");
        let missing = || {
            failed(format!("no {role} {name} in: {}", text.chars().take(600).collect::<String>()))
        };
        let found = match self.kind {
            Kind::Ours | Kind::OursWithChromium => {
                let start = text.find(&format!("{role} {name}")).ok_or_else(missing)?;
                let rest = &text[start + role.len() + name.len()..];
                let is_reference = |it: &&str| {
                    it.starts_with('e')
                        && it.len() > 1
                        && it[1..].bytes().all(|it| it.is_ascii_digit())
                };
                rest.split_whitespace().find(is_reference).map(str::to_owned)
            }
            Kind::Playwright => {
                let line = text.lines().find(|it| it.contains(&format!("{role} {name}")));
                line.and_then(|it| Some(it.split("[ref=").nth(1)?.split(']').next()?.to_owned()))
            }
            Kind::DevTools => {
                let line = text.lines().find(|it| it.contains(&format!("{role} {name}")));
                line.and_then(|it| Some(it.split("uid=").nth(1)?.split(' ').next()?.to_owned()))
            }
        };
        found.ok_or_else(missing)
    }

    /// The reference of an element of the page.
    pub fn element(&mut self, role: &str, name: &str) -> Result<String, Failure> {
        let view = self.view()?;
        if let Ok(found) = self.reference(&view, role, name) {
            return Ok(found);
        }
        self.view = None;
        let view = self.view()?;
        self.reference(&view, role, name)
    }

    pub fn click_ref(&mut self, reference: &str) -> Result<CallResult, Failure> {
        match self.kind {
            Kind::Ours | Kind::OursWithChromium => {
                self.client.done("click", json!({"ref": reference}))
            }
            Kind::Playwright => self
                .client
                .done("browser_click", json!({"element": "element", "target": reference})),
            Kind::DevTools => self.client.done("click", json!({"pageId": 2, "uid": reference})),
        }
    }

    pub fn click(&mut self, role: &str, name: &str) -> Result<CallResult, Failure> {
        let reference = self.element(role, name)?;
        self.click_ref(&reference)
    }

    pub fn type_ref(&mut self, reference: &str, text: &str) -> Result<CallResult, Failure> {
        match self.kind {
            Kind::Ours | Kind::OursWithChromium => {
                self.client.done("type", json!({"ref": reference, "text": text}))
            }
            Kind::Playwright => self.client.done(
                "browser_type",
                json!({"element": "element", "target": reference, "text": text}),
            ),
            Kind::DevTools => {
                self.client.done("fill", json!({"pageId": 2, "uid": reference, "value": text}))
            }
        }
    }

    /// Fills fields: role, name and value. Those of boxes are `true`.
    pub fn fill(&mut self, fields: &[(&str, &str, Json)]) -> Result<(), Failure> {
        let mut list = Vec::new();
        for (role, name, value) in fields {
            let reference = self.element(role, name)?;
            list.push(match self.kind {
                Kind::Playwright => {
                    let kind = match *role {
                        "checkbox" => "checkbox",
                        "combobox" => "combobox",
                        _ => "textbox",
                    };
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    json!({"name": name, "element": name, "type": kind, "target": reference, "value": value})
                }
                Kind::Ours | Kind::OursWithChromium | Kind::DevTools => json!({"ref": reference, "value": value}),
            });
        }
        let tool = if self.kind == Kind::Playwright { "browser_fill_form" } else { "fill_form" };
        self.client.done(tool, json!({"fields": list})).map(drop)
    }

    pub fn answer_dialog(&mut self) -> Result<(), Failure> {
        let tool =
            if self.kind == Kind::Playwright { "browser_handle_dialog" } else { "handle_dialog" };
        self.client.done(tool, json!({"accept": true})).map(drop)
    }

    pub fn upload(&mut self, path: &str) -> Result<(), Failure> {
        if self.kind == Kind::Playwright {
            let view = self.view()?;
            let reference = self.reference(&view, "button", "Report")?;
            self.click_ref(&reference)?;
            return self.client.done("browser_file_upload", json!({"paths": [path]})).map(drop);
        }
        let reference = self.element("file", "Report")?;
        self.client.done("upload", json!({"ref": reference, "paths": [path]})).map(drop)
    }

    /// Waits for a download; returns what is said about it.
    pub fn downloaded(&mut self) -> Result<String, Failure> {
        match self.kind {
            Kind::Ours | Kind::OursWithChromium => {
                Ok(self.client.done("downloads", json!({"action": "wait"}))?.text)
            }
            Kind::Playwright | Kind::DevTools => {
                Ok(self.client.done("browser_wait_for", json!({"time": 1}))?.text)
            }
        }
    }

    pub fn select_tab(&mut self, number: usize) -> Result<(), Failure> {
        self.view = None;
        match self.kind {
            Kind::Ours | Kind::OursWithChromium => {
                self.client.done("tabs", json!({"action": "select", "tab": number})).map(drop)
            }
            Kind::Playwright | Kind::DevTools => self
                .client
                .done("browser_tabs", json!({"action": "select", "index": number - 1}))
                .map(drop),
        }
    }

    pub fn scroll_down(&mut self) -> Result<(), Failure> {
        self.view = None;
        match self.kind {
            Kind::Ours | Kind::OursWithChromium => {
                self.client.done("scroll", json!({"to": "bottom"})).map(drop)
            }
            Kind::Playwright | Kind::DevTools => {
                self.client.done("browser_press_key", json!({"key": "End"})).map(drop)
            }
        }
    }

    pub fn screenshot(&mut self) -> Result<CallResult, Failure> {
        match self.kind {
            Kind::Ours | Kind::OursWithChromium => self.client.done("screenshot", json!({})),
            Kind::Playwright => self.client.done("browser_take_screenshot", json!({})),
            Kind::DevTools => self.client.done("take_screenshot", json!({"pageId": 2})),
        }
    }

    pub fn click_at(&mut self, x: u32, y: u32) -> Result<(), Failure> {
        match self.kind {
            Kind::Ours | Kind::OursWithChromium => {
                self.client.done("click", json!({"x": x, "y": y})).map(drop)
            }
            Kind::Playwright | Kind::DevTools => self
                .client
                .done("browser_mouse_click_xy", json!({"element": "canvas", "x": x, "y": y}))
                .map(drop),
        }
    }

    pub fn wait_for(&mut self, text: &str) -> Result<(), Failure> {
        self.view = None;
        let tool = if self.kind == Kind::Playwright { "browser_wait_for" } else { "wait_for" };
        self.client.done(tool, json!({"text": text})).map(drop)
    }
}
