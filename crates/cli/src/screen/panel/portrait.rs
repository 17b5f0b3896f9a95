//! One server as the panel shows it: what is configured and how the connection is doing, put together.

use std::time::Duration;

use switchboard::catalogue::List;
use switchboard::cause::Cause;
use switchboard::connection::{Status, View};
use switchboard::engine::Snapshot;
use switchboard::wire::dial::Detour;
use switchboard::wire::introduction::{Capabilities, Introduction, Listing};

use crate::screen::look::{Look, Signs, Tone};
use crate::screen::panel::roster::{Enrolled, Footing, Roster};

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portrait {
    /// Its name.
    pub name: String,
    /// The scope that it came from.
    pub scope: &'static str,
    /// How it is reached.
    pub transport: &'static str,
    /// How it is doing, in one word.
    pub mood: Mood,
    /// The same in a few.
    pub state: String,
    /// Why, where something is wrong.
    pub cause: Option<Reason>,
    /// What the server said of itself.
    pub introduced: Option<Introduced>,
    /// How many tools, resources and prompts it has, where it has such.
    pub counts: [Option<usize>; 3],
    /// How long it took.
    pub ready_after: Option<Duration>,
    /// Its process.
    pub process: Option<u32>,
    /// What else is to be said of it.
    pub notes: Vec<String>,
    /// What may become of it.
    pub footing: Footing,
    /// Could somebody sign in there?
    pub is_remote: bool,
}

/// Why something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What.
    pub what: String,
    /// What shows it: labels and texts.
    pub evidence: Vec<(&'static str, String)>,
    /// What to do.
    pub remedy: Option<String>,
}

/// What a server said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduced {
    /// The era.
    pub era: &'static str,
    /// The protocol's version.
    pub version: String,
    /// Its name and version.
    pub title: String,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// How to use it.
    pub instructions: Option<String>,
}

/// How a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    /// It could not be connected to.
    Failed,
    /// Somebody has to sign in.
    WantsLogin,
    /// Somebody has to approve it.
    WantsApproval,
    /// It is being connected to.
    Trying,
    /// It is connected.
    Connected,
    /// It is not to run.
    Idle,
}

impl Mood {
    /// Its sign.
    pub fn sign(self, look: &Look) -> &'static str {
        match (self, look.signs) {
            (Mood::Failed, Signs::Drawn) => "✗",
            (Mood::WantsLogin, Signs::Drawn) => "△",
            (Mood::WantsApproval, Signs::Drawn) => "?",
            (Mood::Trying, Signs::Drawn) => "◌",
            (Mood::Connected, Signs::Drawn) => "●",
            (Mood::Idle, Signs::Drawn) => "○",
            (Mood::Failed, Signs::Ascii) => "x",
            (Mood::WantsLogin, Signs::Ascii) => "!",
            (Mood::WantsApproval, Signs::Ascii) => "?",
            (Mood::Trying, Signs::Ascii) => "~",
            (Mood::Connected, Signs::Ascii) => "*",
            (Mood::Idle, Signs::Ascii) => "-",
        }
    }

    /// Its tone.
    pub fn tone(self) -> Tone {
        match self {
            Mood::Failed => Tone::Bad,
            Mood::WantsLogin | Mood::WantsApproval | Mood::Trying => Tone::Doubtful,
            Mood::Connected => Tone::Good,
            Mood::Idle => Tone::Faint,
        }
    }
}

