//! Prompts at a plain terminal, one at a time. Without a terminal every prompt is declined with a reason.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::Map;
use switchboard::config::display::printable;
use switchboard::elicitation::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor, SamplingRequest,
    UrlElicitation, WaitFuture, WaitOutcome,
};
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::env::ProcessEnv;
use crate::output::report;
use crate::output::report::CLEAR_LINE;
use crate::output::style::{TextStyle, paint};
use crate::prompt::browser;
use crate::prompt::form;
use crate::prompt::keyboard::Keyboard;
use crate::prompt::permission::{ProposedCall, choose_rule};

/// Prompts at the terminal. Clones share it.
#[derive(Debug, Clone)]
pub struct TerminalPrompt {
    is_interactive: bool,
    /// The browser that the user prefers, if any.
    browser: Option<String>,
    /// Locked while a prompt is shown. The keyboard is opened with the first prompt.
    keyboard: Arc<Mutex<Option<Keyboard>>>,
}

/// The lock of the prompt that is shown.
type KeyboardGuard<'a> = MutexGuard<'a, Option<Keyboard>>;

impl TerminalPrompt {
    /// Interactive if standard input and standard error are a terminal.
    pub fn new(env: &ProcessEnv) -> TerminalPrompt {
        TerminalPrompt {
            is_interactive: env.terminal.can_prompt,
            browser: env.variables.get("BROWSER").cloned(),
            keyboard: Arc::default(),
        }
    }

    /// The same without a user: every prompt is declined.
    pub fn non_interactive(&self) -> TerminalPrompt {
        TerminalPrompt { is_interactive: false, ..self.clone() }
    }

    /// Is a prompt shown? Then no other output may be drawn.
    pub fn is_active(&self) -> bool {
        self.keyboard.try_lock().is_err()
    }

    /// Can the user be prompted?
    pub fn is_interactive(&self) -> bool {
        self.is_interactive
    }

    /// The browser that the user prefers, if any.
    pub fn browser(&self) -> Option<&str> {
        self.browser.as_deref()
    }

    /// Prints `text` and waits for a line that is typed from now on; `None` if none can come.
    pub async fn prompt_line(&self, text: &str) -> Option<String> {
        if !self.is_interactive {
            report::print_stderr(text);
            return None;
        }
        let mut turn = self.lock_keyboard().await?;
        report::print_stderr(text);
        turn.as_mut()?.next_line().await
    }

    /// Prints `text` and waits for the next line, including lines typed before; `None` if none can come.
    pub async fn read_line(&self, text: &str) -> Option<String> {
        let mut turn = self.keyboard.lock().await;
        if turn.is_none() {
            *turn = Keyboard::open().ok();
        }
        report::print_stderr(text);
        turn.as_mut()?.next_line().await
    }

    /// Waits for its turn and starts on a clear line.
    async fn lock_keyboard(&self) -> Option<KeyboardGuard<'_>> {
        let mut turn = self.keyboard.lock().await;
        if turn.is_none() {
            *turn = Keyboard::open().ok();
        }
        turn.as_mut()?.discard_typed();
        report::print_stderr(CLEAR_LINE);
        Some(turn)
    }

    async fn answer_elicitation(&self, elicitation: &Elicitation) -> ElicitResult {
        if !self.is_interactive {
            let reason = "there is no user to ask";
            report::print_stderr(&declined_note(elicitation, reason));
            return ElicitResult::Decline(reason.to_owned());
        }
        let Some(mut turn) = self.lock_keyboard().await else {
            return ElicitResult::Decline("the keyboard cannot be read".to_owned());
        };
        let Some(keyboard) = turn.as_mut() else { return cancelled() };
        report::print_stderr(&format!(
            "{} asks:\n",
            paint(TextStyle::Bold, printable(&elicitation.server))
        ));
        let mut open_question = OpenQuestion { is_answered: false };
        let reply = match &elicitation.kind {
            ElicitationKind::Form(form) => form::fill(keyboard, form, &elicitation.server).await,
            ElicitationKind::Url(url) => url_prompt(keyboard, url, self.browser.as_deref()).await,
            ElicitationKind::Sampling(sample) => sampling_prompt(keyboard, sample).await,
        };
        open_question.is_answered = true;
        reply
    }

    async fn wait_for_completion(&self) -> WaitOutcome {
        if !self.is_interactive {
            return std::future::pending().await;
        }
        let Some(mut turn) = self.lock_keyboard().await else {
            return std::future::pending().await;
        };
        report::print_stderr("Waiting until it is done. Enter: try again now, q: cancel. ");
        let Some(keyboard) = turn.as_mut() else { return WaitOutcome::GivenUp };
        match keyboard.next_line().await {
            Some(line) if !line.trim().eq_ignore_ascii_case("q") => WaitOutcome::Retry,
            Some(_) | None => WaitOutcome::GivenUp,
        }
    }

    /// Asks whether a call is allowed.
    pub async fn ask_permission(&self, proposed: &ProposedCall<'_>) -> PermissionDecision {
        // The rule for the tool, not for the whole server.
        let of_tool = proposed.tool_rule();
        if !self.is_interactive {
            // The command that accepts a changed definition is named with the denial.
            let advice = match of_tool.filter(|_| proposed.alteration.is_none()) {
                Some(suggestion) => format!(
                    "; `swb permissions add allow '{}'` would allow it",
                    suggestion.rule.to_printable()
                ),
                None => String::new(),
            };
            let reason = proposed.reason;
            return PermissionDecision::Deny(format!(
                "{reason}, and there is no user to ask{advice}"
            ));
        }
        let Some(mut turn) = self.lock_keyboard().await else {
            return PermissionDecision::Deny("the keyboard cannot be read".to_owned());
        };
        let Some(keyboard) = turn.as_mut() else { return no_answer() };
        report::print_stderr(&proposed.question_text());
        loop {
            report::print_stderr("? ");
            let Some(line) = keyboard.next_line().await else { return no_answer() };
            let who = "you said yes".to_owned();
            match (line.trim(), of_tool) {
                ("y" | "Y" | "yes", _) => {
                    return PermissionDecision::Allow { decided_by: who, scope: GrantScope::Once };
                }
                ("s" | "S", Some(suggestion)) if proposed.client.is_some() => {
                    let scope = GrantScope::Session(suggestion.rule.clone());
                    return PermissionDecision::Allow { decided_by: who, scope };
                }
                ("a" | "A", Some(_)) => match choose_rule(keyboard, proposed.suggestions).await {
                    Some(rule) => {
                        return PermissionDecision::Allow {
                            decided_by: who,
                            scope: GrantScope::Always(rule.rule),
                        };
                    }
                    None => return no_answer(),
                },
                ("n" | "N" | "no" | "", _) => {
                    return PermissionDecision::DeniedByUser;
                }
                ("v" | "V", _) => report::print_stderr(&proposed.arguments_text(usize::MAX)),
                (_, _) => report::print_stderr("enter one of the letters above\n"),
            }
        }
    }
}

