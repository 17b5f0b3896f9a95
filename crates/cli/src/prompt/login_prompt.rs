//! Guides a login at a plain terminal: opens a browser if there is one, always prints the URL, and accepts a pasted
//! callback URL or code. `auth` validates what is pasted.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use switchboard::auth::browser::browser_flow::{LoginPrompt, PastedTextFuture};
use switchboard::auth::flow::DeviceAuthorization;
use switchboard::auth::flow::runner::UserUnavailable;
use switchboard::config::display::printable;
use switchboard::config::import::Platform;
use url::Url;

use crate::env::{ProcessEnv, platform};
use crate::output::report;
use crate::output::style::{TextStyle, paint};
use crate::prompt::browser;
use crate::prompt::terminal_prompt::TerminalPrompt;

/// How the login page is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserMode {
    /// Open a browser on this machine.
    Open,
    /// Print the URL; the user opens it in any browser.
    PrintUrl,
}

impl BrowserMode {
    /// Opens a browser unless the user wants none or this machine has none.
    pub fn detect(env: &ProcessEnv, wants_no_browser: bool) -> BrowserMode {
        match wants_no_browser || !has_browser(env) {
            true => BrowserMode::PrintUrl,
            false => BrowserMode::Open,
        }
    }
}

/// Can this session show a browser to the user?
fn has_browser(env: &ProcessEnv) -> bool {
    let is_set = |name: &str| env.variables.get(name).is_some_and(|value| !value.is_empty());
    // A user who sets BROWSER has one, even over SSH.
    if is_set("BROWSER") {
        return true;
    }
    let is_remote = is_set("SSH_CONNECTION") || is_set("SSH_TTY");
    let has_screen = match platform() {
        Platform::Linux => {
            ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"].into_iter().any(is_set)
        }
        Platform::MacOs | Platform::Windows => true,
    };
    !is_remote && has_screen
}

/// Guides a login at a plain terminal.
#[derive(Debug)]
pub struct TerminalLoginPrompt {
    prompt: TerminalPrompt,
    browser_mode: BrowserMode,
    /// The server's printable name.
    server: String,
    /// Was the page shown? It is opened once.
    is_shown: AtomicBool,
}

impl TerminalLoginPrompt {
    /// A prompt for a login to `server`.
    pub fn new(
        prompt: TerminalPrompt,
        browser_mode: BrowserMode,
        server: &str,
    ) -> TerminalLoginPrompt {
        let server = printable(server);
        TerminalLoginPrompt { prompt, browser_mode, server, is_shown: AtomicBool::new(false) }
    }

    /// Can this login never complete, for lack of a browser and of a terminal?
    pub fn cannot_complete(&self) -> bool {
        self.browser_mode == BrowserMode::PrintUrl && !self.prompt.is_interactive()
    }

    /// Was the URL or the code shown?
    pub fn was_shown(&self) -> bool {
        self.is_shown.load(Ordering::Relaxed)
    }

    async fn wait_for_paste(&self, url: &Url) -> Option<String> {
        let mut text = String::new();
        let mut is_open = self.browser_mode == BrowserMode::Open;
        if !self.is_shown.swap(true, Ordering::Relaxed) {
            is_open = is_open && self.open_browser(url, &mut text);
            self.describe_url(url, is_open, &mut text);
        }
        loop {
            text.push_str("> ");
            let shown = if self.prompt.is_interactive() {
                text.as_str()
            } else {
                text.trim_end_matches("> ")
            };
            let line = self.prompt.prompt_line(shown).await;
            match line.as_deref().map(str::trim) {
                Some("q" | "Q") => return None,
                Some("") => text.clear(),
                Some(pasted) => return Some(pasted.to_owned()),
                // The user cannot type, but the browser may still call back.
                None if is_open => return std::future::pending().await,
                None => return None,
            }
        }
    }

    fn open_browser(&self, url: &Url, text: &mut String) -> bool {
        match browser::open(url, self.prompt.browser()) {
            Ok(()) => true,
            Err(error) => {
                let _infallible = writeln!(text, "no browser could be started: {error}");
                false
            }
        }
    }

    fn describe_url(&self, url: &Url, is_open: bool, text: &mut String) {
        let host = paint(TextStyle::Bold, printable(url.host_str().unwrap_or_default()));
        let server = &self.server;
        let _infallible = match is_open {
            true => writeln!(
                text,
                "Sign in to {server} at {host}, in the browser that opens now, or open:"
            ),
            false => writeln!(text, "To sign in to {server} at {host}, open in a browser:"),
        };
        let _infallible = writeln!(text, "\n{}\n", printable(url.as_str()));
        if self.prompt.is_interactive() {
            text.push_str(
                "Waiting for the browser. If it ends on a page that cannot be loaded, for example because it runs on\n\
                 another machine, paste that page's URL or the code here. q cancels.\n",
            );
        }
    }
}

impl LoginPrompt for TerminalLoginPrompt {
    fn open_url<'a>(&'a self, url: &'a Url) -> PastedTextFuture<'a> {
        Box::pin(self.wait_for_paste(url))
    }

    fn callback_rejected(&self, why: &str) {
        report::print_stderr(&format!("Not accepted: {}\n", printable(why)));
    }

    fn show_device_code(&self, instructions: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        self.is_shown.store(true, Ordering::Relaxed);
        let mut text = format!("To sign in to {}, open on any device:\n\n", self.server);
        let _infallible = writeln!(text, "{}\n", printable(instructions.verification_uri.as_str()));
        let code = paint(TextStyle::Bold, printable(&instructions.user_code));
        let _infallible = writeln!(text, "and type the code {code}");
        if let Some(complete) = &instructions.verification_uri_complete {
            let _infallible = writeln!(
                text,
                "\nOr use this link, which contains the code:\n\n{}",
                printable(complete.as_str())
            );
        }
        let minutes = instructions.expires_in.div_ceil(60);
        let _infallible = writeln!(text, "\nWaiting; the code is valid for {minutes} min.");
        report::print_stderr(&text);
        Ok(())
    }
}
