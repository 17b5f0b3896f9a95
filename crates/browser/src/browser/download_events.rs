//! Events of downloads: each belongs to the session whose page began it.

use std::sync::Arc;

use serde_json::json;

use crate::browser::context::{BrowserContext, Interception};
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
    // A browser of the user has downloads of the user.
    let is_of_user = |it: &Arc<BrowserContext>| it.interception == Interception::Everything;
    let context = match contexts {
        [only] if !is_of_user(only) => Some(only),
        _ => contexts.iter().find(of_frame),
    };
    if context.is_none() && contexts.iter().any(is_of_user) {
        return;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::guard::{ReachGuard, ReachRules};

    #[test]
    fn downloads_of_the_user_in_their_own_browser_are_left_alone() {
        let check = |interception, expected: usize| {
            let guard = Arc::new(ReachGuard::new(ReachRules::default()));
            let context = Arc::new(BrowserContext::new(None, guard, interception, None));
            let start = json!({"frameId": "f", "guid": "g", "url": "http://a.org/", "suggestedFilename": "x"});
            let start = serde_json::from_value(start).expect("a start");
            let mut commands = CommandList::default();
            begins(std::slice::from_ref(&context), start, &mut commands);
            assert_eq!(context.lock().downloads.list.len(), expected, "{interception:?}");
            assert_eq!(format!("{commands:?}"), "CommandList([])", "{interception:?}");
        };
        check(Interception::Everything, 0);
        check(Interception::Nothing, 1);
    }
}
