//! The clipboard: a thread owns our text and gives it to programs that paste; reading asks the owner, who may never
//! answer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use x11rb::connection::Connection as _;
use x11rb::errors::ConnectionError;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ClientMessageEvent, ConnectionExt as _, EventMask,
    PropMode, Property, SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent,
    Window,
};
use x11rb::wrapper::ConnectionExt as _;

use crate::error::{ComputerError, Result};
use crate::x11::display::Display;

/// How long the owner of the clipboard may take for each part.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest text that is read or written, in bytes. Below what needs parts on the way out.
pub(crate) const MAX_TEXT_BYTES: usize = 200_000;
/// The longest part that is read at once.
const MAX_PART_BYTES: usize = 4 * 1024 * 1024;
/// How long the rest of a text that is too long is read.
const DISCARD_TIME: Duration = Duration::from_secs(3);
/// How many messages of the server may wait for a reader.
const CHANNEL_CAPACITY: usize = 64;

/// The clipboard of a display. Dropping it ends its thread and gives the clipboard up.
pub(crate) struct Clipboard {
    display: Arc<Display>,
    window: Window,
    text: Arc<Mutex<Option<String>>>,
    notices: Receiver<Notice>,
    thread: Option<JoinHandle<()>>,
}

/// What the server said about a text that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    /// The owner has answered; whether there is a text.
    Converted { has_text: bool },
    /// The next part is there.
    NextPart,
}

impl Clipboard {
    /// Opens the clipboard of a display.
    pub(crate) fn open(name: &str) -> Result<Clipboard> {
        let display = Arc::new(Display::connect(name)?);
        let window = display.message_window()?;
        let events = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        display.connection.change_window_attributes(window, &events)?.check()?;
        let text = Arc::new(Mutex::new(None));
        let (sender, notices) = sync_channel(CHANNEL_CAPACITY);
        let keeper = Keeper { display: display.clone(), window, text: text.clone(), sender };
        let thread = std::thread::Builder::new().name("computer-clipboard".to_owned());
        let thread = thread.spawn(move || keeper.run()).map_err(ConnectionError::from)?;
        Ok(Clipboard { display, window, text, notices, thread: Some(thread) })
    }

    /// Takes the clipboard with a text.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(ComputerError::ClipboardTooLarge(MAX_TEXT_BYTES));
        }
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
        let (connection, selection) = (&self.display.connection, self.display.atoms.CLIPBOARD);
        connection.set_selection_owner(self.window, selection, x11rb::CURRENT_TIME)?.check()?;
        match connection.get_selection_owner(selection)?.reply()?.owner == self.window {
            true => Ok(()),
            false => Err(ComputerError::ClipboardNotTaken),
        }
    }

    /// The text in the clipboard.
    pub(crate) fn read(&self) -> Result<String> {
        let (connection, atoms) = (&self.display.connection, &self.display.atoms);
        let owner = connection.get_selection_owner(atoms.CLIPBOARD)?.reply()?.owner;
        if owner == x11rb::NONE {
            return Err(ComputerError::ClipboardEmpty);
        }
        if owner == self.window {
            let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
            return text.ok_or(ComputerError::ClipboardEmpty);
        }
        while self.notices.try_recv().is_ok() {}
        let property = atoms._SWB_CLIPBOARD;
        connection.delete_property(self.window, property)?;
        connection.convert_selection(
            self.window,
            atoms.CLIPBOARD,
            atoms.UTF8_STRING,
            property,
            x11rb::CURRENT_TIME,
        )?;
        connection.flush()?;
        if !self.wait_for_answer()? {
            return Err(ComputerError::ClipboardEmpty);
        }
        let bytes = self.take_property()?;
        let bytes = match bytes {
            Part::Whole(bytes) if bytes.len() > MAX_TEXT_BYTES => {
                return Err(ComputerError::ClipboardTooLarge(MAX_TEXT_BYTES));
            }
            Part::Whole(bytes) => bytes,
            Part::InParts => self.read_parts()?,
        };
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn wait_for_answer(&self) -> Result<bool> {
        let start = Instant::now();
        loop {
            match self.next_notice(start)? {
                Notice::Converted { has_text } => return Ok(has_text),
                Notice::NextPart => {}
            }
        }
    }

    /// A long text: each part replaces the one before, and an empty one is the end. A text that is too long is read to its
    /// end, so that its parts do not mix with the next text.
    fn read_parts(&self) -> Result<Vec<u8>> {
        let start = Instant::now();
        let mut bytes = Vec::new();
        let mut is_too_large = false;
        loop {
            match self.next_notice(Instant::now())? {
                Notice::Converted { .. } => {}
                Notice::NextPart => match self.take_property()? {
                    Part::Whole(part) if part.is_empty() => break,
                    Part::Whole(part) => bytes.extend(part),
                    Part::InParts => {}
                },
            }
            if bytes.len() > MAX_TEXT_BYTES {
                is_too_large = true;
                bytes.clear();
            }
            if is_too_large && start.elapsed() > DISCARD_TIME {
                break;
            }
        }
        match is_too_large {
            true => Err(ComputerError::ClipboardTooLarge(MAX_TEXT_BYTES)),
            false => Ok(bytes),
        }
    }

    fn next_notice(&self, start: Instant) -> Result<Notice> {
        let left = READ_TIMEOUT.saturating_sub(start.elapsed());
        self.notices.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => ComputerError::ClipboardTimeout(READ_TIMEOUT.as_millis()),
            RecvTimeoutError::Disconnected => ConnectionError::UnknownError.into(),
        })
    }

    /// Reads and removes what the owner has stored.
    fn take_property(&self) -> Result<Part> {
        let (connection, property) = (&self.display.connection, self.display.atoms._SWB_CLIPBOARD);
        // A part may be as long as a request can be.
        let units = (MAX_PART_BYTES / 4) as u32;
        let reply = connection
            .get_property(true, self.window, property, AtomEnum::ANY, 0, units)?
            .reply()?;
        connection.flush()?;
        if reply.bytes_after > 0 {
            connection.delete_property(self.window, property)?.check()?;
            return Err(ComputerError::ClipboardTooLarge(MAX_TEXT_BYTES));
        }
        Ok(match reply.type_ == self.display.atoms.INCR {
            true => Part::InParts,
            false => Part::Whole(reply.value),
        })
    }
}

