//! The tool that opens an application.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard_builtin::kit::{HandlerContext, Tool, ToolOutput};

use crate::applications::launch;
use crate::error::{ComputerError, Result};
use crate::session::{Precondition, Session, Work};
use crate::shown_text::{quoted, shown};

/// How long a new window is waited for.
const WINDOW_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OpenArguments {
    /// The name of an installed application that is granted.
    name: String,
}

/// The tool.
pub(super) fn open_application(session: &Arc<Session>) -> Tool {
    let session = session.clone();
    let open = move |context: HandlerContext, it: OpenArguments| {
        let session = session.clone();
        async move {
            let open = move |work: &mut Work<'_>| open(work, &it.name);
            Ok(ToolOutput::text(session.run(context, Precondition::Access, open).await?))
        }
    };
    let description = "Starts a granted application and waits for its window.";
    Tool::typed("open_application", description, open)
}

fn open(work: &mut Work<'_>, name: &str) -> Result<String> {
    if work.desktop.is_stopped()? {
        return Err(ComputerError::StillStopped);
    }
    let name = shown(name, 60);
    let application = work.session.applications.iter().find(|it| it.is_called(&name));
    let Some(application) = application else {
        let known = "request_access lists the installed ones".to_owned();
        return Err(ComputerError::UnknownApplication { name, known });
    };
    if !work.grants.has_application(&application.keys) {
        let application = quoted(&application.name, 60);
        return Err(ComputerError::NotGranted { target: "program", application });
    }
    let known: BTreeSet<u32> = windows(work)?.into_iter().map(|(window, _)| window).collect();
    launch::start(application, &work.session.settings.environment)?;
    let end = Instant::now() + WINDOW_TIMEOUT;
    while Instant::now() < end && !work.context.is_cancelled() {
        let new = windows(work)?.into_iter().find(|(it, _)| !known.contains(it));
        if let Some((window, label)) = new {
            return Ok(format!("opened {}: window {window}, {label}", application.name));
        }
        std::thread::sleep(POLL);
    }
    Ok(format!("started {}, but it has shown no window yet", application.name))
}

/// The windows of granted applications.
fn windows(work: &Work<'_>) -> Result<Vec<(u32, String)>> {
    let own_terminal = work.desktop.own_terminal();
    let windows = work.desktop.display.client_windows()?.into_iter();
    let granted = windows.filter(|it| it.is_visible && work.grants.shows(&it.owner, own_terminal));
    Ok(granted.map(|it| (it.owner.window, quoted(&it.owner.label, 60))).collect())
}
