//! Signing in on another device (RFC 8628): a code to show, and looking whether the person is done.

use serde::Deserialize;
use url::Url;

use super::asking::{Fetched, Ground};
use super::{Event, Flow, Instructions, State, Step, Why};
use crate::confidential::Secret;
use crate::discovery::resource_metadata::short;
use crate::fetch::{Answer, Request};
use crate::grant::Grant;
use crate::pkce::Moment;
use crate::registration::Client;
use crate::scopes::Scopes;
use crate::token::{self, Complaint, Tokens};
use crate::token_request::{Reply, TokenRequest};

/// How often a device looks whether the person is done, and how long it waits in between.
const LOOKS: u32 = 400;
const INTERVAL: u64 = 5;
const LONGEST_INTERVAL: u64 = 60;
const LONGEST_LOGIN: u64 = 30 * 60;

#[derive(Debug)]
pub(super) struct Device {
    ground: Ground,
    client: Client,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    /// A code is being fetched.
    Beginning,
    /// It is time to wait.
    Waiting(Code),
    /// It is time to look.
    Looking(Code, Box<TokenRequest>),
}

#[derive(Debug)]
struct Code {
    code: Secret,
    interval: u64,
    until: u64,
    looks: u32,
}

/// What a device endpoint answers.
#[derive(Deserialize)]
struct RawDevice {
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
    pub(super) fn begin_device(&mut self, ground: Ground, client: Client) -> Result<Step, Why> {
        if ground.metadata.device_authorization_endpoint.is_none() {
            return Err(Why::NoDevices);
        }
        let endpoint = ground.metadata.device_endpoint(&self.guard).map_err(Why::Server)?;
        let scopes = ground.scopes.as_ref().map(Scopes::to_string);
        let resource = self.resource_name();
        let mut fields = vec![("client_id", client.id.as_str())];
        fields.extend(scopes.as_deref().map(|it| ("scope", it)));
        fields.extend(resource.as_deref().map(|it| ("resource", it)));
        let request = Request::post_form(endpoint, &fields);
        let device = Device { ground, client, progress: Progress::Beginning };
        self.state = State::Device(Box::new(device));
        Ok(Step::Fetch(Box::new(request)))
    }

    pub(super) fn on_device(
        &mut self,
        at: Device,
        event: Event,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        let Device { ground, client, progress } = at;
        match (progress, event) {
            (Progress::Beginning, Event::Fetched(fetched)) => {
                let answer = fetched.map_err(Why::Fetch)?;
                let (instructions, code) = self.read_device(&answer, moment.now)?;
                let progress = Progress::Waiting(code);
                self.state = State::Device(Box::new(Device { ground, client, progress }));
                Ok(Step::Show(instructions))
            }
            (Progress::Waiting(mut code), Event::Waited) => {
                code.looks += 1;
                if moment.now >= code.until || code.looks > LOOKS {
                    return Err(Why::Late);
                }
                let grant = Grant::Device(code.code.clone());
                let request = self.token_request(&ground, client.clone(), grant)?;
                let first = request.request(moment);
                let progress = Progress::Looking(code, Box::new(request));
                self.state = State::Device(Box::new(Device { ground, client, progress }));
                Ok(Step::Fetch(Box::new(first)))
            }
            (Progress::Looking(code, mut request), Event::Fetched(fetched)) => {
                let progress = match self.look(code, &mut request, fetched, moment)? {
                    Looked::Tokens(tokens) => return self.finish(ground, client, *tokens),
                    Looked::Again(code, again) => {
                        let progress = Progress::Looking(code, request);
                        self.state = State::Device(Box::new(Device { ground, client, progress }));
                        return Ok(Step::Fetch(again));
                    }
                    Looked::NotYet(code) => code,
                };
                let wait = progress.interval;
                let progress = Progress::Waiting(progress);
                self.state = State::Device(Box::new(Device { ground, client, progress }));
                Ok(Step::Wait(wait))
            }
            (Progress::Beginning | Progress::Waiting(_) | Progress::Looking(..), _) => {
                Err(Why::OutOfStep)
            }
        }
    }

    fn read_device(&self, answer: &Answer, now: u64) -> Result<(Instructions, Code), Why> {
        let malformed = || match token::read(answer) {
            Err(error) => Why::Token(error),
            Ok(_) => Why::NoDevices,
        };
        let raw = match answer.is_success() {
            true => serde_json::from_slice::<RawDevice>(&answer.body).map_err(|_| malformed())?,
            false => return Err(malformed()),
        };
        let check = |text: &str| self.guard.check(text).map(|checked| checked.url);
        let url = check(&raw.verification_uri)
            .map_err(|why| Why::Url { what: "address to sign in at", why })?;
        let complete: Option<Url> =
            raw.verification_uri_complete.as_deref().and_then(|text| check(text).ok());
        let interval = raw.interval.unwrap_or(INTERVAL).clamp(1, LONGEST_INTERVAL);
        let expires_in = raw.expires_in.unwrap_or(LONGEST_LOGIN).min(LONGEST_LOGIN);
        let until = now.saturating_add(expires_in);
        let code = Code { code: Secret::new(raw.device_code), interval, until, looks: 0 };
        let instructions = Instructions {
            url,
            complete_url: complete,
            code: short(&raw.user_code),
            expires_in,
            interval,
        };
        Ok((instructions, code))
    }

    fn look(
        &self,
        mut code: Code,
        request: &mut TokenRequest,
        fetched: Fetched,
        moment: &mut Moment<'_>,
    ) -> Result<Looked, Why> {
        let answer = match fetched {
            Ok(answer) => answer,
            // RFC 8628, section 3.5: a timeout is a reason to slow down, not to give up.
            Err(_) => {
                code.interval = (code.interval * 2).min(LONGEST_INTERVAL);
                return Ok(Looked::NotYet(code));
            }
        };
        match request.on(&answer, moment) {
            Reply::Again(again) => Ok(Looked::Again(code, Box::new(again))),
            Reply::Tokens(tokens) => Ok(Looked::Tokens(tokens)),
            Reply::Refused(error) => match error.complaint() {
                Some(Complaint::AuthorizationPending | Complaint::Temporary) => {
                    Ok(Looked::NotYet(code))
                }
                Some(Complaint::SlowDown) => {
                    code.interval = (code.interval + INTERVAL).min(LONGEST_INTERVAL);
                    Ok(Looked::NotYet(code))
                }
                Some(Complaint::ExpiredCode) => Err(Why::Late),
                Some(_) | None => Err(Why::Token(error)),
            },
        }
    }
}

enum Looked {
    Tokens(Box<Tokens>),
    Again(Code, Box<Request>),
    NotYet(Code),
}
