//! Shows somebody at the terminal where to sign in: opens a browser where one can be, prints the address in any case,
//! and takes what is pasted meanwhile. What came back is judged by `auth`.

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

/// How a page is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserMode {
    /// In a browser on this machine.
    Open,
    /// As words, and somebody opens it wherever they have a browser.
    PrintUrl,
}

impl BrowserMode {
    /// As a person wants it, and as this machine can.
    pub fn detect(env: &ProcessEnv, wants_no_browser: bool) -> BrowserMode {
        match wants_no_browser || !has_browser(env) {
            true => BrowserMode::PrintUrl,
            false => BrowserMode::Open,
        }
    }
}

/// Would a browser that is started here be seen by the person?
fn has_browser(env: &ProcessEnv) -> bool {
    let is_set = |name: &str| env.variables.get(name).is_some_and(|value| !value.is_empty());
    // Whoever names a browser has one, however they came here.
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

/// Shows the way.
#[derive(Debug)]
pub struct TerminalLoginPrompt {
    prompt: TerminalPrompt,
    browser_mode: BrowserMode,
    /// Whom they sign in to.
    server: String,
    /// Was the page shown already? One tab is enough.
    is_shown: AtomicBool,
}

impl TerminalLoginPrompt {
    /// Somebody to show the way to a server.
    pub fn new(
        prompt: TerminalPrompt,
        browser_mode: BrowserMode,
        server: &str,
    ) -> TerminalLoginPrompt {
        let server = printable(server);
        TerminalLoginPrompt { prompt, browser_mode, server, is_shown: AtomicBool::new(false) }
    }

    /// Can nobody come back, whatever happens?
    pub fn cannot_complete(&self) -> bool {
        self.browser_mode == BrowserMode::PrintUrl && !self.prompt.is_interactive()
    }

    /// Was anything shown yet?
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
                // Nobody types, but the browser may still come back.
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
                "Waiting for the browser to come back. If it ends on a page that cannot be shown, as it does when it\n\
                 runs on another machine, paste that page's address here, or the code. q gives up.\n",
            );
        }
    }
}

impl LoginPrompt for TerminalLoginPrompt {
    fn open_url<'a>(&'a self, url: &'a Url) -> PastedTextFuture<'a> {
        Box::pin(self.wait_for_paste(url))
    }

    fn callback_rejected(&self, why: &str) {
        report::print_stderr(&format!("That is not taken: {}\n", printable(why)));
    }

    fn show_device_code(&self, instructions: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        self.is_shown.store(true, Ordering::Relaxed);
        let mut text = format!("To sign in to {}, open on any device:\n\n", self.server);
        let _infallible = writeln!(text, "{}\n", printable(instructions.verification_uri.as_str()));
        let code = paint(TextStyle::Bold, printable(&instructions.user_code));
        let _infallible = writeln!(text, "and type the code {code}");
        if let Some(complete) = &instructions.verification_uri_complete {
            let _infallible =
                writeln!(text, "\nOr, with the code in it:\n\n{}", printable(complete.as_str()));
        }
        let minutes = instructions.expires_in.div_ceil(60);
        let _infallible = writeln!(text, "\nWaiting; the code is good for {minutes} min.");
        report::print_stderr(&text);
        Ok(())
    }
}
