//! The tools that look: pictures, the pointer, and the list of windows.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard_builtin::kit::{HandlerContext, Tool, ToolOutput};

use crate::action_arguments::NoArguments;
use crate::desktop::{Look, Subject};
use crate::error::{ComputerError, Result};
use crate::session::{Precondition, Session, Work};
use crate::shown_text::{quoted, shown};

/// The longest title that is shown, in characters.
const MAX_TITLE: usize = 80;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ScreenshotArguments {
    /// The number of a monitor, or 0 for all together; the primary one by default.
    monitor: Option<u32>,
    /// The id of a window from list_windows, to see only its part of the screen.
    window: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ZoomArguments {
    /// [left, top, right, bottom] in the picture.
    region: [i32; 4],
    picture: Option<u32>,
}

/// All tools that look.
pub(super) fn tools(session: &Arc<Session>) -> Vec<Tool> {
    vec![screenshot(session), zoom(session), cursor_position(session), list_windows(session)]
}

fn screenshot(session: &Arc<Session>) -> Tool {
    let session = session.clone();
    let take = move |context: HandlerContext, it: ScreenshotArguments| {
        let session = session.clone();
        async move {
            let subject = match (it.window, it.monitor) {
                (Some(_), Some(_)) => {
                    let expected = "given without a monitor".to_owned();
                    return Err(ComputerError::Argument { name: "window", expected }.into());
                }
                (Some(window), None) => Subject::Window(window),
                (None, Some(0)) => Subject::Screen,
                (None, Some(number)) => Subject::Monitor(number as usize),
                (None, None) => Subject::PrimaryMonitor,
            };
            let look = move |work: &mut Work<'_>| {
                let look = work.desktop.look(work.grants, subject)?;
                let monitors = work.desktop.display.monitors()?.len();
                Ok(described(&look, &[], monitors))
            };
            session.run(context, Precondition::Access, look).await
        }
    };
    let description = "Takes a picture of a monitor or a window. Coordinates of later calls are pixels of it. Windows of \
                       applications without access are grey.";
    Tool::typed("screenshot", description, take).read_only()
}

/// A picture with a line about it, after the lines `before`.
pub(crate) fn described(look: &Look, before: &[String], monitors: usize) -> ToolOutput {
    let ((width, height), area) = (look.size, look.area);
    let mut text: String = before.iter().map(|it| format!("{it}\n")).collect();
    text += &format!("picture {}: {width}x{height}", look.number);
    if (area.x, area.y, area.width, area.height) != (0, 0, width as i32, height as i32) {
        text +=
            &format!(", of the screen at ({}, {}) {}x{}", area.x, area.y, area.width, area.height);
    }
    if monitors > 1 {
        text += &format!("; {monitors} monitors");
    }
    if !look.hidden.is_empty() {
        text += &format!("; hidden, because not granted: {}", look.hidden.join(", "));
    }
    ToolOutput::text(text).with_image(&look.encoded.bytes, look.encoded.mime_type)
}

fn zoom(session: &Arc<Session>) -> Tool {
    let session = session.clone();
    let take = move |context: HandlerContext, it: ZoomArguments| {
        let session = session.clone();
        async move {
            let subject = Subject::Region { picture: it.picture, corners: it.region };
            let look = move |work: &mut Work<'_>| {
                let look = work.desktop.look(work.grants, subject)?;
                Ok(described(&look, &[], 1))
            };
            session.run(context, Precondition::Access, look).await
        }
    };
    let description = "Takes a picture of a region in full resolution, to read small text. Coordinates still belong to the last \
                       screenshot, unless you pass this picture's number.";
    Tool::typed("zoom", description, take).read_only()
}

fn cursor_position(session: &Arc<Session>) -> Tool {
    let session = session.clone();
    let locate = move |context: HandlerContext, _: NoArguments| {
        let session = session.clone();
        async move {
            let locate = |work: &mut Work<'_>| {
                let place = work.desktop.display.pointer()?;
                let picture = work.desktop.pictures.find(None)?;
                Ok(match picture.on_picture(place) {
                    Some((x, y)) => format!("({x}, {y}) in picture {}", picture.number),
                    None => format!("outside picture {}", picture.number),
                })
            };
            Ok(ToolOutput::text(session.run(context, Precondition::Access, locate).await?))
        }
    };
    let description = "Says where the pointer is in the last screenshot.";
    Tool::typed("cursor_position", description, locate).read_only()
}

fn list_windows(session: &Arc<Session>) -> Tool {
    let session = session.clone();
    let list = move |context: HandlerContext, _: NoArguments| {
        let session = session.clone();
        async move { Ok(ToolOutput::text(session.run(context, Precondition::Access, listed).await?)) }
    };
    let description = "Lists windows with id, application and place; titles only of granted applications, as data from them. Also \
                       lists the monitors.";
    Tool::typed("list_windows", description, list).read_only()
}

fn listed(work: &mut Work<'_>) -> Result<String> {
    let focus = work.desktop.display.focus()?.map(|it| it.owner.window);
    let mut lines = Vec::new();
    for window in work.desktop.display.client_windows()? {
        let owner = &window.owner;
        let is_own = work.desktop.own_terminal().is_owner(owner);
        let state = match (is_own, work.grants.shows(owner, work.desktop.own_terminal())) {
            (true, _) => " [swb's own terminal: never controlled]".to_owned(),
            (false, true) => format!(" {}", quoted(&window.title, MAX_TITLE)),
            (false, false) => " [not granted]".to_owned(),
        };
        let area = window.area;
        let focused = if focus == Some(owner.window) { ", focus" } else { "" };
        let visible = if window.is_visible { "" } else { ", minimized" };
        lines.push(format!(
            "{} {} ({}, {}) {}x{}{focused}{visible}{state}",
            owner.window,
            shown(&owner.label, 40),
            area.x,
            area.y,
            area.width,
            area.height,
        ));
    }
    if lines.is_empty() {
        lines.push("no windows".to_owned());
    }
    for (number, monitor) in work.desktop.display.monitors()?.iter().enumerate() {
        let area = monitor.area;
        let primary = if monitor.is_primary { ", primary" } else { "" };
        lines.push(format!(
            "monitor {} {} ({}, {}) {}x{}{primary}",
            number + 1,
            monitor.name,
            area.x,
            area.y,
            area.width,
            area.height
        ));
    }
    Ok(lines.join("\n"))
}
