//! Quotas of the calls of principals. [`Quotas`] chooses those that apply to a call; [`QuotaCounters`] counts. The counters
//! of this process are in `local_counters`, those of all replicas in `shared_counters`.

mod local_counters;
mod shared_counters;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_config::settings::quotas::CallQuota;
use tokio::sync::watch;

use crate::telemetry::limit_kind::LimitKind;

pub use local_counters::LocalCounters;
pub(crate) use shared_counters::SharedCounters;

/// One quota that a call is counted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaCharge {
    /// What is counted together: equal keys share a counter.
    pub key: QuotaKey,
    /// The most calls per minute.
    pub per_minute: Option<u64>,
    /// The most calls per day (UTC).
    pub per_day: Option<u64>,
    /// The most calls at the same time.
    pub concurrent: Option<u64>,
}

/// The key of a counter. It is the same in every process with the same settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuotaKey {
    /// The principal.
    pub principal: Arc<str>,
    /// The quota, whatever its limits are.
    pub quota: Arc<str>,
}

/// The limit of a quota that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaLimit {
    /// Calls per minute.
    Minute,
    /// Calls per day.
    Day,
    /// Calls at the same time.
    Concurrent,
}

/// A call that exceeds a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaExcess {
    /// The index of the charge.
    pub charge: usize,
    /// The limit.
    pub limit: QuotaLimit,
    /// When a retry may succeed.
    pub retry_after: Duration,
}

/// A call that is counted. It counts as running until this is dropped.
pub struct QuotaSlot(Box<dyn Send + Sync>);

impl QuotaSlot {
    /// A slot that ends what it counts when this value is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> QuotaSlot {
        QuotaSlot(Box::new(guard))
    }
}

impl fmt::Debug for QuotaSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuotaSlot(_guard) = self;
        f.write_str("QuotaSlot")
    }
}

/// How much of a quota is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaUse {
    /// Calls of the last minute, as far as they still count.
    pub minute: u64,
    /// Calls of this day.
    pub day: u64,
    /// Calls that run.
    pub running: u64,
}

/// The result of counting a call.
pub type QuotaFuture<'a> =
    Pin<Box<dyn Future<Output = Result<QuotaSlot, QuotaExcess>> + Send + 'a>>;

/// The use of several quotas.
pub type QuotaUseFuture<'a> = Pin<Box<dyn Future<Output = Vec<QuotaUse>> + Send + 'a>>;

/// Counts the calls of principals.
pub trait QuotaCounters: Send + Sync + fmt::Debug {
    /// Counts a call for every charge, or for none if one is used up.
    fn start_call<'a>(&'a self, charges: &'a [QuotaCharge]) -> QuotaFuture<'a>;

    /// How much of each charge is used, in the same order.
    fn usage<'a>(&'a self, charges: &'a [QuotaCharge]) -> QuotaUseFuture<'a>;
}

/// The quotas of a gateway.
#[derive(Debug)]
pub(crate) struct Quotas {
    publish: watch::Sender<Arc<[CallQuota]>>,
    counters: Arc<dyn QuotaCounters>,
}

/// A quota that refuses a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuotaRefusal {
    pub(crate) limit: LimitKind,
    pub(crate) retry_after: Duration,
    /// Which quota, and how much it allows.
    pub(crate) text: String,
}

/// A quota of a principal, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrincipalQuota {
    /// What it counts: `all tools` or a rule.
    pub subject: String,
    /// The quota.
    pub quota: CallQuota,
    /// How much is used.
    pub used: QuotaUse,
}

impl Quotas {
    pub(crate) fn new(counters: Arc<dyn QuotaCounters>) -> Quotas {
        Quotas { publish: watch::Sender::new(Arc::from([])), counters }
    }

    /// Replaces the quotas. Counters of those that stay go on.
    pub(crate) fn set(&self, quotas: Vec<CallQuota>) {
        self.publish.send_replace(quotas.into());
    }

    /// Counts a call of a tool; `None` if no quota applies. Both names are those of rules.
    pub(crate) async fn start_call(
        &self,
        principal: &Arc<str>,
        (server, tool): (&str, &str),
    ) -> Result<Option<QuotaSlot>, QuotaRefusal> {
        let quotas = self.publish.borrow().clone();
        let applies = |it: &&CallQuota| it.is_of(principal) && it.counts(server, tool);
        let applying: Vec<&CallQuota> = quotas.iter().filter(applies).collect();
        if applying.is_empty() {
            return Ok(None);
        }
        let charges: Vec<QuotaCharge> = applying.iter().map(|it| charge(it, principal)).collect();
        match self.counters.start_call(&charges).await {
            Ok(slot) => Ok(Some(slot)),
            Err(exceeded) => Err(refusal(applying.get(exceeded.charge).copied(), &exceeded)),
        }
    }

