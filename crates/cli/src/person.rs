//! The person at the terminal: asked one thing at a time, in plain lines. Where nobody is there, every question is
//! declined and the reason is said.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::Map;
use switchboard::calling::{Consent, Consented, Consenting, Holds, PermissionQuestion};
use switchboard::config::shown::printable;
use switchboard::inquiry::{Ask, Asking, Inquiry, Reply, Sample, Subject, Visit, Waited, Waiting};
use tokio::sync::{Mutex, MutexGuard};

use crate::browser;
use crate::form_prompt;
use crate::keyboard::Keyboard;
use crate::machine::Machine;
use crate::progress::CLEAR;
use crate::proposal::{Proposal, chosen_rule};
use crate::report;
use crate::style::{Meaning, paint};

/// What a plain no is called.
pub const SAID_NO: &str = "you said no";
/// What it is called when nobody can type any more.
pub const SAID_NOTHING: &str = "you did not answer";

/// The person. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Person {
    can_be_asked: bool,
    /// The program that shows pages, where the person prefers one.
    browser: Option<String>,
    /// Whose turn it is. The keyboard is opened with the first question.
    turn: Arc<Mutex<Option<Keyboard>>>,
}

/// A question that holds the terminal.
type Turn<'a> = MutexGuard<'a, Option<Keyboard>>;

impl Person {
    /// Somebody, or nobody.
    pub fn at(machine: &Machine) -> Person {
        Person {
            can_be_asked: machine.terminal.can_ask,
            browser: machine.variables.get("BROWSER").cloned(),
            turn: Arc::default(),
        }
    }

    /// Nobody, whoever sits there: every question is declined.
    pub fn absent(&self) -> Person {
        Person { can_be_asked: false, ..self.clone() }
    }

    /// Is a question on the screen? Then nothing else is to be drawn there.
    pub fn is_being_asked(&self) -> bool {
        self.turn.try_lock().is_err()
    }

    /// Is anybody there who could be asked?
    pub fn is_there(&self) -> bool {
        self.can_be_asked
    }

    /// The program that shows pages, where the person prefers one.
    pub fn browser(&self) -> Option<&str> {
        self.browser.as_deref()
    }

    /// Shows something, and waits for a line that is typed while something else goes on. `None` where none can come.
    pub async fn line_after(&self, text: &str) -> Option<String> {
        if !self.can_be_asked {
            report::aside(text);
            return None;
        }
        let mut turn = self.turn().await?;
        report::aside(text);
        turn.as_mut()?.line().await
    }

    /// Shows something, and waits for the next line; lines that were typed before count. `None` where none can come.
    pub async fn next_line(&self, text: &str) -> Option<String> {
        let mut turn = self.turn.lock().await;
        if turn.is_none() {
            *turn = Keyboard::open().ok();
        }
        report::aside(text);
        turn.as_mut()?.line().await
    }

    /// Waits until nobody else asks, and begins a line of its own.
    async fn turn(&self) -> Option<Turn<'_>> {
        let mut turn = self.turn.lock().await;
        if turn.is_none() {
            *turn = Keyboard::open().ok();
        }
        turn.as_mut()?.forget();
        report::aside(CLEAR);
        Some(turn)
    }

    async fn answer(&self, inquiry: &Inquiry) -> Reply {
        if !self.can_be_asked {
            let reason = "nobody is here to answer";
            report::aside(&unanswered(inquiry, reason));
            return Reply::Decline(reason.to_owned());
        }
        let Some(mut turn) = self.turn().await else {
            return Reply::Decline("the keyboard cannot be read".to_owned());
        };
        let Some(keyboard) = turn.as_mut() else { return gone() };
        report::aside(&format!("{} asks:\n", paint(Meaning::Strong, printable(&inquiry.server))));
        let mut on_screen = OnScreen { is_answered: false };
        let reply = match &inquiry.subject {
            Subject::Form(form) => form_prompt::fill(keyboard, form, &inquiry.server).await,
            Subject::Visit(visit) => visit_prompt(keyboard, visit, self.browser.as_deref()).await,
            Subject::Sample(sample) => sample_prompt(keyboard, sample).await,
        };
        on_screen.is_answered = true;
        reply
    }

    async fn waited(&self) -> Waited {
        if !self.can_be_asked {
            return std::future::pending().await;
        }
        let Some(mut turn) = self.turn().await else { return std::future::pending().await };
        report::aside("Waiting until it is done. Enter: try again now, q: give up. ");
        let Some(keyboard) = turn.as_mut() else { return Waited::GivenUp };
        match keyboard.line().await {
            Some(line) if !line.trim().eq_ignore_ascii_case("q") => Waited::Enough,
            Some(_) | None => Waited::GivenUp,
        }
    }

    /// Asks whether a call may be made.
    pub async fn consented(&self, proposal: &Proposal<'_>) -> Consented {
        // The tool, not its whole server.
        let of_tool = proposal.of_tool();
        if !self.can_be_asked {
            let advice = match of_tool {
                Some(suggestion) => format!(
                    "; `swb permissions add allow '{}'` would allow it",
                    suggestion.rule.shown()
                ),
                None => String::new(),
            };
            let reason = proposal.because;
            return Consented::No(format!("{reason}, and nobody is here to ask{advice}"));
        }
        let Some(mut turn) = self.turn().await else {
            return Consented::No("the keyboard cannot be read".to_owned());
        };
        let Some(keyboard) = turn.as_mut() else { return silent() };
        report::aside(&proposal.question());
        loop {
            report::aside("? ");
            let Some(line) = keyboard.line().await else { return silent() };
            let who = "you said yes".to_owned();
            match (line.trim(), of_tool) {
                ("y" | "Y" | "yes", _) => return Consented::Yes { who, holds: Holds::Once },
                ("s" | "S", Some(suggestion)) if proposal.client.is_some() => {
                    let holds = Holds::Session(suggestion.rule.clone());
                    return Consented::Yes { who, holds };
                }
                ("a" | "A", Some(_)) => match chosen_rule(keyboard, proposal.suggestions).await {
                    Some(rule) => return Consented::Yes { who, holds: Holds::Always(rule.rule) },
                    None => return silent(),
                },
                ("n" | "N" | "no" | "", _) => return Consented::No(SAID_NO.to_owned()),
                ("v" | "V", _) => report::aside(&proposal.arguments(usize::MAX)),
                (_, _) => report::aside("one of the letters above\n"),
            }
        }
    }
}

