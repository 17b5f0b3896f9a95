//! The first half of a login: which authorization server, and what it can do.

use std::collections::VecDeque;

use url::Url;

use super::{Flow, State, Step, Way, Why};
use crate::discovery::resource_metadata::{self, short};
use crate::discovery::server_metadata::{self, Expected, ServerMetadata};
use crate::discovery::{legacy_issuer, resource_candidates, server_candidates};
use crate::fetch::{Answer, FetchError, Request};
use crate::origin_guard::Checked;
use crate::pkce::Moment;
use crate::registration::Client;

/// Looking for the server's metadata.
#[derive(Debug)]
pub(super) struct AtResource {
    asked: Url,
    left: VecDeque<Checked>,
    /// Did anybody answer at all?
    trouble: Option<FetchError>,
}

/// Looking for an authorization server's metadata.
#[derive(Debug)]
pub(super) struct AtServer {
    sought: Sought,
    left: VecDeque<Checked>,
    trouble: Option<FetchError>,
}

/// An authorization server, and who we are there.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) metadata: ServerMetadata,
    pub(super) client: Client,
}

/// Whose metadata.
#[derive(Debug)]
enum Sought {
    /// The one that the server names.
    Named(String),
    /// The one that a person named.
    Typed(String),
    /// The server's own, as protocol version 2025-03-26 had it.
    Legacy(Url),
    /// The identity provider's. The other one was found before.
    Provider(String, Box<Found>),
}

impl Flow {
    /// Looks where the challenge says, then where the specification says.
    pub(super) fn find_resource(&mut self, moment: &mut Moment<'_>) -> Result<Step, Why> {
        let mut left = VecDeque::new();
        if let Some(named) = &self.plan.demand.resource_metadata {
            let checked = self.guard.check(named);
            let checked = checked.map_err(|why| Why::Url { what: "metadata URL", why })?;
            left.push_back(checked);
        }
        for candidate in resource_candidates(&self.plan.server) {
            let is_new = left.iter().all(|it| it.url != candidate);
            if is_new && let Ok(checked) = self.guard.check_url(candidate) {
                left.push_back(checked);
            }
        }
        self.ask_resource(left, None, moment)
    }

    fn ask_resource(
        &mut self,
        mut left: VecDeque<Checked>,
        trouble: Option<FetchError>,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        match (left.pop_front(), trouble) {
            (Some(at), trouble) => {
                let asked = at.url.clone();
                self.state = State::AtResource(AtResource { asked, left, trouble });
                Ok(Step::Fetch(Box::new(Request::get(at))))
            }
            // Nobody there is not the same as nothing there.
            (None, Some(error)) => Err(Why::Fetch(error)),
            (None, None) => self.find_server(moment),
        }
    }

    pub(super) fn on_resource(
        &mut self,
        at: AtResource,
        fetched: Result<Answer, FetchError>,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        let answer = match fetched {
            Ok(answer) => answer,
            Err(error) => return self.ask_resource(at.left, Some(error), moment),
        };
        if is_temporary(answer.status) {
            return Err(Why::Unavailable { status: answer.status });
        }
        if !answer.is_success() {
            return self.ask_resource(at.left, at.trouble, moment);
        }
        match resource_metadata::read(&answer.body, &at.asked, &self.plan.server) {
            Ok(metadata) => {
                self.resource = Some(metadata);
                self.find_server(moment)
            }
            // Pages that are there for every path are no metadata.
            Err(resource_metadata::ResourceError::Malformed) => {
                self.ask_resource(at.left, at.trouble, moment)
            }
            Err(error) => Err(Why::Resource(error)),
        }
    }

