//! Tools for the pointer and for scrolling.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use switchboard_builtin::kit::{HandlerError, Tool};

use crate::actions::keys::Modifiers;
use crate::actions::page::Page;
use crate::actions::pointer::{Button, ElementPlace, Purpose};
use crate::error::{BrowserError, Result};
use crate::session::Turn;
use crate::shown_text::clean;
use crate::tools::registry::{Answer, CallScope, Registry};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClickArguments {
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// Pixel of the last screenshot, instead of ref.
    x: Option<f64>,
    y: Option<f64>,
    button: Option<Button>,
    /// 2 for a double click.
    count: Option<u32>,
    /// Such as ctrl, shift.
    modifiers: Option<Vec<String>>,
    tab: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HoverArguments {
    #[serde(rename = "ref")]
    reference: Option<String>,
    x: Option<f64>,
    y: Option<f64>,
    tab: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DragArguments {
    /// A reference, or "x,y".
    from: String,
    to: String,
    tab: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ScrollEnd {
    Top,
    Bottom,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ScrollArguments {
    /// Scrolls it into view; with dx, dy or to, scrolls inside it.
    #[serde(rename = "ref")]
    reference: Option<String>,
    dy: Option<f64>,
    dx: Option<f64>,
    to: Option<ScrollEnd>,
    tab: Option<u32>,
}

/// Adds the tools.
pub(super) fn add(registry: &mut Registry) {
    registry.add("click", "Clicks an element or a place.", acts, click);
    registry.add("hover", "Moves the pointer over an element.", gentle, hover);
    registry.add("drag", "Drags an element to another one.", acts, drag);
    registry.add(
        "scroll",
        "Scrolls the page or an element by pixels, to an end, or to an element.",
        gentle,
        scroll,
    );
}

pub(super) fn acts(tool: Tool) -> Tool {
    tool.destructive().open_world()
}

fn gentle(tool: Tool) -> Tool {
    tool.non_destructive()
}

pub(super) async fn begin(scope: &CallScope, tab: Option<u32>) -> Result<Turn> {
    let turn = scope.session.turn(tab).await?;
    turn.page.check_usable()?;
    Ok(turn)
}

/// The place that a call names.
async fn place(
    page: &Page,
    reference: Option<&str>,
    (x, y): (Option<f64>, Option<f64>),
    purpose: Purpose,
) -> Result<ElementPlace> {
    match (reference, x, y) {
        (Some(reference), None, None) => {
            let element = page.element(reference)?;
            page.locate(&element, purpose).await
        }
        (None, Some(x), Some(y)) => page.place_in_picture(x, y).await,
        _ => {
            let expected = "given, or both `x` and `y`".to_owned();
            Err(BrowserError::Argument { name: "ref", expected })
        }
    }
}

pub(super) fn finish(turn: &Turn, done: &str, mark: &crate::actions::settle::Mark) -> Answer {
    turn.page.report(done, mark).into()
}

async fn click(scope: CallScope, it: ClickArguments) -> std::result::Result<Answer, HandlerError> {
    let turn = begin(&scope, it.tab).await?;
    let page = &turn.page;
    let mark = page.mark()?;
    let modifiers = Modifiers::parse_all(&it.modifiers.unwrap_or_default())?;
    let count = it.count.unwrap_or(1);
    if !(1..=3).contains(&count) {
        let expected = "1, 2 or 3".to_owned();
        return Err(BrowserError::Argument { name: "count", expected }.into());
    }
    let place = place(page, it.reference.as_deref(), (it.x, it.y), Purpose::Use).await?;
    let reason = match place.kind.as_str() {
        "select" => Some("is a select; use select_option"),
        "option" => Some("is an option of a select; use select_option with the ref of the select"),
        _ => None,
    };
    if let Some(reason) = reason {
        let reason = reason.to_owned();
        return Err(BrowserError::WrongElement { what: place.what, reason }.into());
    }
    page.click(&place, it.button.unwrap_or_default(), count, modifiers).await?;
    page.settle(&mark).await;
    Ok(finish(&turn, &format!("clicked {}", place.what), &mark))
}

async fn hover(scope: CallScope, it: HoverArguments) -> std::result::Result<Answer, HandlerError> {
    let turn = begin(&scope, it.tab).await?;
    let page = &turn.page;
    let mark = page.mark()?;
    let place = place(page, it.reference.as_deref(), (it.x, it.y), Purpose::Point).await?;
    page.move_to(&place).await?;
    page.settle(&mark).await;
    Ok(finish(&turn, &format!("the pointer is over {}", place.what), &mark))
}

async fn drag(scope: CallScope, it: DragArguments) -> std::result::Result<Answer, HandlerError> {
    let turn = begin(&scope, it.tab).await?;
    let page = &turn.page;
    let mark = page.mark()?;
    let to = drag_place(page, &it.to).await?;
    let from = drag_place(page, &it.from).await?;
    // Finding one may have scrolled the other.
    let to = match it.to.contains(',') {
        true => to,
        false => drag_place(page, &it.to).await?,
    };
    let again = match it.from.contains(',') {
        true => from.clone(),
        false => drag_place(page, &it.from).await?,
    };
    if (again.x - from.x).abs() > 1.0 || (again.y - from.y).abs() > 1.0 {
        let text =
            "both ends of a drag have to be visible at once; make the page larger with resize";
        return Err(HandlerError::failed(text));
    }
    page.drag(&from, &to).await?;
    page.settle(&mark).await;
    Ok(finish(&turn, &format!("dragged {} to {}", from.what, to.what), &mark))
}

async fn drag_place(page: &Page, text: &str) -> Result<ElementPlace> {
    let numbers = text
        .split_once(',')
        .and_then(|(x, y)| Some((x.trim().parse::<f64>().ok()?, y.trim().parse::<f64>().ok()?)));
    match numbers {
        Some((x, y)) => page.place_in_picture(x, y).await,
        None => {
            let element = page.element(text)?;
            page.locate(&element, Purpose::Point).await
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScrollResult {
    state: String,
    what: String,
    into: bool,
    moved: bool,
    top: i64,
    height: i64,
    view: i64,
}

async fn scroll(
    scope: CallScope,
    it: ScrollArguments,
) -> std::result::Result<Answer, HandlerError> {
    let turn = begin(&scope, it.tab).await?;
    let page = &turn.page;
    let mark = page.mark()?;
    let element = it.reference.as_deref().map(|it| page.element(it)).transpose()?;
    let to = it.to.as_ref().map(|it| match it {
        ScrollEnd::Top => "top",
        ScrollEnd::Bottom => "bottom",
    });
    let by_default = if element.is_none() && to.is_none() && it.dx.is_none() { 600.0 } else { 0.0 };
    let frame = element.as_ref().map_or(&page.target, |it| &it.frame);
    let arguments = json!([{
        "ref": element.as_ref().map(|it| it.number),
        "dx": it.dx.unwrap_or(0.0),
        "dy": it.dy.unwrap_or(by_default),
        "to": to,
    }]);
    let scrolled: ScrollResult = page.run(frame, "scroll", &arguments).await?;
    let what = clean(&scrolled.what);
    if scrolled.state != "ok" {
        let reference = it.reference.unwrap_or_default();
        return Err(BrowserError::RemovedRef { reference, what }.into());
    }
    page.settle(&mark).await;
    let done = match (scrolled.into, scrolled.moved) {
        (true, _) => format!("{what} is in view"),
        (false, true) => format!(
            "scrolled {what} to {} of {} px",
            scrolled.top,
            (scrolled.height - scrolled.view).max(0)
        ),
        (false, false) => format!("{what} is at its end already"),
    };
    Ok(finish(&turn, &done, &mark))
}
