//! One tab: its frames, the state of its document, and what it has shown.

use crate::cdp::message::SessionId;
use crate::page::console::Console;
use crate::page::dialog::Dialogs;
use crate::page::frames::Frames;
use crate::page::network::Requests;

/// How far a tab is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TabHealth {
    Running,
    /// Its process has crashed.
    Crashed,
}

/// How much of a document is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DocumentState {
    /// It is being read.
    Loading,
    /// Its HTML was read (`DOMContentLoaded`).
    Ready,
    /// Its pictures and scripts were, too (`load`).
    Loaded,
}

/// A file chooser that a page has opened.
#[derive(Debug, Clone)]
pub(crate) struct FileChooser {
    pub(crate) session: SessionId,
    pub(crate) node: i64,
    pub(crate) takes_many: bool,
}

/// The references to elements that a world has given out: numbers from `start` to before `end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefRange {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) world: u32,
}

/// One tab.
#[derive(Debug)]
pub(crate) struct Tab {
    pub(crate) number: u32,
    pub(crate) target: String,
    pub(crate) session: SessionId,
    pub(crate) opener: Option<u32>,
    pub(crate) url: String,
    pub(crate) title: String,
    pub(crate) health: TabHealth,
    pub(crate) frames: Frames,
    /// The document of the main frame.
    pub(crate) loader: String,
    pub(crate) document: DocumentState,
    /// Whether the main frame is on its way to another document.
    pub(crate) is_navigating: bool,
    /// How many navigations of the main frame have begun.
    pub(crate) navigations: u64,
    pub(crate) console: Console,
    pub(crate) requests: Requests,
    pub(crate) dialogs: Dialogs,
    pub(crate) chooser: Option<FileChooser>,
    /// What a drag carries, as the browser reported it.
    pub(crate) drag: Option<Box<serde_json::value::RawValue>>,
    /// Given references, with rising numbers.
    pub(crate) refs: Vec<RefRange>,
    pub(crate) next_ref: u32,
    next_world: u32,
    /// CSS pixels for one pixel of the last picture.
    pub(crate) picture_scale: f64,
    /// Things to tell with the next answer: documents that were stopped, popups that were closed.
    pub(crate) notes: Vec<String>,
}

impl Tab {
    pub(crate) fn new(number: u32, target: &str, session: SessionId) -> Tab {
        let mut frames = Frames::default();
        frames.attach(target, None, &session);
        Tab {
            number,
            target: target.to_owned(),
            session,
            opener: None,
            url: String::new(),
            title: String::new(),
            health: TabHealth::Running,
            frames,
            loader: String::new(),
            document: DocumentState::Loaded,
            is_navigating: false,
            navigations: 0,
            console: Console::default(),
            requests: Requests::default(),
            dialogs: Dialogs::default(),
            chooser: None,
            drag: None,
            refs: Vec::new(),
            next_ref: 1,
            next_world: 1,
            picture_scale: 1.0,
            notes: Vec::new(),
        }
    }

    /// A number for a new world.
    pub(crate) fn new_world_number(&mut self) -> u32 {
        self.next_world += 1;
        self.next_world - 1
    }

    /// Records that a world has given out the references from `next_ref` to before `end`.
    pub(crate) fn record_refs(&mut self, world: u32, end: u32) {
        if end <= self.next_ref {
            return;
        }
        let start = self.next_ref;
        self.next_ref = end;
        match self.refs.last_mut() {
            Some(last) if last.world == world && last.end == start => last.end = end,
            Some(_) | None => self.refs.push(RefRange { start, end, world }),
        }
    }

    /// The world that has given out a reference.
    pub(crate) fn world_of_ref(&self, number: u32) -> Option<u32> {
        let is_in = |it: &&RefRange| (it.start..it.end).contains(&number);
        self.refs.iter().find(is_in).map(|it| it.world)
    }

    /// Adds something to tell, within bounds.
    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < 10 {
            self.notes.push(note);
        }
    }

    /// Takes what is to be told with the next answer.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.dialogs.take_notes());
        notes
    }
}
