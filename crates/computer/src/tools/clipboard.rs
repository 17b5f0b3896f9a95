//! The tools for the clipboard.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard_builtin::kit::{HandlerContext, Tool, ToolOutput};

use crate::action_arguments::NoArguments;
use crate::error::ComputerError;
use crate::grants::Ability;
use crate::session::{Precondition, Session, Work};
use crate::x11::clipboard::MAX_TEXT_BYTES;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    #[schemars(length(max = MAX_TEXT_BYTES))]
    text: String,
}

/// The tools for the clipboard.
pub(super) fn tools(session: &Arc<Session>) -> Vec<Tool> {
    vec![read(session), write(session)]
}

fn read(session: &Arc<Session>) -> Tool {
    let session = session.clone();
    let read = move |context: HandlerContext, _: NoArguments| {
        let session = session.clone();
        async move {
            let read = |work: &mut Work<'_>| {
                if !work.grants.has_ability(Ability::ReadClipboard) {
                    return Err(ComputerError::ClipboardNotGranted("read"));
                }
                if work.desktop.is_stopped()? {
                    return Err(ComputerError::StillStopped);
                }
                work.desktop.clipboard.read()
            };
            Ok(ToolOutput::text(session.run(context, Precondition::Access, read).await?))
        }
    };
    Tool::typed("read_clipboard", "Returns the text in the clipboard.", read).read_only()
}

fn write(session: &Arc<Session>) -> Tool {
    let session = session.clone();
    let write = move |context: HandlerContext, it: WriteArguments| {
        let session = session.clone();
        async move {
            let write = move |work: &mut Work<'_>| {
                if !work.grants.has_ability(Ability::WriteClipboard) {
                    return Err(ComputerError::ClipboardNotGranted("written"));
                }
                if work.desktop.is_stopped()? {
                    return Err(ComputerError::StillStopped);
                }
                work.desktop.clipboard.write(&it.text)?;
                Ok(format!("the clipboard has {} characters", it.text.chars().count()))
            };
            Ok(ToolOutput::text(session.run(context, Precondition::Access, write).await?))
        }
    };
    let description = "Puts text into the clipboard, to paste with ctrl+v.";
    Tool::typed("write_clipboard", description, write)
}
