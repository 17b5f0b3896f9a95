//! The first half of a login: finds the authorization server and its metadata.

use std::collections::VecDeque;

use url::Url;

use super::{Flow, FlowError, FlowState, LoginGrant, Step};
use crate::discovery::auth_server_metadata;
use crate::discovery::auth_server_metadata::{AuthServerMetadata, ExpectedIssuer};
use crate::discovery::resource_metadata;
use crate::discovery::{auth_server_metadata_urls, legacy_issuer, resource_metadata_urls};
use crate::fetch::origin_guard::CheckedUrl;
use crate::fetch::{FetchError, FetchRequest, FetchResponse};
use crate::registration::OAuthClient;
use crate::time_and_random::TimeAndRandom;
use crate::untrusted_text::sanitize_for_display;

/// The search for the server's metadata.
#[derive(Debug)]
pub(super) struct ResourceDiscovery {
    requested: Url,
    remaining: VecDeque<CheckedUrl>,
    /// The last failed fetch, if any.
    last_error: Option<FetchError>,
}

/// The search for an authorization server's metadata.
#[derive(Debug)]
pub(super) struct AuthServerDiscovery {
    target: MetadataTarget,
    remaining: VecDeque<CheckedUrl>,
    last_error: Option<FetchError>,
}

/// An authorization server, and our client there.
#[derive(Debug)]
pub(super) struct AuthServerClient {
    pub(super) metadata: AuthServerMetadata,
    pub(super) client: OAuthClient,
}

/// The owner of the metadata: the resource or the authorization server.
#[derive(Debug)]
enum MetadataTarget {
    /// The issuer that the server names.
    Named(String),
    /// The metadata URL that the user configured.
    Configured(String),
    /// The server itself, as protocol version 2025-03-26 defines it.
    Legacy(Url),
    /// The identity provider's. The authorization server is already known.
    IdentityProvider(String, Box<AuthServerClient>),
}

impl Flow {
    /// Tries the URL of the challenge, then the well-known URLs.
    pub(super) fn discover_resource(
        &mut self,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let mut remaining = VecDeque::new();
        if let Some(named) = &self.plan.challenge.resource_metadata {
            let checked = self.origin_guard.check(named);
            let checked =
                checked.map_err(|source| FlowError::Url { what: "metadata URL", source })?;
            remaining.push_back(checked);
        }
        for candidate in resource_metadata_urls(&self.plan.server) {
            let is_new = remaining.iter().all(|it| it.url != candidate);
            if is_new && let Ok(checked) = self.origin_guard.check_url(candidate) {
                remaining.push_back(checked);
            }
        }
        self.try_next_resource_url(remaining, None, inputs)
    }

    fn try_next_resource_url(
        &mut self,
        mut remaining: VecDeque<CheckedUrl>,
        last_error: Option<FetchError>,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        match (remaining.pop_front(), last_error) {
            (Some(at), last_error) => {
                let requested = at.url.clone();
                self.state = FlowState::ResourceDiscovery(ResourceDiscovery {
                    requested,
                    remaining,
                    last_error,
                });
                Ok(Step::Fetch(Box::new(FetchRequest::get(at))))
            }
            // An unreachable server is not a server without metadata.
            (None, Some(error)) => Err(FlowError::Fetch(error)),
            (None, None) => self.discover_auth_server(inputs),
        }
    }

    pub(super) fn on_resource_metadata(
        &mut self,
        at: ResourceDiscovery,
        fetched: Result<FetchResponse, FetchError>,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let response = match fetched {
            Ok(response) => response,
            Err(error) => return self.try_next_resource_url(at.remaining, Some(error), inputs),
        };
        if is_transient(response.status) {
            return Err(FlowError::Unavailable { status: response.status });
        }
        if !response.is_success() {
            return self.try_next_resource_url(at.remaining, at.last_error, inputs);
        }
        match resource_metadata::parse_resource_metadata(
            &response.body,
            &at.requested,
            &self.plan.server,
        ) {
            Ok(metadata) => {
                self.resource = Some(metadata);
                self.discover_auth_server(inputs)
            }
            // Some servers answer every path with a page; that is not metadata.
            Err(resource_metadata::ResourceMetadataError::Malformed) => {
                self.try_next_resource_url(at.remaining, at.last_error, inputs)
            }
            Err(error) => Err(FlowError::ResourceMetadata(error)),
        }
    }

