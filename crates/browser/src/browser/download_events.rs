//! Events of downloads: each belongs to the session whose page began it.

use std::sync::Arc;

use serde_json::json;

use crate::browser::context::BrowserContext;
use crate::cdp::connection::CommandList;
use crate::page::downloads::{DownloadProgress, DownloadStart, DownloadVerdict};

/// A download belongs to the context with its frame; one that none has is cancelled.
pub(crate) fn begins(
    contexts: &[Arc<BrowserContext>],
    beginning: DownloadStart,
    commands: &mut CommandList,
) {
    let guid = beginning.guid.clone();
    let of_frame = |context: &&Arc<BrowserContext>| {
        context.lock().tabs.values().any(|it| it.frames.contains(&beginning.frame))
    };
    let context = match contexts {
        [only] => Some(only),
        _ => contexts.iter().find(of_frame),
    };
    let Some(context) = context else {
        contexts.iter().for_each(|it| cancel(it, &guid, commands));
        return;
    };
    let verdict = context.lock().downloads.begin(beginning);
    if verdict == DownloadVerdict::Cancel {
        cancel(context, &guid, commands);
    }
    context.notify();
}

/// A download goes on; one that has become too large is cancelled.
pub(crate) fn continues(
    contexts: &[Arc<BrowserContext>],
    progress: &DownloadProgress,
    commands: &mut CommandList,
) {
    for context in contexts {
        let mut state = context.lock();
        if state.downloads.has_guid(&progress.guid) {
            let verdict = state.downloads.progress(progress);
            drop(state);
            if verdict == DownloadVerdict::Cancel {
                cancel(context, &progress.guid, commands);
            }
            context.notify();
            return;
        }
    }
}

fn cancel(context: &BrowserContext, guid: &str, commands: &mut CommandList) {
    let mut params = json!({"guid": guid});
    if let Some(id) = &context.id {
        params["browserContextId"] = json!(id);
    }
    commands.push(None, "Browser.cancelDownload", params);
}