/// A question on the screen. Whoever is answering it learns when nobody wants to know any more.
struct OnScreen {
    is_answered: bool,
}

impl Drop for OnScreen {
    fn drop(&mut self) {
        if !self.is_answered {
            report::aside("\n(the question was withdrawn)\n");
        }
    }
}

fn silent() -> Consented {
    Consented::No(SAID_NOTHING.to_owned())
}

fn gone() -> Reply {
    Reply::Cancel("nobody answered".to_owned())
}

/// What the person should know of a question that nobody answered.
fn unanswered(inquiry: &Inquiry, reason: &str) -> String {
    let message = match &inquiry.subject {
        Subject::Form(form) => &form.message,
        Subject::Visit(visit) => &visit.message,
        Subject::Sample(_) => "may I use your model?",
    };
    let server = printable(&inquiry.server);
    let message = printable(message.lines().next().unwrap_or_default());
    format!(
        "note: {server} asked “{message}” and was declined: {reason} (--answers FILE answers such questions)\n"
    )
}

async fn visit_prompt(keyboard: &mut Keyboard, visit: &Visit, preferred: Option<&str>) -> Reply {
    let host = visit.url.host_str().unwrap_or_default();
    report::aside(&format!(
        "  {}\n  It wants you to visit {}\n    {}\n  o  open it in the browser\n  y  yes, I go there myself\n  n  no (also Enter)\n",
        printable(&visit.message),
        paint(Meaning::Strong, printable(host)),
        printable(visit.url.as_str()),
    ));
    loop {
        report::aside("? ");
        let Some(line) = keyboard.line().await else { return gone() };
        match line.trim() {
            "o" | "O" => match browser::open(&visit.url, preferred) {
                Ok(()) => return Reply::Accept(Map::new()),
                Err(error) => report::aside(&format!("no browser could be started: {error}\n")),
            },
            "y" | "Y" | "yes" => return Reply::Accept(Map::new()),
            "n" | "N" | "no" | "" => return Reply::Decline("you said no".to_owned()),
            _ => report::aside("one of the letters above\n"),
        }
    }
}

async fn sample_prompt(keyboard: &mut Keyboard, sample: &Sample) -> Reply {
    let mut text = String::from("  It wants to ask your model:\n");
    let system = sample.system.iter().map(|it| ("system", it.as_str()));
    let messages = sample.messages.iter().map(|(role, said)| (role.as_str(), said.as_str()));
    for (role, said) in system.chain(messages) {
        let _infallible = writeln!(text, "  {}: {}", printable(role), printable(said));
    }
    report::aside(&text);
    report::aside("May it? [y/N] ");
    match keyboard.line().await.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => Reply::Accept(Map::new()),
        Some(_) => Reply::Decline("you said no".to_owned()),
        None => gone(),
    }
}

impl Ask for Person {
    fn ask<'a>(&'a self, inquiry: &'a Inquiry) -> Asking<'a> {
        Box::pin(self.answer(inquiry))
    }

    fn wait<'a>(&'a self, _inquiry: &'a Inquiry) -> Waiting<'a> {
        Box::pin(self.waited())
    }
}

impl Consent for Person {
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        Box::pin(async move { self.consented(&Proposal::of_question(ask)).await })
    }

    fn note(&self, text: &str) {
        report::aside(&format!("note: {}\n", printable(text)));
    }
}
