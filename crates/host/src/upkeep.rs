//! Keeps the pool of all tools as fresh as the servers' catalogues and the rules are.
//! One task does it, beside the engine: a connection never waits for it. It works only where something changed that
//! a pool is made of, and off the runtime's threads where there is much to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_config::entry::ToolFilter;
use switchboard_config::permission::{self, Effect};
use switchboard_config::scope::Scope;
use tokio::sync::watch;

use crate::built_in;
use crate::catalogue::{Catalogue, List};
use crate::connection::View;
use crate::engine::{Host, Snapshot};
use crate::pool::difference::{Changes, difference};
use crate::pool::naming::{Origin, sanitised};
use crate::pool::{Pool, Rules, Source};

/// More tools than this are put together on a thread of their own.
const MANY: usize = 200;

/// The pool, for readers.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    pools: watch::Receiver<Arc<Pool>>,
    /// The revision of the newest snapshot that is in the pool.
    covered: watch::Receiver<u64>,
}

/// Makes the first pool, and the work that follows the snapshots. That work ends with them.
pub(crate) fn new(
    snapshots: watch::Receiver<Arc<Snapshot>>,
) -> (Pools, impl Future<Output = ()> + Send + 'static) {
    let first = Ingredients::default().after(&Pool::default());
    let (pool, pools) = watch::channel(Arc::new(first));
    let (cover, covered) = watch::channel(0);
    (Pools { pools, covered }, run(snapshots, pool, cover))
}

async fn run(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    pool: watch::Sender<Arc<Pool>>,
    covered: watch::Sender<u64>,
) {
    let mut used = Ingredients::default();
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        let now = Ingredients::of(&snapshot);
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
}

impl Ingredients {
    fn of(snapshot: &Snapshot) -> Ingredients {
        let one = |view: &Arc<View>| {
            let filter = snapshot.filters.get(&view.name).cloned().unwrap_or_default();
            let origin = origin(view.scope);
            (view.name.clone(), Ingredient { origin, catalogue: view.catalogue.clone(), filter })
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
            (one.origin, &one.filter) == (other.origin, &other.filter)
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
            tools: it.catalogue.items(List::Tools),
            filter: &it.filter,
        });
        let is_hidden = |server: &str, tool: &str| {
            permission::hides(&self.rules, &sanitised(server), &sanitised(tool)).is_some()
        };
        let denies = self.rules.listed().iter().any(|it| it.effect == Effect::Deny);
        let hidden: &dyn Fn(&str, &str) -> bool = if denies { &is_hidden } else { &|_, _| false };
        before.next(sources, &Rules { hidden, built_in: built_in::all() })
    }
}

fn origin(scope: Scope) -> Origin {
    match scope {
        Scope::Connectors => Origin::Connector,
        Scope::Enterprise
        | Scope::Dynamic
        | Scope::Project
        | Scope::Local
        | Scope::User
        | Scope::Managed => Origin::Configured,
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