/// What a property holds.
enum Part {
    Whole(Vec<u8>),
    InParts,
}

impl Drop for Clipboard {
    fn drop(&mut self) {
        let kind = self.display.atoms._SWB_MARK;
        let end = ClientMessageEvent::new(32, self.window, kind, [0; 5]);
        let connection = &self.display.connection;
        let _server_gone = connection.send_event(false, self.window, EventMask::NO_EVENT, end);
        let _server_gone = connection.flush();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// The thread that answers programs that paste.
struct Keeper {
    display: Arc<Display>,
    window: Window,
    text: Arc<Mutex<Option<String>>>,
    sender: SyncSender<Notice>,
}

impl Keeper {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the events of the server are not our enum")]
    fn run(self) {
        while let Ok(event) = self.display.connection.wait_for_event() {
            match event {
                // A failed answer is the problem of the program that asked: it is gone, most likely.
                Event::SelectionRequest(event) => drop(self.answer(&event)),
                Event::SelectionClear(_) => {
                    *self.text.lock().unwrap_or_else(PoisonError::into_inner) = None;
                }
                Event::SelectionNotify(event) => {
                    let has_text = event.property != x11rb::NONE;
                    let _no_reader = self.sender.try_send(Notice::Converted { has_text });
                }
                Event::PropertyNotify(event)
                    if event.window == self.window
                        && event.atom == self.display.atoms._SWB_CLIPBOARD
                        && event.state == Property::NEW_VALUE =>
                {
                    let _no_reader = self.sender.try_send(Notice::NextPart);
                }
                Event::ClientMessage(event) if event.type_ == self.display.atoms._SWB_MARK => break,
                _ => {}
            }
        }
    }

    fn answer(&self, request: &SelectionRequestEvent) -> Result<()> {
        let (connection, atoms) = (&self.display.connection, &self.display.atoms);
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Old programs name no property.
        let mut property = match request.property {
            x11rb::NONE => request.target,
            property => property,
        };
        let string: u32 = AtomEnum::STRING.into();
        let (mode, requestor) = (PropMode::REPLACE, request.requestor);
        match text {
            Some(_) if request.target == atoms.TARGETS => {
                let targets = [atoms.TARGETS, atoms.UTF8_STRING, atoms.TEXT, string];
                let kind = AtomEnum::ATOM;
                connection.change_property32(mode, requestor, property, kind, &targets)?.check()?;
            }
            Some(text) if [atoms.UTF8_STRING, atoms.TEXT, string].contains(&request.target) => {
                let kind = match request.target == string {
                    true => string,
                    false => atoms.UTF8_STRING,
                };
                let bytes = text.as_bytes();
                connection.change_property8(mode, requestor, property, kind, bytes)?.check()?;
            }
            Some(_) | None => property = x11rb::NONE,
        }
        let notice = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor,
            selection: request.selection,
            target: request.target,
            property,
        };
        connection.send_event(false, requestor, EventMask::NO_EVENT, notice)?;
        connection.flush()?;
        Ok(())
    }
}
