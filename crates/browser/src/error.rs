//! Why a tool did nothing, or stopped: each message tells the model what happened and what to do next.

use std::io;
use std::path::PathBuf;

use switchboard_builtin::kit::HandlerError;
use switchboard_wire::process::StartError;
use thiserror::Error;

use crate::cdp::connection::CdpError;
use crate::reach::guard::ReachError;

/// Why a tool did nothing, or stopped.
#[derive(Debug, Error)]
pub(crate) enum BrowserError {
    #[error(
        "no Chromium was found in PATH; install the package chromium-headless-shell or chromium (`swb doctor browser` says more)"
    )]
    NoProgram,
    #[error(
        "a browser with a window needs a screen: neither DISPLAY nor WAYLAND_DISPLAY is set; leave out `--browser-window`"
    )]
    NoScreen,
    #[error("{0}")]
    Start(String),
    #[error("the browser did not start: it ended ({status}); its last words: {words}")]
    Ended { status: String, words: String },
    #[error("the profile `{name}` is in use by {holder}; close it, or use another profile")]
    ProfileInUse { name: String, holder: String },
    #[error("`{name}` is not the name of a profile: use letters, digits, `-` and `_`")]
    ProfileName { name: String },
    #[error(
        "no browser answers at {endpoint}: {reason}; start one with --remote-debugging-port, or leave out --cdp-endpoint"
    )]
    Endpoint { endpoint: String, reason: String },
    #[error(
        "pages can be reached only through an HTTP proxy, and the environment names one of the kind `{scheme}:`; set https_proxy to an http: URL, or NO_PROXY=*"
    )]
    ProxyScheme { scheme: String },
    #[error("{what} could not be prepared: {source}")]
    Folder { what: &'static str, source: io::Error },
    #[error(transparent)]
    Cdp(CdpError),
    #[error(transparent)]
    Reach(#[from] ReachError),

    #[error("there is no tab {0}; open tabs: {1}")]
    NoTab(u32, String),
    #[error("this session has {0} tabs, which is the most; close one with `tabs`")]
    TooManyTabs(usize),
    #[error("tab {0} has crashed; reload it with `navigate`, or close it with `tabs`")]
    Crashed(u32),
    #[error("tab {tab} shows a {kind} dialog ({message}); answer it with `handle_dialog` first")]
    DialogOpen { tab: u32, kind: &'static str, message: String },
    #[error("tab {0} shows no dialog; it may have been dismissed after 10 seconds")]
    NoDialog(u32),
    #[error(
        "the page is busy: its scripts did not let ours run within {0} s; try again, reload it, or close the tab"
    )]
    Busy(f32),
    #[error(
        "{reference} belongs to a page that is gone; call read_page or find, and use a reference from its answer"
    )]
    StaleRef { reference: String },
    #[error("{reference} was removed from the page ({what}); call read_page or find again")]
    RemovedRef { reference: String, what: String },
    #[error("`{0}` is not a reference; use one such as e12 from read_page or find")]
    NoRef(String),
    #[error(
        "{what} is not visible, so that it cannot be used; scroll, open the menu it is in, or use another element"
    )]
    Invisible { what: String },
    #[error("{what} is disabled")]
    Disabled { what: String },
    #[error("{what} is covered by {cover}; close or move that first")]
    Covered { what: String, cover: String },
    #[error("{what} keeps moving; wait_for it to stop, or try again")]
    Moving { what: String },
    #[error("{what} {reason}")]
    WrongElement { what: String, reason: String },
    #[error(
        "({x}, {y}) is outside the page's visible part, which is {width}x{height}; take a screenshot for coordinates"
    )]
    OutsideViewport { x: f64, y: f64, width: f64, height: f64 },
    #[error("the page could not be loaded: {0}")]
    Load(String),
    #[error("{what} within {seconds} s")]
    WaitedInVain { what: String, seconds: f64 },
    #[error("{name} has to be {expected}")]
    Argument { name: &'static str, expected: String },
    #[error(
        "there is no key `{0}`; examples: Enter, Tab, Escape, ArrowDown, F5, ctrl+a, shift+Tab"
    )]
    UnknownKey(String),
    #[error("the script failed: {0}")]
    Script(String),
    #[error("the pattern is not a regular expression: {0}")]
    Pattern(String),
    #[error("{path} cannot be used: {reason}", path = path.display())]
    File { path: PathBuf, reason: String },
    #[error("there is no download {0}; `downloads` lists them")]
    NoDownload(u32),
    #[error("there is no request {0} any more; `network` lists them")]
    NoRequest(u64),
    #[error(
        "no file chooser is open and no file field was given; click the upload button first, or pass `ref`"
    )]
    NoChooser,
    #[error("the user did not allow it: {0}")]
    Declined(&'static str),
    #[error("step {number} ({tool}): {reason}{done}")]
    Batch { number: usize, tool: String, reason: String, done: String },
}

/// The result of the browser's operations.
pub(crate) type Result<T> = std::result::Result<T, BrowserError>;

impl From<BrowserError> for HandlerError {
    fn from(error: BrowserError) -> HandlerError {
        HandlerError::failed(crate::shown_text::clean(&crate::shown_text::cut(
            &error.to_string(),
            1500,
        )))
    }
}

impl From<CdpError> for BrowserError {
    fn from(error: CdpError) -> BrowserError {
        BrowserError::Cdp(error)
    }
}

impl From<StartError> for BrowserError {
    fn from(error: StartError) -> BrowserError {
        BrowserError::Start(format!("{error}: {}", error.source))
    }
}
