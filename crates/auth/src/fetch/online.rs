//! Fetching over the network: the same proxies and certificates as for servers, and no address that is out of reach.

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::BytesMut;
use http::{Method, StatusCode, header};
use reqwest::{Client, Response};
use switchboard_wire::network::Network;
use tokio::time::timeout;
use url::Url;

use super::{Answer, Fetch, FetchError, Fetching, LARGEST_ANSWER, Request};
use crate::origin_guard::{GuardedResolver, LedAstray, Reach};

/// How long an answer may take, all of it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many redirects within one origin are followed.
const REDIRECTS: usize = 5;
/// How much of a library's words is kept.
const DETAIL: usize = 300;

/// The network. Each reach has connections of its own, so that one that was made for a person's address is
/// never used for a server's. Behind a proxy it is the proxy that resolves names: what it lets through is the
/// affair of whoever runs it.
pub struct Online {
    network: Network,
    clients: [OnceLock<Client>; 4],
    patience: Duration,
}

impl Online {
    /// Fetches over this network.
    pub fn new(network: Network) -> Online {
        Online { network, clients: Default::default(), patience: PATIENCE }
    }

    /// The same, with another patience.
    pub fn patience(mut self, patience: Duration) -> Online {
        self.patience = patience;
        self
    }

    fn client(&self, reach: Reach) -> Result<&Client, FetchError> {
        let slot = &self.clients[reach as usize];
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let exempt = self.network.proxy_hosts().to_vec();
        let made = self.network.client(|builder| match reach {
            Reach::Anywhere => builder,
            Reach::Public | Reach::Private | Reach::Local => {
                builder.dns_resolver(GuardedResolver { reach, exempt })
            }
        });
        let made = made.map_err(|error| FetchError::Unreachable {
            origin: String::new(),
            detail: error.to_string(),
        })?;
        Ok(slot.get_or_init(|| made))
    }

    async fn follow(&self, mut request: Request) -> Result<Answer, FetchError> {
        let client = self.client(request.reach)?;
        for _ in 0..=REDIRECTS {
            let origin = shown(&request.url);
            let sent = client.execute(prepared(&request)).await;
            let response = sent.map_err(|error| failure(&origin, error))?;
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED
            {
                return read(response, &origin).await;
            }
            request.url = next(&request, &response)?;
        }
        let origin = shown(&request.url);
        Err(FetchError::Redirected { to: origin.clone(), origin })
    }
}

impl Fetch for Online {
    fn fetch<'a>(&'a self, request: Request) -> Fetching<'a> {
        Box::pin(async move {
            let origin = shown(&request.url);
            match timeout(self.patience, self.follow(request)).await {
                Ok(answer) => answer,
                Err(_) => Err(FetchError::Late { origin }),
            }
        })
    }
}

/// Where a redirect leads, if we may go there: within the origin, and only with a question that changes nothing.
fn next(request: &Request, response: &Response) -> Result<Url, FetchError> {
    let origin = shown(&request.url);
    let location = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
    let Some(to) = location.and_then(|to| request.url.join(to).ok()) else {
        return Err(FetchError::Redirected { origin, to: "nowhere".to_owned() });
    };
    match request.method == Method::GET && to.origin() == request.url.origin() {
        true => Ok(to),
        false => Err(FetchError::Redirected { origin, to: shown(&to) }),
    }
}

fn prepared(request: &Request) -> reqwest::Request {
    let mut prepared = reqwest::Request::new(request.method.clone(), request.url.clone());
    *prepared.headers_mut() = request.headers.clone();
    if !request.body.is_empty() {
        *prepared.body_mut() = Some(request.body.clone().into());
    }
    prepared
}

async fn read(mut response: Response, origin: &str) -> Result<Answer, FetchError> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(|error| failure(origin, error))? {
        if body.len() + piece.len() > LARGEST_ANSWER {
            return Err(FetchError::TooLarge { origin: origin.to_owned() });
        }
        body.extend_from_slice(&piece);
    }
    let status = response.status().as_u16();
    let headers = std::mem::take(response.headers_mut());
    Ok(Answer { status, headers, body: body.freeze() })
}

fn failure(origin: &str, error: reqwest::Error) -> FetchError {
    let origin = origin.to_owned();
    let error = error.without_url();
    let causes =
        || std::iter::successors(Some(&error as &(dyn Error + 'static)), |&cause| cause.source());
    if causes().any(|cause| cause.is::<LedAstray>()) {
        return FetchError::Astray { origin };
    }
    let detail = causes().last().map(ToString::to_string).unwrap_or_default();
    FetchError::Unreachable { origin, detail: detail.chars().take(DETAIL).collect() }
}

/// A URL's origin as text that can be shown.
fn shown(url: &Url) -> String {
    url.origin().ascii_serialization().chars().take(DETAIL).collect()
}
