//! The pointer: finding the place of an element, moving, clicking, dragging.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::actions::keys::Modifiers;
use crate::actions::page::Page;
use crate::actions::world::ElementRef;
use crate::error::{BrowserError, Result};

/// How long an element may take to become usable, in milliseconds.
const PATIENCE_MS: u32 = 1000;
/// How long the page may take to handle one event.
const INPUT_LIMIT: Duration = Duration::from_secs(10);
/// How many steps a drag has.
const DRAG_STEPS: u32 = 8;

/// A button of the pointer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Button {
    #[default]
    Left,
    Right,
    Middle,
}

impl Button {
    fn id(self) -> &'static str {
        match self {
            Button::Left => "left",
            Button::Right => "right",
            Button::Middle => "middle",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Button::Left => 1,
            Button::Right => 2,
            Button::Middle => 4,
        }
    }
}

/// Whether an element has to take input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is only pointed at.
    Point,
    /// It is used.
    Use,
}

/// The place of an element on the page.
#[derive(Debug, Clone)]
pub(crate) struct ElementPlace {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// The element, for messages.
    pub(crate) what: String,
    pub(crate) kind: String,
}

/// What the script says about an element.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ElementState {
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) what: String,
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) cover: String,
    #[serde(default)]
    pub(crate) x: f64,
    #[serde(default)]
    pub(crate) y: f64,
    #[serde(default)]
    pub(crate) width: f64,
    #[serde(default)]
    pub(crate) height: f64,
}

impl ElementState {
    /// The error for every state in which the element cannot be used.
    pub(crate) fn check(self, element: &ElementRef) -> Result<ElementState> {
        let reference = format!("e{}", element.number);
        let what = format!("{} ({reference})", crate::shown_text::clean(&self.what));
        match self.state.as_str() {
            "ok" => Ok(self),
            "unknown" => Err(BrowserError::StaleRef { reference }),
            "removed" => Err(BrowserError::RemovedRef {
                reference,
                what: crate::shown_text::clean(&self.what),
            }),
            "disabled" => Err(BrowserError::Disabled { what }),
            "moving" => Err(BrowserError::Moving { what }),
            "covered" => {
                let cover = crate::shown_text::shown(&self.cover, 120);
                Err(BrowserError::Covered { what, cover })
            }
            _ => Err(BrowserError::Invisible { what }),
        }
    }
}

/// Ends a drag when it is dropped, also if the call is cancelled on the way.
struct DragEnd<'p> {
    page: &'p Page,
    to: &'p ElementPlace,
    button: ButtonState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ButtonState {
    Up,
    Down,
}

impl Drop for DragEnd<'_> {
    fn drop(&mut self) {
        let (x, y) = (self.to.x, self.to.y);
        let (cdp, session) = (&self.page.browser.cdp, Some(&self.page.session));
        cdp.post(session, "Input.setInterceptDrags", json!({"enabled": false}));
        if self.button == ButtonState::Down {
            let released =
                json!({"type": "mouseReleased", "x": x, "y": y, "button": "left", "clickCount": 1});
            cdp.post(session, "Input.dispatchMouseEvent", released);
        }
    }
}

impl Page {
    /// Scrolls an element into view and finds a place where the pointer reaches it.
    pub(crate) async fn locate(
        &self,
        element: &ElementRef,
        purpose: Purpose,
    ) -> Result<ElementPlace> {
        let enabled = purpose == Purpose::Use;
        let options = json!([element.number, {"patience": PATIENCE_MS, "enabled": enabled}]);
        let state: ElementState = self.run(&element.frame, "locate", &options).await?;
        let state = state.check(element)?;
        let mut located = ElementPlace {
            x: state.x,
            y: state.y,
            what: format!("{} (e{})", crate::shown_text::clean(&state.what), element.number),
            kind: state.kind,
        };
        if element.frame != self.target {
            let place = self.place_on_page(&element.frame, (located.x, located.y)).await?;
            (located.x, located.y) = (place.x, place.y);
            if let Some(cover) = place.cover {
                let cover = crate::shown_text::shown(&cover, 120);
                return Err(BrowserError::Covered { what: located.what, cover });
            }
        }
        Ok(located)
    }

