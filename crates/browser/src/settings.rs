//! The settings of the server, its names and those of its tools.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::process::WatchdogProgram;

use crate::browser::program::Window;
use crate::browser::shared::SharedBrowser;
use crate::reach::guard::ReachRules;
use crate::reach::proxy::upstream::UpstreamProxy;

/// The name of the server.
pub const NAME: &str = "browser";

/// The other names under which the server can be used.
pub const ALIASES: [&str; 1] = ["claude-in-chrome"];

/// The names of its tools.
pub const TOOLS: [&str; 24] = [
    "batch",
    "click",
    "console",
    "downloads",
    "drag",
    "emulate",
    "evaluate",
    "fill_form",
    "find",
    "handle_dialog",
    "hover",
    "navigate",
    "network",
    "page_text",
    "press_key",
    "read_page",
    "resize",
    "screenshot",
    "scroll",
    "select_option",
    "tabs",
    "type",
    "upload",
    "wait_for",
];

/// The calls that a user who asked for the browser has thereby permitted, in the notation of permission rules. Running
/// scripts and passing files in or out are not among them.
pub const UNQUESTIONED: [&str; 23] = [
    "batch",
    "click",
    "console",
    "downloads(action=list)",
    "downloads(action=wait)",
    "drag",
    "emulate",
    "fill_form",
    "find",
    "handle_dialog",
    "hover",
    "navigate",
    "network",
    "page_text",
    "press_key",
    "read_page",
    "resize",
    "screenshot",
    "scroll",
    "select_option",
    "tabs",
    "type",
    "wait_for",
];

/// How long nothing may happen before the browser is stopped.
pub(crate) const IDLE_LIMIT: Duration = Duration::from_secs(600);

/// Where the browser is from.
#[derive(Debug, Clone)]
pub enum BrowserSource {
    /// It is started when it is needed.
    Own {
        /// Whether it has a window.
        window: Window,
        /// The name of a profile whose cookies stay; without one, each client begins with nothing.
        profile: Option<String>,
        /// The program; otherwise one is looked for in `PATH`.
        program: Option<PathBuf>,
    },
    /// It already runs, with this debugging endpoint.
    Endpoint(String),
}

/// Whether a model may run scripts in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScriptUse {
    /// With the user's permission.
    #[default]
    Offered,
    /// Never: the tool does not exist.
    Off,
}

/// The settings of the server. Clones share one browser. The environment does not print, because it may contain secrets.
#[derive(Clone)]
pub struct BrowserSettings {
    /// Where the browser is from.
    pub source: BrowserSource,
    /// What pages may reach.
    pub reach: ReachRules,
    /// Whether a model may run scripts in pages.
    pub scripts: ScriptUse,
    /// The folder of profiles and downloads.
    pub data_folder: PathBuf,
    /// The folders that uploads come from and downloads are saved to, the first one for relative paths.
    pub folders: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// All environment variables of the browser.
    pub environment: Vec<(String, String)>,
    /// The program that stops the browser if this process dies.
    pub watchdog: Option<WatchdogProgram>,
    /// The HTTP proxy that leads out.
    pub proxy: Option<UpstreamProxy>,
    /// How long nothing may happen before the browser is stopped; ten minutes if absent.
    pub idle_limit: Option<Duration>,
    shared: Arc<SharedBrowser>,
}

impl fmt::Debug for BrowserSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserSettings")
            .field("source", &self.source)
            .field("reach", &self.reach)
            .finish_non_exhaustive()
    }
}

impl BrowserSettings {
    /// Settings for a browser without a window, which reaches every public page.
    pub fn new(data_folder: PathBuf, environment: Vec<(String, String)>) -> BrowserSettings {
        BrowserSettings {
            source: BrowserSource::Own { window: Window::Headless, profile: None, program: None },
            reach: ReachRules::default(),
            scripts: ScriptUse::default(),
            data_folder,
            folders: Arc::new(Vec::new),
            environment,
            watchdog: None,
            proxy: None,
            idle_limit: None,
            shared: Arc::new(SharedBrowser::new()),
        }
    }

    pub(crate) fn shared(&self) -> &SharedBrowser {
        &self.shared
    }
}
