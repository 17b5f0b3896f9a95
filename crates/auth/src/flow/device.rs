//! Login on another device (RFC 8628): requests a user code and polls until the user has finished.

use std::time::Duration;

use serde::Deserialize;
use switchboard_wire::backoff::Backoff;
use url::Url;

use super::authorization::{FetchResult, LoginContext};
use super::{DeviceAuthorization, Event, Flow, FlowError, FlowState, Step};
use crate::fetch::{FetchRequest, FetchResponse};
use crate::registration::OAuthClient;
use crate::scopes::Scopes;
use crate::secret::Secret;
use crate::time_and_random::TimeAndRandom;
use crate::token::grant::Grant;
use crate::token::request::{TokenOutcome, TokenRequest};
use crate::token::response;
use crate::token::response::{TokenErrorCode, TokenResponse};
use crate::untrusted_text::sanitize_for_display;

/// Limits for polling, in polls and seconds.
const MAX_POLLS: u32 = 400;
const DEFAULT_INTERVAL: u64 = 5;
const MAX_INTERVAL: u64 = 60;
const MAX_LIFETIME: u64 = 30 * 60;

#[derive(Debug)]
pub(super) struct DeviceFlow {
    context: LoginContext,
    client: OAuthClient,
    state: DeviceState,
}

#[derive(Debug)]
enum DeviceState {
    /// Requesting a code.
    RequestingCode,
    /// Waiting until the next poll.
    Waiting(DeviceCode),
    /// Polling the token endpoint.
    Polling(DeviceCode, Box<TokenRequest>),
}

#[derive(Debug)]
struct DeviceCode {
    code: Secret,
    interval: u64,
    expires_at: u64,
    polls: u32,
}

/// The response of the device authorization endpoint.
#[derive(Deserialize)]
struct RawDeviceAuthorization {
    device_code: String,
    user_code: String,
    #[serde(alias = "verification_url")]
    verification_uri: String,
    #[serde(alias = "verification_url_complete")]
    verification_uri_complete: Option<String>,
    expires_in: Option<u64>,
    interval: Option<u64>,
}

impl Flow {
    pub(super) fn request_device_code(
        &mut self,
        context: LoginContext,
        client: OAuthClient,
    ) -> Result<Step, FlowError> {
        if context.metadata.device_authorization_endpoint.is_none() {
            return Err(FlowError::DeviceFlowUnsupported);
        }
        let endpoint = context
            .metadata
            .device_authorization_endpoint(&self.origin_guard)
            .map_err(FlowError::AuthServerMetadata)?;
        let scopes = context.scopes.as_ref().map(Scopes::to_string);
        let resource = self.resource_identifier();
        let mut fields = vec![("client_id", client.id.as_str())];
        fields.extend(scopes.as_deref().map(|it| ("scope", it)));
        fields.extend(resource.as_deref().map(|it| ("resource", it)));
        let request = FetchRequest::post_form(endpoint, &fields);
        let device = DeviceFlow { context, client, state: DeviceState::RequestingCode };
        self.state = FlowState::Device(Box::new(device));
        Ok(Step::Fetch(Box::new(request)))
    }

    pub(super) fn on_device_event(
        &mut self,
        at: DeviceFlow,
        event: Event,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let DeviceFlow { context, client, state } = at;
        match (state, event) {
            (DeviceState::RequestingCode, Event::Fetched(fetched)) => {
                let response = fetched.map_err(FlowError::Fetch)?;
                let (authorization, code) =
                    self.parse_device_authorization(&response, inputs.now)?;
                let state = DeviceState::Waiting(code);
                self.state = FlowState::Device(Box::new(DeviceFlow { context, client, state }));
                Ok(Step::ShowDeviceCode(authorization))
            }
            (DeviceState::Waiting(mut code), Event::Waited) => {
                code.polls += 1;
                if inputs.now >= code.expires_at || code.polls > MAX_POLLS {
                    return Err(FlowError::TimedOut);
                }
                let grant = Grant::DeviceCode(code.code.clone());
                let request = self.token_request(&context, client.clone(), grant)?;
                let first = request.to_fetch_request(inputs);
                let state = DeviceState::Polling(code, Box::new(request));
                self.state = FlowState::Device(Box::new(DeviceFlow { context, client, state }));
                Ok(Step::Fetch(Box::new(first)))
            }
            (DeviceState::Polling(code, mut request), Event::Fetched(fetched)) => {
                let state = match self.on_poll_response(code, &mut request, fetched, inputs)? {
                    PollOutcome::Tokens(tokens) => return self.finish(context, client, *tokens),
                    PollOutcome::Retry(code, again) => {
                        let state = DeviceState::Polling(code, request);
                        self.state =
                            FlowState::Device(Box::new(DeviceFlow { context, client, state }));
                        return Ok(Step::Fetch(again));
                    }
                    PollOutcome::Pending(code) => code,
                };
                let wait = state.interval;
                let state = DeviceState::Waiting(state);
                self.state = FlowState::Device(Box::new(DeviceFlow { context, client, state }));
                Ok(Step::Wait(wait))
            }
            (
                DeviceState::RequestingCode | DeviceState::Waiting(_) | DeviceState::Polling(..),
                _,
            ) => Err(FlowError::UnexpectedEvent),
        }
    }

