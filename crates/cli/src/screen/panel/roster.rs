//! What is configured, as the panel needs it: words only, secrets covered. Made where the configuration was read.

use switchboard::config::cascade::{Pending, Server, State};
use switchboard::load::Configuration;

use crate::commands::get;
use crate::describe;
use crate::screen::look::Tone;
use crate::session::Session;
use crate::style::Meaning;

/// Every server that somebody can do something about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    /// By name.
    pub servers: Vec<Enrolled>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    /// Its name.
    pub name: String,
    /// The scope that it came from.
    pub scope: &'static str,
    /// How it is reached.
    pub transport: &'static str,
    /// Where it is defined, as people read it: file and line.
    pub origin: String,
    /// What it runs or reaches, in lines.
    pub entry: String,
    /// The hash that an approval binds to.
    pub fingerprint: Option<String>,
    /// What may become of it.
    pub footing: Footing,
    /// What became of it, in few words, and how good that is.
    pub state: (Tone, String),
    /// The same in a sentence, where there is something to say.
    pub reason: Option<String>,
    /// What is wrong or doubtful about its entry.
    pub problems: Vec<String>,
    /// Do its tools run without asking?
    pub is_trusted: bool,
    /// Could somebody sign in there?
    pub is_remote: bool,
}

/// What may become of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Footing {
    /// It may run.
    Runs,
    /// Somebody has to decide first.
    Undecided,
    /// Somebody said no.
    Rejected,
    /// It is switched off.
    Off,
    /// Nothing that is done here helps.
    Stopped,
}

impl Roster {
    /// Of a configuration.
    pub fn of(session: &Session, configuration: &Configuration) -> Roster {
        let matters = |it: &&Server| it.is_in_play() || matches!(it.state, State::Rejected);
        let servers = configuration.effective.servers.iter().filter(matters);
        Roster { servers: servers.map(|it| Enrolled::of(session, it)).collect() }
    }

    /// One by its name.
    pub fn find(&self, name: &str) -> Option<&Enrolled> {
        self.servers.iter().find(|it| it.name == name)
    }
}

impl Enrolled {
    fn of(session: &Session, server: &Server) -> Enrolled {
        let transport = server.entry.as_ref().map_or("-", |it| it.transport.kind().id());
        let tone = match describe::state_meaning(&server.state) {
            Meaning::Good => Tone::Good,
            Meaning::Doubtful => Tone::Doubtful,
            Meaning::Bad => Tone::Bad,
            Meaning::Faint => Tone::Faint,
            Meaning::Strong => Tone::Strong,
        };
        Enrolled {
            name: server.name.clone(),
            scope: server.scope().id(),
            transport,
            origin: session.shown_origin(&server.origin),
            entry: server.entry.as_ref().map(get::entry_text).unwrap_or_default(),
            fingerprint: server.fingerprint.as_ref().map(|it| it.as_str().to_owned()),
            footing: footing(&server.state),
            state: (tone, describe::state_text(&server.state)),
            reason: describe::state_reason(session, server),
            problems: server.problems.iter().map(|it| it.kind.to_string()).collect(),
            is_trusted: server.is_trusted(),
            is_remote: server.spec.as_ref().is_some_and(|it| it.transport.url().is_some()),
        }
    }
}

fn footing(state: &State) -> Footing {
    match state {
        State::Ready => Footing::Runs,
        State::Pending(Pending::New | Pending::Changed) => Footing::Undecided,
        State::Rejected => Footing::Rejected,
        State::Disabled(_) => Footing::Off,
        State::Refused(_)
        | State::Shadowed { .. }
        | State::Duplicate { .. }
        | State::LeftOut(_)
        | State::Invalid => Footing::Stopped,
    }
}