    /// The quotas of a principal.
    pub(crate) async fn of_principal(&self, principal: &Arc<str>) -> Vec<PrincipalQuota> {
        let quotas = self.publish.borrow().clone();
        let own: Vec<&CallQuota> = quotas.iter().filter(|it| it.is_of(principal)).collect();
        let charges: Vec<QuotaCharge> = own.iter().map(|it| charge(it, principal)).collect();
        let uses = self.counters.usage(&charges).await;
        own.into_iter()
            .zip(uses)
            .map(|(quota, used)| PrincipalQuota {
                subject: quota.subject(),
                quota: quota.clone(),
                used,
            })
            .collect()
    }
}

fn charge(quota: &CallQuota, principal: &Arc<str>) -> QuotaCharge {
    QuotaCharge {
        key: QuotaKey { principal: principal.clone(), quota: quota.id().into() },
        per_minute: quota.per_minute,
        per_day: quota.per_day,
        concurrent: quota.concurrent,
    }
}

fn refusal(quota: Option<&CallQuota>, exceeded: &QuotaExcess) -> QuotaRefusal {
    let (limit, amount, unit) = match exceeded.limit {
        QuotaLimit::Minute => {
            (LimitKind::CallsPerMinute, quota.and_then(|it| it.per_minute), "calls per minute")
        }
        QuotaLimit::Day => {
            (LimitKind::CallsPerDay, quota.and_then(|it| it.per_day), "calls per day")
        }
        QuotaLimit::Concurrent => (
            LimitKind::ConcurrentCalls,
            quota.and_then(|it| it.concurrent),
            "calls at the same time",
        ),
    };
    let amount = amount.map(|it| format!("{it} ")).unwrap_or_default();
    let subject = quota.map(CallQuota::subject).unwrap_or_default();
    let text = format!("the quota of {amount}{unit} for {subject} is used up");
    QuotaRefusal { limit, retry_after: exceeded.retry_after, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(calls: Option<&str>, concurrent: u64) -> CallQuota {
        let rule = |text| switchboard_config::permission::ToolRule::parse(text).expect("a rule");
        CallQuota {
            principal: None,
            calls: calls.map(rule),
            per_minute: None,
            per_day: None,
            concurrent: Some(concurrent),
        }
    }

    #[tokio::test]
    async fn every_quota_that_applies_holds_and_each_principal_has_its_own() {
        let quotas = Quotas::new(Arc::new(LocalCounters::default()));
        let (ada, grace): (Arc<str>, Arc<str>) = ("ada".into(), "grace".into());
        let call = async |principal: &Arc<str>, server: &str| {
            quotas.start_call(principal, (server, "t")).await.map_err(|it| it.text)
        };
        assert!(call(&ada, "git").await.expect("no quota").is_none());
        quotas.set(vec![quota(None, 2), quota(Some("mcp__git"), 1)]);
        let first = call(&ada, "git").await.expect("room");
        let refused = "the quota of 1 calls at the same time for `mcp__git` is used up";
        assert_eq!(call(&ada, "git").await.map(drop), Err(refused.to_owned()));
        // The refused call was counted for no quota.
        let second = call(&ada, "web").await.expect("room");
        let refused = "the quota of 2 calls at the same time for all tools is used up";
        assert_eq!(call(&ada, "web").await.map(drop), Err(refused.to_owned()));
        let of_grace = call(&grace, "git").await.expect("room");
        let used: Vec<u64> =
            quotas.of_principal(&ada).await.into_iter().map(|it| it.used.running).collect();
        assert_eq!(used, [2, 1]);
        drop((first, of_grace));
        call(&ada, "git").await.expect("room again");
        drop(second);
    }

    #[tokio::test]
    async fn a_changed_limit_keeps_what_was_counted() {
        let quotas = Quotas::new(Arc::new(LocalCounters::default()));
        let ada: Arc<str> = "ada".into();
        quotas.set(vec![quota(None, 1)]);
        let _first = quotas.start_call(&ada, ("git", "t")).await.expect("room");
        quotas.set(vec![quota(None, 2)]);
        let _second = quotas.start_call(&ada, ("git", "t")).await.expect("room");
        quotas.start_call(&ada, ("git", "t")).await.expect_err("both are counted");
    }
}