    /// The one that a person named, or the server, or else the server's own.
    fn find_server(&mut self, moment: &mut Moment<'_>) -> Result<Step, Why> {
        if let Some(typed) = self.plan.metadata_url.clone() {
            let checked = self.guard.check_url(typed.clone());
            let checked = checked.map_err(|why| Why::Url { what: "metadata URL", why })?;
            return self.ask_server(Sought::Typed(typed.into()), [checked].into(), None, moment);
        }
        let named = self.resource.iter().flat_map(|it| &it.authorization_servers);
        let known = self.plan.known.as_ref().map(|client| client.issuer.as_str());
        let all: Vec<&String> = named.collect();
        let chosen = all.iter().find(|issuer| Some(issuer.as_str()) == known).or(all.first());
        let Some(issuer) = chosen.map(|issuer| (*issuer).clone()) else {
            let base = legacy_issuer(&self.plan.server);
            let left = self.candidates(&base);
            return self.ask_server(Sought::Legacy(base), left, None, moment);
        };
        let checked = self.guard.check(&issuer);
        let checked = checked.map_err(|why| Why::Url { what: "authorization server", why })?;
        let left = self.candidates(&checked.url);
        self.ask_server(Sought::Named(issuer), left, None, moment)
    }

    fn candidates(&self, issuer: &Url) -> VecDeque<Checked> {
        let all = server_candidates(issuer).into_iter();
        all.filter_map(|url| self.guard.check_url(url).ok()).collect()
    }

    fn ask_server(
        &mut self,
        sought: Sought,
        mut left: VecDeque<Checked>,
        trouble: Option<FetchError>,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        match (left.pop_front(), trouble) {
            (Some(at), trouble) => {
                self.state = State::AtServer(AtServer { sought, left, trouble });
                Ok(Step::Fetch(Box::new(Request::get(at))))
            }
            (None, Some(error)) => Err(Why::Fetch(error)),
            (None, None) => match sought {
                Sought::Legacy(base) => self.begin_asking(ServerMetadata::assumed(&base), moment),
                Sought::Named(issuer) | Sought::Typed(issuer) | Sought::Provider(issuer, _) => {
                    Err(Why::NoMetadata(short(&issuer)))
                }
            },
        }
    }

    pub(super) fn on_server(
        &mut self,
        at: AtServer,
        fetched: Result<Answer, FetchError>,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        let answer = match fetched {
            Ok(answer) => answer,
            Err(error) => return self.ask_server(at.sought, at.left, Some(error), moment),
        };
        if is_temporary(answer.status) {
            return Err(Why::Unavailable { status: answer.status });
        }
        let expected = match &at.sought {
            Sought::Named(issuer) | Sought::Provider(issuer, _) => Expected::Issuer(issuer),
            Sought::Typed(_) | Sought::Legacy(_) => Expected::Whoever,
        };
        let read = match answer.is_success() {
            true => server_metadata::read(&answer.body, expected, &self.guard),
            false => Err(server_metadata::ServerError::Malformed),
        };
        match (read, at.sought) {
            (Ok(metadata), Sought::Provider(_, found)) => {
                self.exchange_identity(*found, &metadata, moment)
            }
            (Ok(metadata), Sought::Named(_) | Sought::Typed(_) | Sought::Legacy(_)) => {
                self.begin_asking(metadata, moment)
            }
            (Err(server_metadata::ServerError::Malformed), sought) => {
                self.ask_server(sought, at.left, at.trouble, moment)
            }
            (Err(error), _) => Err(Why::Server(error)),
        }
    }

    /// Looks up where the identity provider's tokens are, or goes there.
    pub(super) fn find_provider(
        &mut self,
        found: Found,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        let Way::Enterprise(provider) = &self.plan.way else { return Err(Why::OutOfStep) };
        let issuer = provider.issuer.clone();
        if let Some(endpoint) = &provider.token_endpoint {
            let mut metadata = ServerMetadata::assumed(&issuer);
            metadata.token_endpoint = endpoint.to_string();
            return self.exchange_identity(found, &metadata, moment);
        }
        let left = self.candidates(&issuer);
        let name = issuer.as_str().trim_end_matches('/').to_owned();
        self.ask_server(Sought::Provider(name, Box::new(found)), left, None, moment)
    }
}

/// An outage is no answer to the question whether something is there.
fn is_temporary(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}