    /// A place that is named by pixels of the last picture.
    pub(crate) async fn place_in_picture(&self, x: f64, y: f64) -> Result<ElementPlace> {
        #[derive(Deserialize)]
        struct PageInfo {
            width: f64,
            height: f64,
        }
        let scale = self.with(|it| it.picture_scale)?;
        let info: PageInfo = self.run(&self.target, "pageInfo", &json!([])).await?;
        let (width, height) = ((info.width / scale).floor(), (info.height / scale).floor());
        if !(0.0..width.max(1.0)).contains(&x) || !(0.0..height.max(1.0)).contains(&y) {
            return Err(BrowserError::OutsideViewport { x, y, width, height });
        }
        let what = format!("({x}, {y})");
        Ok(ElementPlace { x: x * scale, y: y * scale, what, kind: String::new() })
    }

    async fn mouse(&self, params: serde_json::Value) -> Result<Option<()>> {
        let sent =
            self.call_page(&self.session, "Input.dispatchMouseEvent", params, INPUT_LIMIT).await?;
        Ok(sent.map(drop))
    }

    /// Moves the pointer.
    pub(crate) async fn move_to(&self, place: &ElementPlace) -> Result<()> {
        let (x, y) = (place.x, place.y);
        self.mouse(json!({"type": "mouseMoved", "x": x, "y": y})).await?;
        Ok(())
    }

    /// Clicks. A dialog that the click opens ends it early.
    pub(crate) async fn click(
        &self,
        place: &ElementPlace,
        button: Button,
        count: u32,
        modifiers: Modifiers,
    ) -> Result<()> {
        let (x, y, modifiers) = (place.x, place.y, modifiers.bits());
        let moved = json!({"type": "mouseMoved", "x": x, "y": y, "modifiers": modifiers});
        self.browser.cdp.post(Some(&self.session), "Input.dispatchMouseEvent", moved);
        for number in 1..=count {
            let event = |kind: &str, buttons: u8| {
                json!({
                    "type": kind, "x": x, "y": y, "button": button.id(), "buttons": buttons,
                    "clickCount": number, "modifiers": modifiers,
                })
            };
            let pressed = event("mousePressed", button.bit());
            self.browser.cdp.post(Some(&self.session), "Input.dispatchMouseEvent", pressed);
            if self.mouse(event("mouseReleased", 0)).await?.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Drags from one place to another, also where the page uses the drag and drop of HTML.
    pub(crate) async fn drag(&self, from: &ElementPlace, to: &ElementPlace) -> Result<()> {
        self.with(|it| it.drag = None)?;
        let mut end = DragEnd { page: self, to, button: ButtonState::Up };
        self.call("Input.setInterceptDrags", json!({"enabled": true})).await?;
        end.button = ButtonState::Down;
        self.drag_pointer(from, to).await?;
        end.button = ButtonState::Up;
        Ok(())
    }

    async fn drag_pointer(&self, from: &ElementPlace, to: &ElementPlace) -> Result<()> {
        let event = |kind: &str, (x, y): (f64, f64), buttons: u8| {
            let button = if kind == "mouseMoved" && buttons == 0 { "none" } else { "left" };
            json!({"type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1})
        };
        self.mouse(event("mouseMoved", (from.x, from.y), 0)).await?;
        self.mouse(event("mousePressed", (from.x, from.y), 1)).await?;
        for step in 1..=DRAG_STEPS {
            let part = f64::from(step) / f64::from(DRAG_STEPS);
            let x = from.x + (to.x - from.x) * part;
            let y = from.y + (to.y - from.y) * part;
            let moved = self.mouse(event("mouseMoved", (x, y), 1));
            // While the browser hands a drag over, it answers no movement.
            let tab = self.tab;
            let intercepted = self.context.wait(INPUT_LIMIT, |state| {
                state.tabs.get(&tab).is_none_or(|it| it.drag.is_some()).then_some(())
            });
            tokio::select! {
                moved = moved => drop(moved?),
                _ = intercepted => {}
            }
            if self.with(|it| it.drag.is_some())? {
                break;
            }
        }
        if let Some(data) = self.with(|it| it.drag.take())? {
            for kind in ["dragEnter", "dragOver", "drop"] {
                let params = json!({"type": kind, "x": to.x, "y": to.y, "data": data});
                let method = "Input.dispatchDragEvent";
                self.call_page(&self.session, method, params, INPUT_LIMIT).await?;
            }
        }
        self.mouse(event("mouseReleased", (to.x, to.y), 0)).await?;
        Ok(())
    }
}
