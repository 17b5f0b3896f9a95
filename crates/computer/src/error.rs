//! Why a tool did nothing, or stopped: each message tells the model what happened and what to do next.

use switchboard_builtin::kit::HandlerError;
use thiserror::Error;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

use crate::display_environment::NoDisplay;

/// Why a tool did nothing, or stopped.
#[derive(Debug, Error)]
pub(crate) enum ComputerError {
    #[error("the computer server works only in an interactive session: {0}")]
    NotInteractive(&'static str),
    #[error(transparent)]
    NoDisplay(#[from] NoDisplay),
    #[error("cannot connect to the X display {display}: {source}")]
    Connect { display: String, source: ConnectError },
    #[error("the X server lacks {0}, which this server needs")]
    MissingExtension(&'static str),
    #[error("the connection to the X server failed: {0}")]
    Connection(#[source] ConnectionError),
    #[error("the X server refused a request: {0}")]
    Request(#[source] ReplyError),
    #[error("the screen has {0} bits per pixel; only 24-bit colour in 32 bits is supported")]
    PixelFormat(u8),
    #[error("the picture could not be encoded: {0}")]
    Encode(#[from] image::ImageError),
    #[error("the picture could not be scaled: {0}")]
    Resize(#[from] fast_image_resize::ResizeError),

    #[error("access has not been granted yet; call request_access with the applications you need")]
    NoAccess,
    #[error("the user did not grant access: {0}")]
    Declined(&'static str),
    #[error(
        "the {target} belongs to {application}, which the user has not granted; work in a granted application, or call \
         request_access with {application}"
    )]
    NotGranted { target: &'static str, application: String },
    #[error(
        "the {0} is the terminal in which swb itself runs; it is never controlled, because what is typed there answers \
         swb's own questions"
    )]
    OwnTerminal(&'static str),
    #[error("no window has the keyboard focus; use focus_window or click into a window first")]
    NoFocus,
    #[error("{keys} acts on the whole desktop; call request_access with system_keys first")]
    SystemKeys { keys: String },
    #[error("{keys} ends or leaves the desktop session and is never sent")]
    SessionKeys { keys: String },
    #[error("the clipboard may not be {0}; call request_access with it first")]
    ClipboardNotGranted(&'static str),

    #[error("there is no picture to take coordinates from; call screenshot first")]
    NoPicture,
    #[error("picture {0} is not known any more; use the newest one, or call screenshot")]
    UnknownPicture(u32),
    #[error("({x}, {y}) is outside picture {picture}, which is {width}x{height}")]
    OutsidePicture { x: i32, y: i32, picture: u32, width: u32, height: u32 },
    #[error(
        "the windows at this place have changed since picture {0} was taken; nothing was done; call screenshot and look \
         again"
    )]
    StalePicture(u32),
    #[error("there is no monitor {0}; there are {1}")]
    NoMonitor(usize, usize),
    #[error("there is no window {0}; list_windows shows them")]
    NoWindow(u32),
    #[error("window {0} is not visible; use focus_window first")]
    HiddenWindow(u32),
    #[error("window {0} did not get the focus within {1} ms; call screenshot to see why")]
    NotFocused(u32, u128),

    #[error(
        "the user pressed Escape or used the pointer or keyboard during an action, so all control is stopped ({done}); ask \
         the user what to do, and call request_access again if they want you to continue"
    )]
    Stopped { done: String },
    #[error(
        "control is stopped because the user took over; ask the user what to do, and call request_access again if they want \
         you to continue"
    )]
    StillStopped,
    #[error(
        "the user is using the pointer or keyboard right now; nothing was done; wait, then call screenshot"
    )]
    UserActive,
    #[error(
        "the user has used the pointer or keyboard since the last picture; nothing was done; call screenshot and look at what \
         changed"
    )]
    UserActiveSincePicture,
    #[error(
        "the focus moved to another window, so typing stopped after {typed} of {total} characters; call screenshot"
    )]
    FocusMoved { typed: usize, total: usize },
    #[error(
        "a modifier key, a mouse button or a group of keys is held down at the keyboard; nothing was typed"
    )]
    ModifierHeld,
    #[error(
        "another program has grabbed the keyboard (an open menu, a screen lock, a password dialog), and would get the keys; nothing was typed"
    )]
    KeyboardGrabbed,
    #[error("the call was cancelled ({done})")]
    Cancelled { done: String },

    #[error(
        "there is no key {0:?}; examples: Return, Tab, Escape, Up, F5, ctrl+s, alt+Left, shift+Tab"
    )]
    UnknownKey(String),
    #[error(
        "no key of this keyboard is free for other characters; paste the text with write_clipboard and ctrl+v"
    )]
    NoFreeKeys,
    #[error(
        "the character {0:?} cannot be typed; line ends and tabs can, other control characters cannot"
    )]
    Untypable(char),
    #[error("{name} has to be {expected}")]
    Argument { name: &'static str, expected: String },
    #[error("action {number} ({tool}): {reason}")]
    InvalidAction { number: usize, tool: String, reason: String },

    #[error("the clipboard is empty or holds no text")]
    ClipboardEmpty,
    #[error("the program that owns the clipboard did not answer within {0} ms")]
    ClipboardTimeout(u128),
    #[error("the clipboard holds more than {0} bytes of text")]
    ClipboardTooLarge(usize),
    #[error("another program took the clipboard at once")]
    ClipboardNotTaken,

    #[error("there is no application {name}; {known}")]
    UnknownApplication { name: String, known: String },
    #[error("{name} cannot be started: it has no installed program to start")]
    NotStartable { name: String },
    #[error("{name} could not be started: {source}")]
    Start { name: String, source: std::io::Error },
}

/// The result of work on the desktop.
pub(crate) type Result<T> = std::result::Result<T, ComputerError>;

impl ComputerError {
    /// Whether the connection to the X server is unusable from now on.
    pub(crate) fn is_disconnect(&self) -> bool {
        matches!(self, ComputerError::Connection(_))
    }
}

impl From<ConnectionError> for ComputerError {
    fn from(error: ConnectionError) -> ComputerError {
        ComputerError::Connection(error)
    }
}

impl From<ReplyError> for ComputerError {
    fn from(error: ReplyError) -> ComputerError {
        match error {
            ReplyError::ConnectionError(error) => ComputerError::Connection(error),
            ReplyError::X11Error(_) => ComputerError::Request(error),
        }
    }
}

impl From<ReplyOrIdError> for ComputerError {
    fn from(error: ReplyOrIdError) -> ComputerError {
        match error {
            ReplyOrIdError::ConnectionError(error) => ComputerError::Connection(error),
            ReplyOrIdError::X11Error(error) => ComputerError::Request(ReplyError::X11Error(error)),
            ReplyOrIdError::IdsExhausted => {
                ComputerError::Connection(ConnectionError::UnknownError)
            }
        }
    }
}

impl From<ComputerError> for HandlerError {
    fn from(error: ComputerError) -> HandlerError {
        HandlerError::failed(error.to_string())
    }
}
