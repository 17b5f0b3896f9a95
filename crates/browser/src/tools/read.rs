//! Tools that look at pages.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard_builtin::kit::{HandlerError, Tool};

use crate::actions::picture::{PictureArea, PictureFormat};
use crate::actions::search::FindOptions;
use crate::actions::snapshot::{DEFAULT_BUDGET, MAX_BUDGET, ReadFilter, ReadOptions};
use crate::actions::waiting::WaitCondition;
use crate::error::BrowserError;
use crate::shown_text::marked;
use crate::tools::inspect::nonce;
use crate::tools::registry::{Answer, CallScope, Registry};

/// How much text a call of page_text returns unless it says otherwise.
const DEFAULT_TEXT: usize = 12_000;
/// How many hits a search returns unless it says otherwise, and at most.
const DEFAULT_HITS: usize = 15;
const MAX_HITS: usize = 100;
/// How long a wait may be.
const MAX_WAIT: f64 = 30.0;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    filter: Option<ReadFilter>,
    /// Only this part of the page.
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// Go on after this reference.
    after: Option<String>,
    /// How deep nested parts are read.
    depth: Option<u32>,
    /// Characters; 18000 by default, at most 25000.
    max: Option<usize>,
    tab: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextArguments {
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// Skip this many characters.
    offset: Option<usize>,
    max: Option<usize>,
    /// Not only the main part.
    whole: Option<bool>,
    tab: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindArguments {
    text: Option<String>,
    /// Such as button, link, textbox, heading.
    role: Option<String>,
    /// Instead of text.
    regex: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    limit: Option<usize>,
    tab: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ScreenshotArguments {
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// The whole page.
    full: Option<bool>,
    format: Option<PictureFormat>,
    /// Up to 1.
    scale: Option<f64>,
    tab: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitArguments {
    text: Option<String>,
    text_gone: Option<String>,
    network_idle: Option<bool>,
    /// The limit, or what to wait for if nothing else is given; at most 30.
    seconds: Option<f64>,
    tab: Option<u32>,
}

/// Adds the tools.
pub(super) fn add(registry: &mut Registry) {
    registry.add(
        "read_page",
        "Returns the page as lines: role, name, reference (e12), state. Large pages are cut; use find or ref.",
        Tool::read_only,
        read_page,
    );
    registry.add(
        "page_text",
        "Returns the text of the page, for reading.",
        Tool::read_only,
        page_text,
    );
    registry.add(
        "find",
        "Finds elements by text, role or regex and returns their references. Try it first on large pages.",
        Tool::read_only,
        find,
    );
    registry.add(
        "screenshot",
        "Takes a picture of the visible part, the whole page or an element.",
        Tool::read_only,
        screenshot,
    );
    registry.add(
        "wait_for",
        "Waits for text, for text to go, for a quiet network, or some seconds.",
        Tool::read_only,
        wait_for,
    );
}

async fn read_page(scope: CallScope, it: ReadArguments) -> Result<Answer, HandlerError> {
    let turn = scope.session.turn(it.tab).await?;
    let page = &turn.page;
    page.check_usable()?;
    let budget = it.max.unwrap_or(DEFAULT_BUDGET).clamp(200, MAX_BUDGET);
    let mut options = ReadOptions {
        filter: it.filter.unwrap_or_default(),
        root: None,
        after: None,
        depth: it.depth,
        budget,
    };
    if let Some(after) = &it.after {
        options.after = Some(page.element(after)?);
    }
    if let Some(reference) = &it.reference {
        let element = page.element(reference)?;
        options.root = Some(element.clone());
        // What is in a frame is read as a page of its own.
        if let Ok(frame) = page.frame_of(&element).await {
            let text = page.read_inner(&frame, &options).await?;
            return Ok(text.into());
        }
    }
    Ok(page.read(&options).await?.into())
}

async fn page_text(scope: CallScope, it: TextArguments) -> Result<Answer, HandlerError> {
    let turn = scope.session.turn(it.tab).await?;
    let page = &turn.page;
    page.check_usable()?;
    let root = it.reference.as_deref().map(|it| page.element(it)).transpose()?;
    let offset = it.offset.unwrap_or(0);
    let max = it.max.unwrap_or(DEFAULT_TEXT).clamp(200, MAX_BUDGET);
    let is_whole = it.whole.unwrap_or(false);
    let text = page.page_text(root.as_ref(), is_whole, (offset, max)).await?;
    let url = page.with(|it| it.url.clone())?;
    let end = offset + text.text.encode_utf16().count().min(max);
    let mut answer = marked(&url, &text.text, &nonce());
    if end < text.total {
        answer +=
            &format!("\n{} of {} characters; go on with offset={end}", end - offset, text.total);
    } else if text.part == "main" {
        answer += "\nThis is the main part; whole=true returns everything.";
    }
    Ok(answer.into())
}

async fn find(scope: CallScope, it: FindArguments) -> Result<Answer, HandlerError> {
    let turn = scope.session.turn(it.tab).await?;
    let page = &turn.page;
    page.check_usable()?;
    let is_empty = |it: &Option<String>| it.as_deref().is_none_or(|it| it.trim().is_empty());
    if is_empty(&it.text) && is_empty(&it.regex) && is_empty(&it.role) {
        let expected = "given, or `role` or `regex`".to_owned();
        return Err(BrowserError::Argument { name: "text", expected }.into());
    }
    let root = it.reference.as_deref().map(|it| page.element(it)).transpose()?;
    let options = FindOptions {
        text: it.text.filter(|it| !it.trim().is_empty()),
        pattern: it.regex.filter(|it| !it.trim().is_empty()),
        role: it.role.filter(|it| !it.trim().is_empty()),
        root,
        limit: it.limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS),
    };
    Ok(page.find(&options).await?.into())
}

async fn screenshot(scope: CallScope, it: ScreenshotArguments) -> Result<Answer, HandlerError> {
    let turn = scope.session.turn(it.tab).await?;
    let page = &turn.page;
    page.check_usable()?;
    let area = match (&it.reference, it.full) {
        (Some(reference), _) => PictureArea::Element(page.element(reference)?),
        (None, Some(true)) => PictureArea::Page,
        (None, Some(false) | None) => PictureArea::Viewport,
    };
    let scale = it.scale.unwrap_or(1.0);
    if !(0.05..=1.0).contains(&scale) {
        let expected = "from 0.05 to 1".to_owned();
        return Err(BrowserError::Argument { name: "scale", expected }.into());
    }
    let picture = page.picture(&area, it.format.unwrap_or_default(), scale).await?;
    let text = picture.description.clone();
    Ok(Answer { text, picture: Some(picture) })
}

async fn wait_for(scope: CallScope, it: WaitArguments) -> Result<Answer, HandlerError> {
    let page = scope.session.page(it.tab).await?;
    let awaiting = match (it.text, it.text_gone, it.network_idle) {
        (Some(text), None, None | Some(false)) if !text.trim().is_empty() => {
            WaitCondition::Text(text)
        }
        (None, Some(text), None | Some(false)) if !text.trim().is_empty() => {
            WaitCondition::TextGone(text)
        }
        (None, None, Some(true)) => WaitCondition::NetworkIdle,
        (None, None, None | Some(false)) if it.seconds.is_some() => WaitCondition::Time,
        _ => {
            let expected = "given, or one of `text_gone`, `network_idle` and `seconds`".to_owned();
            return Err(BrowserError::Argument { name: "text", expected }.into());
        }
    };
    let seconds = it.seconds.unwrap_or(10.0);
    if !(0.0..=MAX_WAIT).contains(&seconds) {
        let expected = format!("from 0 to {MAX_WAIT}");
        return Err(BrowserError::Argument { name: "seconds", expected }.into());
    }
    let mark = page.mark()?;
    let done = page.wait_for(&awaiting, Duration::from_secs_f64(seconds)).await?;
    Ok(page.report(&done, &mark).into())
}
