//! Dialogs of pages: what is answered at once, and what waits for the model.

use std::time::Duration;

use serde::Deserialize;

/// How long a question waits for an answer.
pub(crate) const DIALOG_TIMEOUT: Duration = Duration::from_secs(10);
/// How many messages of dialogs are kept until they are told.
const MAX_NOTES: usize = 5;

/// The kind of a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DialogKind {
    Alert,
    Confirm,
    Prompt,
    BeforeUnload,
}

impl DialogKind {
    pub(crate) fn id(self) -> &'static str {
        match self {
            DialogKind::Alert => "alert",
            DialogKind::Confirm => "confirm",
            DialogKind::Prompt => "prompt",
            DialogKind::BeforeUnload => "beforeunload",
        }
    }

    /// Whether it only informs: accepting it is the only answer.
    pub(crate) fn is_accepted_at_once(self) -> bool {
        match self {
            DialogKind::Alert | DialogKind::BeforeUnload => true,
            DialogKind::Confirm | DialogKind::Prompt => false,
        }
    }
}

/// An open dialog.
#[derive(Debug, Clone)]
pub(crate) struct Dialog {
    pub(crate) number: u64,
    pub(crate) kind: DialogKind,
    pub(crate) message: String,
    pub(crate) default: String,
}

/// The dialogs of one tab.
#[derive(Debug, Default)]
pub(crate) struct Dialogs {
    pub(crate) open: Option<Dialog>,
    next: u64,
    notes: Vec<String>,
    untold: u64,
}

/// The parameters of `Page.javascriptDialogOpening`.
#[derive(Deserialize)]
pub(crate) struct DialogEvent {
    message: String,
    #[serde(rename = "type")]
    kind: DialogKind,
    #[serde(rename = "defaultPrompt", default)]
    default: String,
}

impl Dialogs {
    /// A dialog opens. Returns its kind and its number.
    pub(crate) fn open(&mut self, opening: DialogEvent) -> (DialogKind, u64) {
        self.next += 1;
        let DialogEvent { message, kind, default } = opening;
        let message = crate::shown_text::shown(&message, 500);
        match kind.is_accepted_at_once() {
            true => self.note(match kind {
                DialogKind::BeforeUnload => {
                    "the page asked whether to leave it; accepted".to_owned()
                }
                DialogKind::Alert | DialogKind::Confirm | DialogKind::Prompt => {
                    format!("alert, accepted: {}", crate::shown_text::quoted(&message, 300))
                }
            }),
            false => {
                let default = crate::shown_text::shown(&default, 200);
                self.open = Some(Dialog { number: self.next, kind, message, default });
            }
        }
        (kind, self.next)
    }

    /// Adds something to tell with the next answer.
    pub(crate) fn note(&mut self, note: String) {
        match self.notes.len() < MAX_NOTES {
            true => self.notes.push(note),
            false => self.untold += 1,
        }
    }

    /// Takes what is to be told.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        let untold = std::mem::take(&mut self.untold);
        if untold > 0 {
            notes.push(format!("{untold} more dialogs of this page were accepted"));
        }
        notes
    }
}
