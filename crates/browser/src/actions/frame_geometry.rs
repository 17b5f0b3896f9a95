//! Where a place of a frame is on the page, and whether it can be reached there: its script knows places only in its own frame.

use serde::Deserialize;
use serde_json::json;

use crate::actions::page::Page;
use crate::error::{BrowserError, Result};

/// How deep frames may be in each other.
const MAX_DEPTH: usize = 12;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameOwner {
    backend_node_id: i64,
}

/// What the script around a frame says about a place in it.
#[derive(Deserialize)]
struct OuterPlace {
    x: f64,
    y: f64,
    cover: Option<String>,
}

/// A place on the page.
#[derive(Debug)]
pub(crate) struct PagePlace {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// What is in front of the frame there, or of one around it.
    pub(crate) cover: Option<String>,
}

impl Page {
    /// Where a place of a frame is on the page. Each document around the frame is asked what is there.
    pub(crate) async fn place_on_page(&self, frame: &str, (x, y): (f64, f64)) -> Result<PagePlace> {
        let gone = || BrowserError::StaleRef { reference: "the frame".to_owned() };
        let mut place = PagePlace { x, y, cover: None };
        let mut frame = frame.to_owned();
        for _ in 0..MAX_DEPTH {
            if frame == self.target {
                return Ok(place);
            }
            let parent = self.with(|it| it.frames.get(&frame).and_then(|it| it.parent.clone()))?;
            let parent = parent.ok_or_else(gone)?;
            let session = self.session_of(&parent)?;
            let params = json!({"frameId": frame});
            let owner: FrameOwner =
                self.browser.cdp.get(Some(&session), "DOM.getFrameOwner", params).await?;
            let values = json!([place.x, place.y]);
            let outer: OuterPlace =
                self.run_on_node(&parent, owner.backend_node_id, "framePlace", &values).await?;
            let cover = place.cover.take().or(outer.cover);
            place = PagePlace { x: outer.x, y: outer.y, cover };
            frame = parent;
        }
        Err(gone())
    }
}
