//! What an action tells: short, and everything that the model would otherwise miss.

use crate::actions::page::Page;
use crate::actions::settle::Mark;
use crate::shown_text::{cut, quoted, shown};

/// The longest answer of an action, in characters. With a notice about lost pages it stays below 400.
pub(crate) const MAX_REPORT: usize = 305;

impl Page {
    /// The answer of an action: what was done, and what happened since `mark`.
    pub(crate) fn report(&self, done: &str, mark: &Mark) -> String {
        let mut parts = vec![done.to_owned()];
        parts.extend(self.happened(mark));
        cut(&parts.join("; "), MAX_REPORT)
    }

    /// What happened since `mark`.
    pub(crate) fn happened(&self, mark: &Mark) -> Vec<String> {
        let mut parts = Vec::new();
        let mut state = self.context.lock();
        let closed_popups = std::mem::take(&mut state.closed_popups);
        let popups = std::mem::take(&mut state.opened_popups);
        let downloads: Vec<String> = state
            .downloads
            .list
            .iter()
            .skip(mark.downloads)
            .map(|it| format!("download {} started: {}", it.number, quoted(&it.suggested_name, 60)))
            .take(3)
            .collect();
        match state.tabs.get_mut(&self.tab) {
            None => parts.push(format!("tab {} is closed", self.tab)),
            Some(tab) => {
                if let Some(dialog) = &tab.dialogs.open {
                    let (kind, message) = (dialog.kind.id(), quoted(&dialog.message, 120));
                    parts.push(format!("a {kind} dialog is open: {message}; use handle_dialog"));
                }
                if tab.url != mark.url || tab.loader != mark.loader {
                    parts.push(format!(
                        "now at {} {}",
                        shown(&tab.url, 120),
                        quoted(&tab.title, 60)
                    ));
                } else if tab.is_navigating {
                    parts.push("the page is loading another one".to_owned());
                }
                if tab.chooser.is_some() && !mark.had_chooser {
                    parts.push("a file chooser is open; use upload".to_owned());
                }
                parts.extend(tab.take_notes());
            }
        }
        for number in popups.iter().take(3) {
            let url = state.tabs.get(number).map(|it| shown(&it.url, 100)).unwrap_or_default();
            parts.push(format!("opened tab {number} {url}").trim_end().to_owned());
        }
        if popups.len() > 3 {
            parts.push(format!("and {} more tabs", popups.len() - 3));
        }
        if closed_popups > 0 {
            parts.push(format!(
                "{closed_popups} more tabs were closed at once, because there are too many"
            ));
        }
        parts.extend(downloads);
        drop(state);
        let refusals = self.context.guard.refusals_since(mark.refusal);
        if let Some(first) = refusals.first() {
            parts.push(format!("not reached: {}", cut(&first.reason.to_string(), 200)));
        }
        parts
    }
}
