//! Tools that change how a page is shown.

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard_builtin::kit::{HandlerError, Tool};

use crate::actions::emulation::Emulation;
use crate::error::BrowserError;
use crate::tools::registry::{Answer, CallScope, Registry};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResizeArguments {
    width: u32,
    height: u32,
    /// With touch, as a phone.
    mobile: Option<bool>,
    tab: Option<u32>,
}

/// Adds the tools.
pub(super) fn add(registry: &mut Registry) {
    registry.add("resize", "Sets the size of the page.", Tool::non_destructive, resize);
    registry.add(
        "emulate",
        "Sets what the page is told: colour scheme, media, time zone, locale, location, offline.",
        Tool::non_destructive,
        emulate,
    );
}

async fn resize(scope: CallScope, it: ResizeArguments) -> Result<Answer, HandlerError> {
    let turn = scope.session.turn(it.tab).await?;
    turn.page.check_usable()?;
    let mark = turn.page.mark()?;
    turn.page.resize(it.width, it.height, it.mobile.unwrap_or(false)).await?;
    turn.page.settle(&mark).await;
    Ok(format!("the page is {}x{}", it.width, it.height).into())
}

async fn emulate(scope: CallScope, it: Emulation) -> Result<Answer, HandlerError> {
    let turn = scope.session.turn(it.tab).await?;
    turn.page.check_usable()?;
    let done = turn.page.emulate(&it).await?;
    match done.is_empty() {
        true => {
            let expected = "given, or another setting".to_owned();
            Err(BrowserError::Argument { name: "color_scheme", expected }.into())
        }
        false => {
            Ok(format!("set: {}; some pages notice it only after a reload", done.join(", ")).into())
        }
    }
}
