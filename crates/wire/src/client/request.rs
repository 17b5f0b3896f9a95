//! One request of a client: its options, the headers and `_meta` of its era, and its round trips.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::mpsc;

use super::Client;
use super::input_required::{answer_input_requests, parse_input_required};
use crate::jsonrpc::message::{Payload, RpcError};
use crate::jsonrpc::params;
use crate::peer::{Call, CallError, CallOwner, CallTimeout, Progress, RequestHandler};
use crate::protocol::headers::{
    METHOD_HEADER, NAME_HEADER, PROTOCOL_VERSION_HEADER, encode_header_value, name_param,
};
use crate::protocol::meta_key;

/// How many times a server may ask for input before it sends its result.
const MAX_ROUND_TRIPS: usize = 16;

/// A request that has not been sent yet.
#[must_use = "a request does nothing until it is sent"]
pub struct RequestBuilder {
    client: Client,
    method: Cow<'static, str>,
    params: Option<Payload>,
    timeout: CallTimeout,
    progress: Option<mpsc::Sender<Progress>>,
    param_headers: Option<HeaderMap>,
    input_handler: Option<Arc<dyn RequestHandler>>,
    owner: Option<Arc<dyn CallOwner>>,
    client_meta: Option<ClientMeta>,
}

/// Metadata of a request that is sent on behalf of another client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientMeta {
    /// The capabilities of that client, as JSON. Used in the modern era only.
    pub capabilities: Option<Arc<str>>,
    /// Additional members of `_meta`, as JSON without the braces.
    pub members: Option<String>,
}

impl fmt::Debug for RequestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestBuilder({})", self.method)
    }
}

impl RequestBuilder {
    pub(super) fn new(client: Client, method: Cow<'static, str>) -> RequestBuilder {
        RequestBuilder {
            client,
            method,
            params: None,
            timeout: CallTimeout::None,
            progress: None,
            param_headers: None,
            input_handler: None,
            owner: None,
            client_meta: None,
        }
    }

    /// Sets the parameters.
    pub fn params(mut self, params: Payload) -> RequestBuilder {
        self.params = Some(params);
        self
    }

    /// Fails the request after this time.
    pub fn timeout(mut self, timeout: Duration) -> RequestBuilder {
        self.timeout = CallTimeout::Total(timeout);
        self
    }

    /// Fails the request when no progress arrived for this time.
    pub fn progress_timeout(mut self, timeout: Duration) -> RequestBuilder {
        self.timeout = CallTimeout::Progress(timeout);
        self
    }

    /// Fails the request after this time, not counting the time in which the server waits for a response of ours.
    pub fn server_timeout(mut self, timeout: Duration) -> RequestBuilder {
        self.timeout = CallTimeout::Server(timeout);
        self
    }

    /// Sends progress notifications to a channel.
    pub fn progress_sender(mut self, sender: mpsc::Sender<Progress>) -> RequestBuilder {
        self.progress = Some(sender);
        self
    }

    /// Adds headers that repeat arguments, as [`ParamHeaders`](crate::protocol::param_headers::ParamHeaders) makes
    /// them.
    pub fn param_headers(mut self, headers: HeaderMap) -> RequestBuilder {
        self.param_headers = Some(headers);
        self
    }

    /// Answers the server's input requests. Without a handler, the `input_required` result is returned to the
    /// caller.
    pub fn input_handler(mut self, input_handler: Arc<dyn RequestHandler>) -> RequestBuilder {
        self.input_handler = Some(input_handler);
        self
    }

    /// Sets the owner of the call, which receives the server's notifications and answers its requests meanwhile.
    pub fn owner(mut self, owner: Arc<dyn CallOwner>) -> RequestBuilder {
        self.owner = Some(owner);
        self
    }

    /// Sends the request on behalf of another client.
    pub fn client_meta(mut self, client_meta: ClientMeta) -> RequestBuilder {
        self.client_meta = Some(client_meta);
        self
    }