/// A prompt on the screen. Tells the user when the server withdraws it.
struct OpenQuestion {
    is_answered: bool,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if !self.is_answered {
            report::print_stderr("\n(the question was withdrawn)\n");
        }
    }
}

fn no_answer() -> PermissionDecision {
    PermissionDecision::NoAnswer
}

fn cancelled() -> ElicitResult {
    ElicitResult::Cancel("the user did not answer".to_owned())
}

/// The note about an elicitation that was declined without asking.
fn declined_note(elicitation: &Elicitation, reason: &str) -> String {
    let message = match &elicitation.kind {
        ElicitationKind::Form(form) => &form.message,
        ElicitationKind::Url(url) => &url.message,
        ElicitationKind::Sampling(_) => "may I use your model?",
    };
    let server = printable(&elicitation.server);
    let message = printable(message.lines().next().unwrap_or_default());
    format!(
        "note: {server} asked “{message}” and was declined: {reason} (--answers FILE answers such questions)\n"
    )
}

async fn url_prompt(
    keyboard: &mut Keyboard,
    elicitation: &UrlElicitation,
    preferred: Option<&str>,
) -> ElicitResult {
    let host = elicitation.url.host_str().unwrap_or_default();
    report::print_stderr(&format!(
        "  {}\n  It asks you to open {}\n    {}\n  o  open it in the browser\n  y  yes, I will open it myself\n  n  no (also Enter)\n",
        printable(&elicitation.message),
        paint(TextStyle::Bold, printable(host)),
        printable(elicitation.url.as_str()),
    ));
    loop {
        report::print_stderr("? ");
        let Some(line) = keyboard.next_line().await else { return cancelled() };
        match line.trim() {
            "o" | "O" => match browser::open(&elicitation.url, preferred) {
                Ok(()) => return ElicitResult::Accept(Map::new()),
                Err(error) => {
                    report::print_stderr(&format!("no browser could be started: {error}\n"))
                }
            },
            "y" | "Y" | "yes" => return ElicitResult::Accept(Map::new()),
            "n" | "N" | "no" | "" => return ElicitResult::Decline("you said no".to_owned()),
            _ => report::print_stderr("enter one of the letters above\n"),
        }
    }
}

async fn sampling_prompt(keyboard: &mut Keyboard, sample: &SamplingRequest) -> ElicitResult {
    let mut text = String::from("  It wants to send this to your model:\n");
    let system = sample.system_prompt.iter().map(|it| ("system", it.as_str()));
    let messages = sample.messages.iter().map(|(role, said)| (role.as_str(), said.as_str()));
    for (role, said) in system.chain(messages) {
        let _infallible = writeln!(text, "  {}: {}", printable(role), printable(said));
    }
    report::print_stderr(&text);
    report::print_stderr("Allow it? [y/N] ");
    match keyboard.next_line().await.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => ElicitResult::Accept(Map::new()),
        Some(_) => ElicitResult::Decline("you said no".to_owned()),
        None => cancelled(),
    }
}

impl Elicitor for TerminalPrompt {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(self.answer_elicitation(elicitation))
    }

    fn wait_for_completion<'a>(&'a self, _elicitation: &'a Elicitation) -> WaitFuture<'a> {
        Box::pin(self.wait_for_completion())
    }
}

impl PermissionPrompt for TerminalPrompt {
    fn decide<'a>(&'a self, ask: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async move { self.ask_permission(&ProposedCall::from_request(ask)).await })
    }

    fn warn(&self, text: &str) {
        report::print_stderr(&format!("note: {}\n", printable(text)));
    }
}
