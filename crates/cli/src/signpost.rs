//! Shows somebody at the terminal where to sign in: opens a browser where one can be, prints the address in any case,
//! and takes what is pasted meanwhile. What came back is judged by `auth`.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use switchboard::auth::escort::{Guide, Pasting};
use switchboard::auth::flow::Instructions;
use switchboard::auth::runner::NobodyThere;
use switchboard::config::import::Platform;
use switchboard::config::shown::printable;
use url::Url;

use crate::browser;
use crate::machine::{Machine, platform};
use crate::person::Person;
use crate::report;
use crate::session::Session;
use crate::style::{Meaning, paint};

/// How a page is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Showing {
    /// In a browser on this machine.
    Browser,
    /// As words, and somebody opens it wherever they have a browser.
    Words,
}

impl Showing {
    /// As a person wants it, and as this machine can.
    pub fn of(machine: &Machine, wants_no_browser: bool) -> Showing {
        match wants_no_browser || !has_browser(machine) {
            true => Showing::Words,
            false => Showing::Browser,
        }
    }
}

/// Would a browser that is started here be seen by the person?
fn has_browser(machine: &Machine) -> bool {
    let is_set = |name: &str| machine.variables.get(name).is_some_and(|value| !value.is_empty());
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
pub struct Signpost {
    person: Person,
    showing: Showing,
    /// Whom they sign in to.
    whom: String,
    /// Was the page shown already? One tab is enough.
    is_shown: AtomicBool,
}

impl Signpost {
    /// Somebody to show the way to a server.
    pub fn new(session: &Session, showing: Showing, whom: &str) -> Signpost {
        let (person, whom) = (session.person.clone(), printable(whom));
        Signpost { person, showing, whom, is_shown: AtomicBool::new(false) }
    }

    /// Can nobody come back, whatever happens?
    pub fn is_in_vain(&self) -> bool {
        self.showing == Showing::Words && !self.person.is_there()
    }

    /// Was anything shown yet?
    pub fn has_begun(&self) -> bool {
        self.is_shown.load(Ordering::Relaxed)
    }

    async fn pasted(&self, url: &Url) -> Option<String> {
        let mut text = String::new();
        let mut is_open = self.showing == Showing::Browser;
        if !self.is_shown.swap(true, Ordering::Relaxed) {
            is_open = is_open && self.opens(url, &mut text);
            self.describe(url, is_open, &mut text);
        }
        loop {
            text.push_str("> ");
            let shown =
                if self.person.is_there() { text.as_str() } else { text.trim_end_matches("> ") };
            let line = self.person.line_after(shown).await;
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

    fn opens(&self, url: &Url, text: &mut String) -> bool {
        match browser::open(url, self.person.browser()) {
            Ok(()) => true,
            Err(error) => {
                let _infallible = writeln!(text, "no browser could be started: {error}");
                false
            }
        }
    }

    fn describe(&self, url: &Url, is_open: bool, text: &mut String) {
        let host = paint(Meaning::Strong, printable(url.host_str().unwrap_or_default()));
        let whom = &self.whom;
        let _infallible = match is_open {
            true => writeln!(
                text,
                "Sign in to {whom} at {host}, in the browser that opens now, or open:"
            ),
            false => writeln!(text, "To sign in to {whom} at {host}, open in a browser:"),
        };
        let _infallible = writeln!(text, "\n{}\n", printable(url.as_str()));
        if self.person.is_there() {
            text.push_str(
                "Waiting for the browser to come back. If it ends on a page that cannot be shown, as it does when it\n\
                 runs on another machine, paste that page's address here, or the code. q gives up.\n",
            );
        }
    }
}

impl Guide for Signpost {
    fn visit<'a>(&'a self, url: &'a Url) -> Pasting<'a> {
        Box::pin(self.pasted(url))
    }

    fn not_taken(&self, why: &str) {
        report::aside(&format!("That is not taken: {}\n", printable(why)));
    }

    fn show(&self, instructions: &Instructions) -> Result<(), NobodyThere> {
        self.is_shown.store(true, Ordering::Relaxed);
        let mut text = format!("To sign in to {}, open on any device:\n\n", self.whom);
        let _infallible = writeln!(text, "{}\n", printable(instructions.url.as_str()));
        let code = paint(Meaning::Strong, printable(&instructions.code));
        let _infallible = writeln!(text, "and type the code {code}");
        if let Some(complete) = &instructions.complete_url {
            let _infallible =
                writeln!(text, "\nOr, with the code in it:\n\n{}", printable(complete.as_str()));
        }
        let minutes = instructions.expires_in.div_ceil(60);
        let _infallible = writeln!(text, "\nWaiting; the code is good for {minutes} min.");
        report::aside(&text);
        Ok(())
    }
}