    /// Uses the configured metadata URL, else an issuer that the server names, else the server itself.
    fn discover_auth_server(&mut self, inputs: &mut TimeAndRandom<'_>) -> Result<Step, FlowError> {
        if let Some(typed) = self.plan.metadata_url.clone() {
            let checked = self.origin_guard.check_url(typed.clone());
            let checked =
                checked.map_err(|source| FlowError::Url { what: "metadata URL", source })?;
            return self.try_next_auth_server_url(
                MetadataTarget::Configured(typed.into()),
                [checked].into(),
                None,
                inputs,
            );
        }
        let named = self.resource.iter().flat_map(|it| &it.authorization_servers);
        let previous_issuer =
            self.plan.previous_client.as_ref().map(|client| client.issuer.as_str());
        let all: Vec<&String> = named.collect();
        let chosen =
            all.iter().find(|issuer| Some(issuer.as_str()) == previous_issuer).or(all.first());
        let Some(issuer) = chosen.map(|issuer| (*issuer).clone()) else {
            let base = legacy_issuer(&self.plan.server);
            let remaining = self.checked_metadata_urls(&base);
            return self.try_next_auth_server_url(
                MetadataTarget::Legacy(base),
                remaining,
                None,
                inputs,
            );
        };
        let checked = self.origin_guard.check(&issuer);
        let checked =
            checked.map_err(|source| FlowError::Url { what: "authorization server", source })?;
        let remaining = self.checked_metadata_urls(&checked.url);
        self.try_next_auth_server_url(MetadataTarget::Named(issuer), remaining, None, inputs)
    }

    fn checked_metadata_urls(&self, issuer: &Url) -> VecDeque<CheckedUrl> {
        let all = auth_server_metadata_urls(issuer).into_iter();
        all.filter_map(|url| self.origin_guard.check_url(url).ok()).collect()
    }

    fn try_next_auth_server_url(
        &mut self,
        target: MetadataTarget,
        mut remaining: VecDeque<CheckedUrl>,
        last_error: Option<FetchError>,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        match (remaining.pop_front(), last_error) {
            (Some(at), last_error) => {
                self.state = FlowState::AuthServerDiscovery(AuthServerDiscovery {
                    target,
                    remaining,
                    last_error,
                });
                Ok(Step::Fetch(Box::new(FetchRequest::get(at))))
            }
            (None, Some(error)) => Err(FlowError::Fetch(error)),
            (None, None) => match target {
                MetadataTarget::Legacy(base) => {
                    self.choose_client(AuthServerMetadata::legacy_fallback(&base), inputs)
                }
                MetadataTarget::Named(issuer)
                | MetadataTarget::Configured(issuer)
                | MetadataTarget::IdentityProvider(issuer, _) => {
                    Err(FlowError::NoAuthServerMetadata(sanitize_for_display(&issuer)))
                }
            },
        }
    }

    pub(super) fn on_auth_server_metadata(
        &mut self,
        at: AuthServerDiscovery,
        fetched: Result<FetchResponse, FetchError>,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let response = match fetched {
            Ok(response) => response,
            Err(error) => {
                return self.try_next_auth_server_url(at.target, at.remaining, Some(error), inputs);
            }
        };
        if is_transient(response.status) {
            return Err(FlowError::Unavailable { status: response.status });
        }
        let expected = match &at.target {
            MetadataTarget::Named(issuer) | MetadataTarget::IdentityProvider(issuer, _) => {
                ExpectedIssuer::Exactly(issuer)
            }
            MetadataTarget::Configured(_) | MetadataTarget::Legacy(_) => ExpectedIssuer::Any,
        };
        let read = match response.is_success() {
            true => auth_server_metadata::parse_auth_server_metadata(
                &response.body,
                expected,
                &self.origin_guard,
            ),
            false => Err(auth_server_metadata::AuthServerMetadataError::Malformed),
        };
        match (read, at.target) {
            (Ok(metadata), MetadataTarget::IdentityProvider(_, auth_server)) => {
                self.exchange_id_token(*auth_server, &metadata, inputs)
            }
            (
                Ok(metadata),
                MetadataTarget::Named(_)
                | MetadataTarget::Configured(_)
                | MetadataTarget::Legacy(_),
            ) => self.choose_client(metadata, inputs),
            (Err(auth_server_metadata::AuthServerMetadataError::Malformed), target) => {
                self.try_next_auth_server_url(target, at.remaining, at.last_error, inputs)
            }
            (Err(error), _) => Err(FlowError::AuthServerMetadata(error)),
        }
    }

    /// Discovers the token endpoint of the identity provider, unless it is configured.
    pub(super) fn discover_identity_provider(
        &mut self,
        auth_server: AuthServerClient,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let LoginGrant::IdentityProvider(provider) = &self.plan.method else {
            return Err(FlowError::UnexpectedEvent);
        };
        let issuer = provider.issuer.clone();
        if let Some(endpoint) = &provider.token_endpoint {
            let mut metadata = AuthServerMetadata::legacy_fallback(&issuer);
            metadata.token_endpoint = endpoint.to_string();
            return self.exchange_id_token(auth_server, &metadata, inputs);
        }
        let remaining = self.checked_metadata_urls(&issuer);
        let name = issuer.as_str().trim_end_matches('/').to_owned();
        self.try_next_auth_server_url(
            MetadataTarget::IdentityProvider(name, Box::new(auth_server)),
            remaining,
            None,
            inputs,
        )
    }
}

/// Whether a status means an outage rather than a missing document.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}
