//! The tools that act: pointer, keyboard, waiting, focus.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use switchboard_builtin::kit::{HandlerContext, Tool, ToolOutput};

use crate::action_arguments::{
    ClickArguments, DragArguments, HoldKeyArguments, IntoAction, KeyArguments, MoveArguments,
    NoArguments, ScrollArguments, TypeArguments, WaitArguments, WindowArguments,
};
use crate::desktop::Performance;
use crate::session::{Precondition, Session, Work};

/// All tools that act.
pub(super) fn tools(session: &Arc<Session>) -> Vec<Tool> {
    let click = |name, description| acting::<ClickArguments>(session, name, description);
    vec![
        click("left_click", "Clicks at a place of the last screenshot."),
        click("right_click", "Clicks with the right button."),
        click("middle_click", "Clicks with the middle button."),
        click("double_click", "Clicks twice."),
        click("triple_click", "Clicks three times, which selects a line or a paragraph."),
        acting::<DragArguments>(session, "left_click_drag", "Drags with the left button."),
        acting::<NoArguments>(
            session,
            "left_mouse_down",
            "Holds the left button down where the pointer is.",
        ),
        acting::<NoArguments>(session, "left_mouse_up", "Releases the left button."),
        acting::<MoveArguments>(session, "mouse_move", "Moves the pointer.").non_destructive(),
        acting::<ScrollArguments>(session, "scroll", "Turns the wheel at a place.")
            .non_destructive(),
        acting::<TypeArguments>(session, "type", "Types text into the window with the focus."),
        acting::<KeyArguments>(
            session,
            "key",
            "Presses keys or combinations in the window with the focus.",
        ),
        acting::<HoldKeyArguments>(
            session,
            "hold_key",
            "Holds a key or combination down for a time.",
        ),
        acting::<WaitArguments>(session, "wait", "Waits.").read_only(),
        acting::<WindowArguments>(
            session,
            "focus_window",
            "Brings a window to the front and gives it the focus.",
        )
        .non_destructive(),
    ]
}

fn acting<A>(session: &Arc<Session>, name: &'static str, description: &str) -> Tool
where
    A: IntoAction + DeserializeOwned + JsonSchema + Send + 'static,
{
    let session = session.clone();
    let act = move |context: HandlerContext, arguments: A| {
        let session = session.clone();
        async move {
            let action = arguments.into_action(name)?;
            let perform = move |work: &mut Work<'_>| {
                let is_cancelled = || work.context.is_cancelled();
                Performance::perform(work.desktop, work.grants, &is_cancelled, &action)
            };
            let done = session.run(context, Precondition::Access, perform).await?;
            Ok(ToolOutput::text(done))
        }
    };
    Tool::typed(name, description, act)
}
