//! Where a frame is on the page: its script knows places only in its own frame.

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

#[derive(Deserialize)]
struct BoxModel {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    content: Vec<f64>,
}

/// Where a frame is on the page, and the elements that it and the frames around it belong to.
#[derive(Debug, Default)]
pub(crate) struct FramePlace {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) owners: Vec<i64>,
    pub(crate) frames: Vec<String>,
}

impl Page {
    /// Where a frame is on the page.
    pub(crate) async fn frame_place(&self, frame: &str) -> Result<FramePlace> {
        let mut place = FramePlace { frames: vec![frame.to_owned()], ..FramePlace::default() };
        let mut frame = frame.to_owned();
        for _ in 0..MAX_DEPTH {
            if frame == self.target {
                return Ok(place);
            }
            let gone = || BrowserError::StaleRef { reference: "the frame".to_owned() };
            let parent = self.with(|it| it.frames.get(&frame).and_then(|it| it.parent.clone()))?;
            let parent = parent.ok_or_else(gone)?;
            let session = self.session_of(&parent)?;
            let cdp = &self.browser.cdp;
            let params = json!({"frameId": frame});
            let owner: FrameOwner = cdp.get(Some(&session), "DOM.getFrameOwner", params).await?;
            let params = json!({"backendNodeId": owner.backend_node_id});
            let boxed: BoxModel = cdp.get(Some(&session), "DOM.getBoxModel", params).await?;
            place.x += boxed.model.content.first().copied().unwrap_or_default();
            place.y += boxed.model.content.get(1).copied().unwrap_or_default();
            place.owners.push(owner.backend_node_id);
            // The box is where the session's outermost frame counts from.
            let mut above = parent;
            place.frames.push(above.clone());
            while let Some(next) = self.parent_in_same_session(&above, &session)? {
                above = next;
                place.frames.push(above.clone());
            }
            frame = above;
        }
        Ok(place)
    }

    fn parent_in_same_session(&self, frame: &str, session: &str) -> Result<Option<String>> {
        self.with(|tab| {
            let parent = tab.frames.get(frame)?.parent.clone()?;
            let is_same = tab.frames.get(&parent).is_some_and(|it| &*it.session == session);
            is_same.then_some(parent)
        })
    }
}
