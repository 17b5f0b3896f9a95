//! Keeps the pool of all tools as fresh as the servers' catalogues and the rules are.
//! One task does it, beside the engine: a connection never waits for it. It works only where something changed that
//! a pool is made of, and off the runtime's threads where there is much to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_config::entry::{Fingerprint, ToolFilter};
use switchboard_config::permission::{self, Effect};
use tokio::sync::watch;

use crate::built_in;
use crate::catalogue::{Catalogue, Item, List};
use crate::connection::state::Persistence;
use crate::connection::{Status, View};
use crate::engine::{Host, Snapshot};
use crate::pool::difference::{Changes, difference};
use crate::pool::naming::{Origin, sanitised};
use crate::pool::tool::ToolKind;
use crate::pool::{Pool, Rules, Source};
use crate::signing::Entrance;

/// More tools than this are put together on a thread of their own.
const MANY: usize = 200;

/// The pool, for readers.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    pools: watch::Receiver<Arc<Pool>>,
    /// The revision of the newest snapshot that is in the pool.
    covered: watch::Receiver<u64>,
}

/// Makes the first pool, and the work that follows the snapshots. That work ends with them. A host that is not here to
/// stay has no tools to sign in with: nobody would be there when the browser comes back.
pub(crate) fn new(
    snapshots: watch::Receiver<Arc<Snapshot>>,
    persistence: Persistence,
) -> (Pools, impl Future<Output = ()> + Send + 'static) {
    let first = Ingredients::default().after(&Pool::default());
    let (pool, pools) = watch::channel(Arc::new(first));
    let (cover, covered) = watch::channel(0);
    (Pools { pools, covered }, run(snapshots, persistence, pool, cover))
}

async fn run(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    persistence: Persistence,
    pool: watch::Sender<Arc<Pool>>,
    covered: watch::Sender<u64>,
) {
    let mut used = Ingredients::default();
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        let now = Ingredients::of(&snapshot, &used, persistence);
        if !now.are_same(&used) {
            let before = pool.borrow().clone();
            pool.send_replace(assembled(before, now.clone()).await);
            used = now;
        }
        covered.send_replace(snapshot.revision);
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}

async fn assembled(before: Arc<Pool>, now: Ingredients) -> Arc<Pool> {
    if now.count() <= MANY {
        return Arc::new(now.after(&before));
    }
    let kept = before.clone();
    let assembling = tokio::task::spawn_blocking(move || Arc::new(now.after(&before)));
    // What cannot be put together must not take away what there is.
    assembling.await.unwrap_or(kept)
}

/// Everything that a pool is made of.
#[derive(Debug, Clone, Default)]
struct Ingredients {
    servers: BTreeMap<String, Ingredient>,
    rules: Arc<permission::Rules>,
}

/// What a server adds.
#[derive(Debug, Clone)]
struct Ingredient {
    origin: Origin,
    catalogue: Arc<Catalogue>,
    filter: ToolFilter,
    fingerprint: Fingerprint,
    /// The tool that stands for a server which wants a login.
    stand_in: Option<(Entrance, Arc<Item>)>,
}

impl Ingredients {
    fn of(snapshot: &Snapshot, before: &Ingredients, persistence: Persistence) -> Ingredients {
        let one = |view: &Arc<View>| {
            let before = before.servers.get(&view.name);
            let before = before.filter(|it| it.fingerprint == view.fingerprint);
            let ingredient = Ingredient {
                origin: Origin::of(view.scope),
                catalogue: view.catalogue.clone(),
                filter: snapshot.filters.get(&view.name).cloned().unwrap_or_default(),
                fingerprint: view.fingerprint.clone(),
                stand_in: match persistence {
                    Persistence::Patient => stand_in(view, snapshot, before),
                    Persistence::Once => None,
                },
            };
            (view.name.clone(), ingredient)
        };
        let servers = snapshot.servers.values().map(one).collect();
        Ingredients { servers, rules: snapshot.rules.clone() }
    }

    fn count(&self) -> usize {
        self.servers.values().map(|it| it.catalogue.items(List::Tools).len()).sum()
    }

