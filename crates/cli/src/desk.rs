//! What calls from the command line depend on: the tools, the rules, and who is asked.

use std::io::BufRead;
use std::sync::Arc;

use switchboard::audit::Audit;
use switchboard::calling::{Consent, Consented, Consenting, Desk, PermissionQuestion};
use switchboard::config::permission::{Breadth, Mode};
use switchboard::config::shown::printable;
use switchboard::engine::Host;
use switchboard::load::Configuration;
use switchboard::yielded::Limits;
use switchboard::yielded::keep::Keep;

use crate::exit::Exit;
use crate::live;
use crate::outcome::Failure;
use crate::report;
use crate::session::Session;
use crate::style::{Meaning, paint};

/// The most of a tool's arguments that is shown when somebody is asked.
const SHOWN: usize = 4000;

/// Everything that a call needs.
pub fn desk(
    session: &Session,
    configuration: &Configuration,
    host: &Host,
    mode: Option<Mode>,
) -> Result<Desk, Failure> {
    let servers = configuration.effective.servers.iter();
    let trusted = servers.filter(|it| it.is_trusted()).map(|it| it.name.clone()).collect();
    let usual = configuration.rules.default_mode().map_or(Mode::Default, |(mode, _)| mode);
    let audit = Audit::open(&session.machine.places.audit()).map_err(|error| {
        Failure::new(Exit::Failure, "the audit log cannot be kept").because(error)
    })?;
    let tokens = live::tokens(session)?;
    Ok(Desk {
        pool: host.watch_pool(),
        rules: configuration.rules.clone(),
        mode: mode.unwrap_or(usual),
        trusted,
        consent: Arc::new(AtTheTerminal { can_ask: session.machine.terminal.is_interactive }),
        audit,
        limits: Limits { tokens, ..Limits::default() },
        keep: Keep::below(&session.machine.places.data),
    })
}

/// Asks the person at the terminal, where there is one.
struct AtTheTerminal {
    can_ask: bool,
}

impl Consent for AtTheTerminal {
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        let question = question(ask);
        // The tool, not its whole server.
        let of_tool = ask.suggestions.iter().find(|it| it.breadth == Breadth::Tool);
        let suggestion = of_tool.map(|it| it.rule.to_string());
        let can_ask = self.can_ask;
        Box::pin(async move {
            if !can_ask {
                let rule = suggestion.unwrap_or_default();
                return Consented::No(format!(
                    "it wants to be asked about, and nobody is here to ask; put `{rule}` into `permissions.allow` of your settings"
                ));
            }
            let answered = tokio::task::spawn_blocking(move || ask_person(&question)).await;
            match answered {
                Ok(Ok(true)) => Consented::Yes("you said yes".to_owned()),
                Ok(Ok(false)) => Consented::No("you said no".to_owned()),
                Ok(Err(_)) | Err(_) => Consented::No("you did not answer".to_owned()),
            }
        })
    }
}

fn question(ask: &PermissionQuestion<'_>) -> String {
    let tool = ask.tool;
    let mut text = format!(
        "{} wants to run {}\n",
        paint(Meaning::Strong, printable(&tool.server)),
        paint(Meaning::Strong, printable(&tool.name)),
    );
    let has_some = ask.arguments.as_object().is_none_or(|members| !members.is_empty());
    let arguments = if has_some { format!("{:#}", ask.arguments) } else { String::new() };
    for line in arguments.chars().take(SHOWN).collect::<String>().lines() {
        text.push_str(&format!("  {}\n", printable(line)));
    }
    if arguments.chars().count() > SHOWN {
        text.push_str("  …\n");
    }
    text.push_str(&format!("({})\nRun it once? [y/N] ", printable(&ask.because)));
    text
}

fn ask_person(question: &str) -> std::io::Result<bool> {
    report::aside(question);
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
