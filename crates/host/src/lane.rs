//! Connections beside the one that a server has for everybody: for whoever must not share it, or can do other things
//! for the server than we can. They are made when first used, and end when nobody uses them any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::introduction::Ability;
use switchboard_wire::peer::Attend;
use switchboard_wire::process::Search;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::connection::{self, Handle, Particulars, View};
use crate::engine::Settings;

/// How long a lane lives that nobody uses.
const IDLE: Duration = Duration::from_secs(600);
/// How many lanes there may be.
const MOST: usize = 4096;

/// Which lane somebody wants to use.
#[derive(Debug, Clone)]
pub struct Lane {
    /// Whose it is. Those who give the same name share it.
    pub key: Arc<str>,
    /// What can be done for the server there.
    pub abilities: Vec<Ability>,
    /// Who answers what the server asks there outside of any call, where somebody does.
    pub owner: Option<Arc<dyn Attend>>,
}

/// All lanes by server and key, for readers.
pub(crate) type ByKey = BTreeMap<(String, Arc<str>), Handle>;

/// The lanes there are. The engine owns them.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    kept: BTreeMap<(String, Arc<str>), Kept>,
}

#[derive(Debug)]
struct Kept {
    handle: Handle,
    task: JoinHandle<()>,
    /// How often it had been used when it was last looked at, and since when that is so.
    used: (u64, Instant),
}

impl Lanes {
    /// The lane that somebody wants, made now where there is none. None where there are too many.
    pub(crate) fn open(
        &mut self,
        main: &Handle,
        lane: Lane,
        settings: &Arc<Settings>,
        reports: &mpsc::Sender<Arc<View>>,
    ) -> Option<Handle> {
        let place = (main.wanted().name().to_owned(), lane.key);
        if let Some(kept) = self.kept.get(&place) {
            return Some(kept.handle.clone());
        }
        if self.kept.len() >= MOST {
            return None;
        }
        let (predecessor, abilities) = (None, Some(lane.abilities));
        let particulars = Particulars { predecessor, abilities, owner: lane.owner };
        let wanted = main.wanted().clone();
        let (handle, task) =
            connection::keep(wanted, settings.clone(), reports.clone(), particulars);
        let kept = Kept { handle: handle.clone(), task, used: (0, Instant::now()) };
        self.kept.insert(place, kept);
        Some(handle)
    }

    /// All of them, for readers.
    pub(crate) fn by_key(&self) -> ByKey {
        self.kept.iter().map(|(place, kept)| (place.clone(), kept.handle.clone())).collect()
    }

    /// Ends those of a server. Says whether there were any.
    pub(crate) fn end_of(&mut self, server: &str, ending: &mut JoinSet<()>) -> bool {
        self.end_where(ending, |place, _| place.0 == server)
    }

    /// Ends those of one key. Says whether there were any.
    pub(crate) fn end_at(&mut self, key: &str, ending: &mut JoinSet<()>) -> bool {
        self.end_where(ending, |place, _| *place.1 == *key)
    }

    /// Ends those that nobody uses any more. Says whether there were any.
    pub(crate) fn end_idle(&mut self, ending: &mut JoinSet<()>) -> bool {
        self.end_where(ending, |_, kept| {
            let uses = kept.handle.uses();
            if uses != kept.used.0 || kept.handle.is_in_use() {
                kept.used = (uses, Instant::now());
            }
            kept.used.1.elapsed() >= IDLE
        })
    }

    /// Ends all.
    pub(crate) fn end_all(&mut self, ending: &mut JoinSet<()>) {
        self.end_where(ending, |_, _| true);
    }

    fn end_where(
        &mut self,
        ending: &mut JoinSet<()>,
        mut is_over: impl FnMut(&(String, Arc<str>), &mut Kept) -> bool,
    ) -> bool {
        let over: Vec<_> = self.kept.extract_if(.., |place, kept| is_over(place, kept)).collect();
        let had_some = !over.is_empty();
        for (_, kept) in over {
            ending.spawn(async move {
                kept.handle.stop(Search::Now).await;
                let _panicked = kept.task.await;
            });
        }
        had_some
    }
}
