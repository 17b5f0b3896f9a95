//! Headers that are made when they are needed: kept for a while, and made once more when a server refuses them.
//! Who makes them is a [`Producer`]; where they may go is told by an origin, where it matters.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, header};
use switchboard_wire::network::{Authorize, Authorizing, Judging, Outbound, Reception, Verdict};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use url::{Origin, Url};

/// Headers on their way, or why there are none, without a secret.
pub(crate) type Producing<'a> =
    Pin<Box<dyn Future<Output = Result<HeaderMap, String>> + Send + 'a>>;

/// Makes headers.
pub(crate) trait Producer: Send + Sync {
    /// Makes them anew. Has a deadline of its own.
    fn produce(&self) -> Producing<'_>;
}

/// What is shown now.
#[derive(Clone, Default)]
struct Current {
    headers: HeaderMap,
    /// When they were made.
    made: Option<Instant>,
    /// How often that was done.
    number: u64,
    trial: Trial,
    /// Why they could not be made anew the last time.
    trouble: Option<String>,
}

/// What the server thinks of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Trial {
    /// It may well take them.
    #[default]
    Open,
    /// It refused those before, and has not taken these yet.
    Pending,
}

/// Headers for every request to a server.
pub(crate) struct ShownHeaders {
    producer: Box<dyn Producer>,
    lasts: Duration,
    current: watch::Sender<Current>,
    /// One makes them at a time, and the others take what that one got.
    turn: Semaphore,
}

impl ShownHeaders {
    /// Headers that are made anew after so long.
    pub(crate) fn new(producer: impl Producer + 'static, lasts: Duration) -> ShownHeaders {
        let current = watch::Sender::new(Current::default());
        ShownHeaders { producer: Box::new(producer), lasts, current, turn: Semaphore::new(1) }
    }

    /// Makes them for the first time, so that what stands in the way is known before anybody is asked anything.
    pub(crate) async fn begin(&self) -> Result<(), String> {
        let now = self.anew(0, Trial::Open).await;
        match now.trouble {
            Some(trouble) if now.made.is_none() => Err(trouble),
            Some(_) | None => Ok(()),
        }
    }

    /// Why they could not be made anew the last time.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.current.borrow().trouble.clone()
    }

    /// What is shown after those with this number; made now unless somebody was faster.
    async fn anew(&self, seen: u64, trial: Trial) -> Current {
        let _turn = self.turn.acquire().await;
        let before = self.current.borrow().clone();
        if before.number != seen {
            return before;
        }
        let made = self.producer.produce().await;
        self.current.send_modify(|current| match made {
            Ok(headers) => {
                let (made, number) = (Some(Instant::now()), current.number + 1);
                *current = Current { headers, made, number, trial, trouble: None };
            }
            Err(trouble) => current.trouble = Some(trouble),
        });
        self.current.borrow().clone()
    }

    async fn judge(&self, refusal: Reception<'_>) -> Verdict {
        let before = self.current.borrow().clone();
        let ours = before.headers.get(header::AUTHORIZATION);
        if let (Some(shown), Some(ours)) = (refusal.shown, ours)
            && shown != ours
        {
            // Made anew while the request was on its way.
            return Verdict::Again;
        }
        if before.trial == Trial::Pending {
            return Verdict::Stands;
        }
        let now = self.anew(before.number, Trial::Pending).await;
        match now.headers != before.headers {
            true => Verdict::Again,
            false => Verdict::Stands,
        }
    }
}

impl Authorize for ShownHeaders {
    fn headers<'a>(&'a self, _: Outbound<'a>) -> Authorizing<'a> {
        Box::pin(async move {
            let current = self.current.borrow().clone();
            match current.made {
                Some(made) if made.elapsed() < self.lasts => current.headers,
                // What cannot be made anew may still be taken.
                Some(_) | None => self.anew(current.number, current.trial).await.headers,
            }
        })
    }

    fn refused<'a>(&'a self, refusal: Reception<'a>) -> Judging<'a> {
        Box::pin(self.judge(refusal))
    }

    fn answered(&self, reception: Reception<'_>) {
        if (200..300).contains(&reception.status) {
            self.current.send_if_modified(|current| {
                let was_pending = current.trial == Trial::Pending;
                current.trial = Trial::Open;
                was_pending
            });
        }
    }
}

/// Shows something at one origin, and nothing anywhere else.
pub(crate) struct OnlyAt {
    pub(crate) origin: Origin,
    pub(crate) inner: Arc<dyn Authorize>,
}

impl OnlyAt {
    /// Is this a URL of that origin?
    pub(crate) fn is_for(&self, url: &Url) -> bool {
        url.origin() == self.origin
    }
}

impl Authorize for OnlyAt {
    fn headers<'a>(&'a self, outbound: Outbound<'a>) -> Authorizing<'a> {
        match self.is_for(outbound.url) {
            true => self.inner.headers(outbound),
            false => Box::pin(std::future::ready(HeaderMap::new())),
        }
    }

    fn refused<'a>(&'a self, refusal: Reception<'a>) -> Judging<'a> {
        // Nothing was shown, so nothing better can be.
        match refusal.shown {
            Some(_) => self.inner.refused(refusal),
            None => Box::pin(std::future::ready(Verdict::Stands)),
        }
    }

    fn answered(&self, reception: Reception<'_>) {
        if reception.shown.is_some() {
            self.inner.answered(reception);
        }
    }
}
