//! Who is asked what to show with a request, and what to do when that is turned away.
//! The one who is asked holds the tokens; here they only pass through.

use std::future::Future;
use std::pin::Pin;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::{Network, Received, Request, Target, let_go};
use crate::fault::Fault;

/// How often one request is made again because [`Authorize::refused`] says so.
const AGAIN: usize = 3;

/// A request that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Outbound<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Where it goes.
    pub url: &'a Url,
}

/// How a request was received.
#[derive(Debug, Clone, Copy)]
pub struct Reception<'a> {
    /// The status of the answer.
    pub status: u16,
    /// The headers of the answer.
    pub headers: &'a HeaderMap,
    /// The `Authorization` that was shown.
    pub shown: Option<&'a HeaderValue>,
}

/// What becomes of a request that was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The refusal stands.
    Stands,
    /// There is something better to show: make it again.
    Again,
}

/// Headers to show, which may take a while.
pub type Authorizing<'a> = Pin<Box<dyn Future<Output = HeaderMap> + Send + 'a>>;
/// A verdict, which may take a while.
pub type Judging<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// Who is asked what to show with every request.
pub trait Authorize: Send + Sync {
    /// What to show. Each takes the place of a fixed header of its name.
    fn headers<'a>(&'a self, outbound: Outbound<'a>) -> Authorizing<'a>;

    /// Hears that a request was turned away, with 401 or 403, and says whether it is worth another try. A person
    /// is not waited for.
    fn refused<'a>(&'a self, _: Reception<'a>) -> Judging<'a> {
        Box::pin(std::future::ready(Verdict::Stands))
    }

    /// Hears of every other answer.
    fn answered(&self, _: Reception<'_>) {}
}

/// Which protocol an answer may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Http,
    Upgrade,
}

impl Target {
    /// Makes a request with what is to be shown at this moment, and again where that is turned away and there
    /// is something better.
    pub(crate) async fn send(
        &self,
        network: &Network,
        request: &mut Request<'_>,
        via: Via,
    ) -> Result<Received, Fault> {
        let mut left = AGAIN;
        loop {
            self.sign(request).await;
            let response = match via {
                Via::Http => network.send(request).await?,
                Via::Upgrade => network.send_upgrading(request).await?,
            };
            let verdict = self.judge(request, &response).await;
            if verdict == Verdict::Stands || left == 0 {
                return Ok(response);
            }
            left -= 1;
            let_go(response).await;
        }
    }

    async fn sign(&self, request: &mut Request<'_>) {
        let Some(authorize) = &self.authorize else { return };
        let outbound = Outbound { method: &request.method, url: &request.url };
        let mut shown = authorize.headers(outbound).await;
        shown.values_mut().for_each(|value| value.set_sensitive(true));
        for (name, value) in shown {
            if let Some(name) = name {
                request.headers.insert(name, value);
            }
        }
    }

    async fn judge(&self, request: &Request<'_>, response: &Received) -> Verdict {
        let Some(authorize) = &self.authorize else { return Verdict::Stands };
        let status = response.status();
        let reception = Reception {
            status: status.as_u16(),
            headers: response.headers(),
            shown: request.headers.get(header::AUTHORIZATION),
        };
        if status != StatusCode::UNAUTHORIZED && status != StatusCode::FORBIDDEN {
            authorize.answered(reception);
            return Verdict::Stands;
        }
        authorize.refused(reception).await
    }
}