    /// Sends the request. Dropping the future cancels it.
    pub async fn send(self) -> Result<Payload, CallError> {
        let first = self.send_round(&[]).await?;
        let (Some(input_handler), Some(mut input_required)) =
            (&self.input_handler, parse_input_required(&first))
        else {
            return Ok(first);
        };
        for _ in 0..MAX_ROUND_TRIPS {
            let responses = answer_input_requests(input_handler.as_ref(), &input_required).await;
            let mut members: Vec<(&str, &[u8])> = vec![("inputResponses", responses.as_bytes())];
            if let Some(state) = &input_required.request_state {
                members.push(("requestState", state.get().as_bytes()));
            }
            let result = self.send_round(&members).await?;
            match parse_input_required(&result) {
                Some(again) => input_required = again,
                None => return Ok(result),
            }
        }
        let message = format!(
            "the server asked for input {MAX_ROUND_TRIPS} times and never returned a result"
        );
        Err(CallError::Remote(RpcError { code: -32603, message, data: None }))
    }

    /// Sends one round trip as a call of its own.
    async fn send_round(&self, members: &[(&str, &[u8])]) -> Result<Payload, CallError> {
        let call = self.client.peer.call(self.method.clone());
        let has_progress =
            self.progress.is_some() || matches!(self.timeout, CallTimeout::Progress(_));
        let meta = self.meta_json(has_progress.then(|| call.number()));
        let mut all: Vec<(&str, &[u8])> = Vec::with_capacity(members.len() + 1);
        if let Some(meta) = &meta {
            all.push(("_meta", meta.as_bytes()));
        }
        all.extend_from_slice(members);
        let mut call = self.with_headers(call);
        if let Some(params) = params::with_members(self.params.as_ref(), &all) {
            call = call.params(params);
        }
        call = call.timeout_policy(self.timeout);
        if let Some(sender) = &self.progress {
            call = call.progress_sender(sender.clone());
        }
        if let Some(owner) = &self.owner {
            call = call.owner(owner.clone());
        }
        call.await
    }

    fn meta_json(&self, progress_token: Option<u64>) -> Option<String> {
        let modern_meta = self.client.negotiation.meta.as_ref();
        let client_meta = self.client_meta.as_ref();
        let own = client_meta.and_then(|it| it.capabilities.as_deref());
        let modern_meta = modern_meta
            .map(|modern_meta| (&modern_meta.members, own.unwrap_or(&modern_meta.capabilities)));
        let more = client_meta.and_then(|it| it.members.as_deref());
        if modern_meta.is_none() && more.is_none() && progress_token.is_none() {
            return None;
        }
        let mut text =
            String::with_capacity(modern_meta.map_or(64, |it| it.0.len() + it.1.len() + 128));
        text.push('{');
        if let Some(token) = progress_token {
            text.push_str("\"progressToken\":");
            text.push_str(&token.to_string());
        }
        let mut append = |members: &[&str]| {
            if text.len() > 1 {
                text.push(',');
            }
            members.iter().for_each(|it| text.push_str(it));
        };
        if let Some((members, capabilities)) = modern_meta {
            append(&[members, ",\"", meta_key::CAPABILITIES, "\":", capabilities]);
        }
        if let Some(more) = more {
            append(&[more]);
        }
        text.push('}');
        Some(text)
    }

    /// Adds the headers that describe a modern request, if the transport has headers.
    fn with_headers(&self, call: Call) -> Call {
        let Some(modern_meta) = &self.client.negotiation.meta else { return call };
        if !self.client.peer.carries_headers() {
            return call;
        }
        let mut headers = self.param_headers.clone().unwrap_or_default();
        headers.insert(PROTOCOL_VERSION_HEADER, modern_meta.version.clone());
        headers.insert(METHOD_HEADER, encode_header_value(&self.method));
        if let (Some(member), Some(params)) = (name_param(&self.method), &self.params)
            && let Some(name) = params::string_member(params, member)
        {
            headers.insert(NAME_HEADER, encode_header_value(&name));
        }
        call.headers(headers)
    }
}
