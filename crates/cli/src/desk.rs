//! What calls from the command line depend on: the tools, the rules, and who is asked.

use std::sync::Arc;

use switchboard::audit::Audit;
use switchboard::calling::Desk;
use switchboard::config::permission::Mode;
use switchboard::config::shown::printable;
use switchboard::engine::Host;
use switchboard::load::Configuration;
use switchboard::pin::Pins;
use switchboard::rulebook::Rulebook;
use switchboard::ruling::RuleFile;
use switchboard::yielded::Limits;
use switchboard::yielded::keep::Keep;

use crate::exit::Exit;
use crate::live;
use crate::outcome::Failure;
use crate::report;
use crate::session::Session;
use crate::style::{Meaning, paint};

/// Everything that a call needs. What somebody should know of it is printed.
pub fn desk(
    session: &Session,
    configuration: &Configuration,
    host: &Host,
    mode: Option<Mode>,
) -> Result<Desk, Failure> {
    let (desk, warning) = with_warning(session, configuration, host, mode)?;
    report::aside(&warning);
    Ok(desk)
}

/// The same; what somebody should know of it comes with it.
pub fn with_warning(
    session: &Session,
    configuration: &Configuration,
    host: &Host,
    mode: Option<Mode>,
) -> Result<(Desk, String), Failure> {
    let servers = configuration.effective.servers.iter();
    let trusted = servers.filter(|it| it.is_trusted()).map(|it| it.name.clone()).collect();
    let usual = configuration.rules.default_mode().map_or(Mode::Default, |(mode, _)| mode);
    let audit = Audit::open(&session.machine.places.audit()).map_err(|error| {
        Failure::new(Exit::Failure, "the audit log cannot be kept").because(error)
    })?;
    let tokens = live::tokens(session)?;
    let pins = Pins::open(&session.machine.places.pins());
    let warning = pins.damage().map(|damage| {
        let path = session.shown_path(&session.machine.places.pins());
        format!(
            "{} what tools looked like when they were approved is lost, so changes to them are not noticed: {path}: {}\n",
            paint(Meaning::Doubtful, "warning:"),
            printable(damage)
        )
    });
    let project_root = configuration.project_root.clone();
    let desk = Desk {
        pool: host.watch_pool(),
        rules: Rulebook::new(configuration.rules.clone())
            .kept_in(session.machine.places.clone(), RuleFile::Local { project_root }),
        pins,
        mode: mode.unwrap_or(usual),
        trusted,
        consent: Arc::new(session.person.clone()),
        audit,
        limits: Limits { tokens, ..Limits::default() },
        keep: Keep::below(&session.machine.places.data),
    };
    Ok((desk, warning.unwrap_or_default()))
}
