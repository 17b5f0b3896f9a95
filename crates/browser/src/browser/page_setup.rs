//! What a new page or frame is sent before its first request leaves.

use serde_json::{Value as Json, json};

use crate::browser::context::{BrowserContext, Interception};
use crate::cdp::connection::CommandList;

/// What a session is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteKind {
    Page,
    Frame,
}

/// The kinds of targets that are attached to. Workers are, only to let them run and to be detached from at once: one that the
/// filter leaves out would wait for ever.
pub(crate) fn target_filter() -> Json {
    json!([{"type": "browser", "exclude": true}, {"type": "tab", "exclude": true}, {}])
}

/// Sends what a new page or frame needs before its first request leaves.
pub(crate) fn set_up(
    context: &BrowserContext,
    kind: RouteKind,
    session: &str,
    commands: &mut CommandList,
) {
    let session = Some(session);
    for method in ["Page.enable", "Runtime.enable"] {
        commands.push(session, method, json!({}));
    }
    commands.push(session, "Page.setLifecycleEventsEnabled", json!({"enabled": true}));
    let buffers = json!({"maxTotalBufferSize": 20_000_000, "maxResourceBufferSize": 5_000_000, "maxPostDataSize": 65_536});
    commands.push(session, "Network.enable", buffers);
    let attach = json!({
        "autoAttach": true,
        "waitForDebuggerOnStart": true,
        "flatten": true,
        "filter": target_filter(),
    });
    commands.push(session, "Target.setAutoAttach", attach);
    let patterns = match context.interception {
        Interception::Nothing => None,
        Interception::Documents => Some(json!([{"urlPattern": "*", "resourceType": "Document"}])),
        Interception::Everything => Some(json!([{"urlPattern": "*"}])),
    };
    if let Some(patterns) = patterns {
        commands.push(session, "Fetch.enable", json!({"patterns": patterns}));
    }
    if kind == RouteKind::Page {
        commands.push(session, "Log.enable", json!({}));
        commands.push(session, "Page.setInterceptFileChooserDialog", json!({"enabled": true}));
        if let Some((width, height)) = context.viewport {
            let size =
                json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
            commands.push(session, "Emulation.setDeviceMetricsOverride", size);
        }
    }
    commands.push(session, "Runtime.runIfWaitingForDebugger", json!({}));
}
