//! The frames of a tab, and the script worlds in them.

use std::collections::HashMap;

use crate::cdp::message::SessionId;

/// How many frames of a tab are followed.
const MAX_FRAMES: usize = 500;

/// One frame.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) parent: Option<String>,
    /// The session that it belongs to: a frame of another site has its own.
    pub(crate) session: SessionId,
    /// The document in it.
    pub(crate) loader: String,
    pub(crate) url: String,
    /// The world of our script in this document.
    pub(crate) world: Option<World>,
}

/// The world of our script in one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct World {
    /// A number that no other world of the tab has.
    pub(crate) number: u32,
    /// The browser's id of it.
    pub(crate) context: i64,
}

/// The frames of a tab.
#[derive(Debug, Default)]
pub(crate) struct Frames(HashMap<String, Frame>);

impl Frames {
    pub(crate) fn get(&self, id: &str) -> Option<&Frame> {
        self.0.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Frame> {
        self.0.get_mut(id)
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// Adds a frame, or moves it to another session.
    pub(crate) fn attach(&mut self, id: &str, parent: Option<&str>, session: &SessionId) {
        if let Some(frame) = self.0.get_mut(id) {
            frame.session = session.clone();
            frame.world = None;
            if let Some(parent) = parent {
                frame.parent = Some(parent.to_owned());
            }
        } else if self.0.len() < MAX_FRAMES {
            let parent = parent.map(str::to_owned);
            let (loader, url) = (String::new(), String::new());
            let frame = Frame { parent, session: session.clone(), loader, url, world: None };
            self.0.insert(id.to_owned(), frame);
        }
    }

    /// A new document is in the frame: its children and its world are gone.
    pub(crate) fn navigate(&mut self, id: &str, loader: &str, url: &str, session: &SessionId) {
        self.remove_children(id);
        if let Some(frame) = self.0.get_mut(id) {
            loader.clone_into(&mut frame.loader);
            url.clone_into(&mut frame.url);
            frame.session = session.clone();
            frame.world = None;
        }
    }

    /// Removes a frame and those in it.
    pub(crate) fn detach(&mut self, id: &str) {
        self.remove_children(id);
        self.0.remove(id);
    }

    fn remove_children(&mut self, id: &str) {
        let is_child = |it: &Frame| it.parent.as_deref() == Some(id);
        let children: Vec<String> =
            self.0.iter().filter(|(_, it)| is_child(it)).map(|(id, _)| id.clone()).collect();
        children.iter().for_each(|it| self.detach(it));
    }

    /// Forgets the worlds of a session, or one of them.
    pub(crate) fn forget_worlds(&mut self, session: &str, context: Option<i64>) {
        for frame in self.0.values_mut().filter(|it| &*it.session == session) {
            if frame.world.is_some_and(|it| context.is_none_or(|context| it.context == context)) {
                frame.world = None;
            }
        }
    }

    /// The frame with this world.
    pub(crate) fn of_world(&self, number: u32) -> Option<(&str, &Frame)> {
        let is_it = |it: &Frame| it.world.is_some_and(|world| world.number == number);
        self.0.iter().find(|(_, it)| is_it(it)).map(|(id, it)| (id.as_str(), it))
    }

    /// The ids of all frames.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}