/// Everybody, by name: those that are configured, and those that run without being so.
pub fn all(roster: &Roster, snapshot: &Snapshot) -> Vec<Portrait> {
    let configured = roster.servers.iter();
    let mut all: Vec<Portrait> = configured
        .map(|it| match snapshot.servers.get(&it.name) {
            // Somebody who switched it off is not told that it still ends.
            Some(view) if it.footing == Footing::Runs => Portrait::of_view(view, Some(it)),
            Some(_) | None => Portrait::of_enrolled(it),
        })
        .collect();
    let others = snapshot.servers.values().filter(|view| roster.find(&view.name).is_none());
    all.extend(others.map(|view| Portrait::of_view(view, None)));
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

impl Portrait {
    fn of_enrolled(it: &Enrolled) -> Portrait {
        let mood = match (it.footing, it.state.0) {
            (Footing::Undecided, _) => Mood::WantsApproval,
            (Footing::Stopped, Tone::Bad) => Mood::Failed,
            (Footing::Runs, _) => Mood::Trying,
            (Footing::Rejected | Footing::Off | Footing::Stopped, _) => Mood::Idle,
        };
        Portrait {
            name: it.name.clone(),
            scope: it.scope,
            transport: it.transport,
            mood,
            state: it.state.1.clone(),
            cause: it.reason.clone().map(|what| Reason {
                what,
                evidence: Vec::new(),
                remedy: None,
            }),
            introduced: None,
            counts: [None; 3],
            ready_after: None,
            process: None,
            notes: it.problems.clone(),
            footing: it.footing,
            is_remote: it.is_remote,
        }
    }

    fn of_view(view: &View, enrolled: Option<&Enrolled>) -> Portrait {
        let (mood, state) = match &view.status {
            Status::Connected => (Mood::Connected, "connected".to_owned()),
            Status::Pending { attempt, most, .. } => {
                (Mood::Trying, format!("pending ({attempt}/{most})"))
            }
            Status::Failed(_) => (Mood::Failed, "failed".to_owned()),
            Status::NeedsAuth(_) => (Mood::WantsLogin, "needs login".to_owned()),
            Status::Disabled => (Mood::Idle, "disabled".to_owned()),
        };
        let capabilities = view.introduction.as_ref().map(|it| &it.capabilities);
        let count = |list: List| {
            let is_declared = capabilities.is_some_and(|it| list.is_declared(it));
            is_declared.then(|| view.catalogue.items(list).len())
        };
        let mut notes: Vec<String> = view.catalogue.notes().map(ToString::to_string).collect();
        notes.extend(view.detour.map(|it| match it {
            Detour::StartedAgain => {
                "it ended when it was asked about its era, and was started again".to_owned()
            }
            Detour::OlderTransport => "it took the older transport only".to_owned(),
        }));
        notes.extend(enrolled.into_iter().flat_map(|it| it.problems.clone()));
        Portrait {
            name: view.name.clone(),
            scope: view.scope.id(),
            transport: view.transport.id(),
            mood,
            state,
            cause: view.status.cause().map(|it| Reason::of(it, &view.name)),
            introduced: view.introduction.as_ref().map(Introduced::of),
            counts: [count(List::Tools), count(List::Resources), count(List::Prompts)],
            ready_after: view.ready_after,
            process: view.process,
            notes,
            footing: enrolled.map_or(Footing::Runs, |it| it.footing),
            is_remote: enrolled.is_none_or(|it| it.is_remote),
        }
    }
}

impl Reason {
    fn of(cause: &Cause, name: &str) -> Reason {
        let evidence = cause.evidence.iter();
        Reason {
            what: cause.to_string(),
            evidence: evidence.map(|it| (it.label(), it.text().to_owned())).collect(),
            remedy: Some(cause.remedy(name)),
        }
    }
}

impl Introduced {
    fn of(it: &Introduction) -> Introduced {
        let name = it.title.as_ref().unwrap_or(&it.name);
        Introduced {
            era: it.era.id(),
            version: it.version.clone(),
            title: format!("{name} {}", it.server_version).trim().to_owned(),
            capabilities: words(&it.capabilities),
            instructions: it.instructions.clone(),
        }
    }
}

fn words(capabilities: &Capabilities) -> Vec<String> {
    let listed = [
        ("tools", capabilities.tools),
        ("resources", capabilities.resources),
        ("prompts", capabilities.prompts),
    ];
    let word = |(name, listing): (&str, Option<Listing>)| {
        let listing = listing?;
        let changes = listing.announces_changes.then_some("says when they change");
        let subscriptions = listing.takes_subscriptions.then_some("takes subscriptions");
        let more: Vec<&str> = changes.into_iter().chain(subscriptions).collect();
        Some(match more.is_empty() {
            true => name.to_owned(),
            false => format!("{name} ({})", more.join(", ")),
        })
    };
    listed.into_iter().filter_map(word).chain(capabilities.others.iter().cloned()).collect()
}