    fn parse_device_authorization(
        &self,
        response: &FetchResponse,
        now: u64,
    ) -> Result<(DeviceAuthorization, DeviceCode), FlowError> {
        let malformed = || match response::parse_token_response(response) {
            Err(error) => FlowError::Token(error),
            Ok(_) => FlowError::DeviceFlowUnsupported,
        };
        let raw = match response.is_success() {
            true => serde_json::from_slice::<RawDeviceAuthorization>(&response.body)
                .map_err(|_| malformed())?,
            false => return Err(malformed()),
        };
        let check = |text: &str| self.origin_guard.check(text).map(|checked| checked.url);
        let url = check(&raw.verification_uri)
            .map_err(|source| FlowError::Url { what: "verification URL", source })?;
        let complete: Option<Url> =
            raw.verification_uri_complete.as_deref().and_then(|text| check(text).ok());
        let interval = raw.interval.unwrap_or(DEFAULT_INTERVAL).clamp(1, MAX_INTERVAL);
        let expires_in = raw.expires_in.unwrap_or(MAX_LIFETIME).min(MAX_LIFETIME);
        let expires_at = now.saturating_add(expires_in);
        let code =
            DeviceCode { code: Secret::new(raw.device_code), interval, expires_at, polls: 0 };
        let authorization = DeviceAuthorization {
            verification_uri: url,
            verification_uri_complete: complete,
            user_code: sanitize_for_display(&raw.user_code),
            expires_in,
            interval,
        };
        Ok((authorization, code))
    }

    fn on_poll_response(
        &self,
        mut code: DeviceCode,
        request: &mut TokenRequest,
        fetched: FetchResult,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<PollOutcome, FlowError> {
        let response = match fetched {
            Ok(response) => response,
            // RFC 8628, section 3.5: slow down after a timeout instead of giving up.
            Err(_) => {
                code.interval = doubled_interval(code.interval);
                return Ok(PollOutcome::Pending(code));
            }
        };
        match request.on(&response, inputs) {
            TokenOutcome::Retry(again) => Ok(PollOutcome::Retry(code, Box::new(again))),
            TokenOutcome::Tokens(tokens) => Ok(PollOutcome::Tokens(tokens)),
            TokenOutcome::Refused(error) => match error.code() {
                Some(
                    TokenErrorCode::AuthorizationPending | TokenErrorCode::TemporarilyUnavailable,
                ) => Ok(PollOutcome::Pending(code)),
                Some(TokenErrorCode::SlowDown) => {
                    code.interval = (code.interval + DEFAULT_INTERVAL).min(MAX_INTERVAL);
                    Ok(PollOutcome::Pending(code))
                }
                Some(TokenErrorCode::ExpiredToken) => Err(FlowError::TimedOut),
                Some(_) | None => Err(FlowError::Token(error)),
            },
        }
    }
}

enum PollOutcome {
    Tokens(Box<TokenResponse>),
    Retry(DeviceCode, Box<FetchRequest>),
    Pending(DeviceCode),
}

/// The poll interval after a failed request, in seconds.
fn doubled_interval(interval: u64) -> u64 {
    let backoff = Backoff::new(Duration::from_secs(interval), Duration::from_secs(MAX_INTERVAL));
    backoff.delay(1).as_secs()
}