    /// Would the same pool come of both?
    fn are_same(&self, other: &Ingredients) -> bool {
        let is_same = |(one, other): (&Ingredient, &Ingredient)| {
            let (old, new) = (&other.catalogue, &one.catalogue);
            let entrance = |it: &Ingredient| it.stand_in.as_ref().map(|it| it.0);
            (one.origin, &one.filter) == (other.origin, &other.filter)
                && entrance(one) == entrance(other)
                && (Arc::ptr_eq(old, new) || old.items(List::Tools) == new.items(List::Tools))
        };
        Arc::ptr_eq(&self.rules, &other.rules)
            && self.servers.keys().eq(other.servers.keys())
            && self.servers.values().zip(other.servers.values()).all(is_same)
    }

    fn after(&self, before: &Pool) -> Pool {
        let sources = self.servers.iter().map(|(server, it)| Source {
            server,
            origin: it.origin,
            tools: match &it.stand_in {
                Some((_, item)) => std::slice::from_ref(&**item),
                None => it.catalogue.items(List::Tools),
            },
            kind: match it.stand_in {
                Some(_) => ToolKind::StandIn,
                None => ToolKind::Served,
            },
            filter: &it.filter,
        });
        let is_hidden = |server: &str, tool: &str| {
            permission::hides(&self.rules, server, &sanitised(tool)).is_some()
        };
        let denies = self.rules.listed().iter().any(|it| it.effect == Effect::Deny);
        let hidden: &dyn Fn(&str, &str) -> bool = if denies { &is_hidden } else { &|_, _| false };
        before.next(sources, &Rules { hidden, built_in: built_in::all() })
    }
}

/// The tool that stands for a server which wants a login. It stays while that server is being connected to after one,
/// so that the server's own tools take its place at once.
fn stand_in(
    view: &View,
    snapshot: &Snapshot,
    before: Option<&Ingredient>,
) -> Option<(Entrance, Arc<Item>)> {
    let kept = before.and_then(|it| it.stand_in.clone());
    match &view.status {
        Status::NeedsAuth(_) => kept.or_else(|| {
            let entrance = snapshot.handles.get(&view.name)?.entrance()?;
            Some((entrance, Arc::new(built_in::stand_in(&view.name, entrance))))
        }),
        Status::Pending { .. } => kept,
        Status::Connected | Status::Failed(_) | Status::Disabled => None,
    }
}

/// Tells what changed in the pool, for whoever watches it.
#[derive(Debug)]
pub struct PoolWatch {
    pools: watch::Receiver<Arc<Pool>>,
    seen: Arc<Pool>,
}

impl PoolWatch {
    /// The pool as it was when something was last told of it.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.seen
    }

    /// Waits for the next change and tells it; changes that came together are told together. None when the host is
    /// gone.
    pub async fn next(&mut self) -> Option<Changes> {
        loop {
            self.pools.changed().await.ok()?;
            let now = self.pools.borrow_and_update().clone();
            let changes = difference(&self.seen, &now);
            self.seen = now;
            if !changes.is_empty() {
                return Some(changes);
            }
        }
    }
}

impl Host {
    /// All tools as far as they are known now.
    pub fn pool(&self) -> Arc<Pool> {
        self.pools().pools.borrow().clone()
    }

    /// All tools now and later.
    pub fn watch_pool(&self) -> watch::Receiver<Arc<Pool>> {
        self.pools().pools.clone()
    }

    /// What changes about the tools from now on.
    pub fn pool_changes(&self) -> PoolWatch {
        let mut pools = self.watch_pool();
        let seen = pools.borrow_and_update().clone();
        PoolWatch { pools, seen }
    }

    /// All tools, once those of [`Host::snapshot`] are among them.
    pub async fn settled_pool(&self) -> Arc<Pool> {
        let revision = self.snapshot().revision;
        let mut covered = self.pools().covered.clone();
        let _host_gone = covered.wait_for(|it| *it >= revision).await;
        self.pool()
    }
}
