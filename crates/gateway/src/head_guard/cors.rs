//! What a browser is told about pages of other origins that may talk to us. Only origins that were let in are named;
//! there are no cookies here, so none are spoken of.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use super::HeadGuard;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// What clients send that a browser asks about.
const SENT: &str = "content-type, authorization, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, \
    last-event-id, dpop, traceparent, tracestate, baggage";
/// What clients of the modern era send with a name that a tool's schema chose.
const PARAMETER: &str = "mcp-param-";
/// How much of such names is repeated.
const LONGEST_ASKED: usize = 4096;
/// What clients read of our answers.
const SHOWN: HeaderValue =
    HeaderValue::from_static("mcp-session-id, www-authenticate, dpop-nonce, retry-after");
/// For how long a browser need not ask again: two hours, the most that some take.
const GOOD_FOR: HeaderValue = HeaderValue::from_static("7200");
const BY_ORIGIN: HeaderValue = HeaderValue::from_static("origin");
const ASKS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

impl HeadGuard {
    /// The headers of the empty answer (204) to a browser that asks beforehand, for an origin that may come in.
    /// `None` where the request is no such question, or its origin may not.
    pub fn preflight<B>(&self, request: &Request<B>) -> Option<HeaderMap> {
        let headers = request.headers();
        let is_asking = request.method() == Method::OPTIONS
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let origin = self.origin_in(headers).filter(|_| is_asking)?;
        let mut answer = HeaderMap::with_capacity(8);
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.insert(VARY, BY_ORIGIN);
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, sent(headers));
        answer.insert(ACCESS_CONTROL_MAX_AGE, GOOD_FOR);
        if headers.get(ASKS_PRIVATE).is_some_and(|value| value == "true") {
            answer.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
        }
        Some(answer)
    }

    /// Lets the page that asked read the answer. Does nothing where no page asked.
    pub fn share(&self, asked: &HeaderMap, answer: &mut HeaderMap) {
        let Some(origin) = self.origin_in(asked) else { return };
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, SHOWN);
        answer.append(VARY, BY_ORIGIN);
    }

    /// The origin of a request, where it is one that may come in.
    fn origin_in<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        self.check_origin(headers).ok()?;
        headers.get(ORIGIN)
    }
}

/// What may be sent: always the same, and the parameters that are asked for.
fn sent(headers: &HeaderMap) -> HeaderValue {
    let asked = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    let asked = asked.filter(|asked| asked.len() <= LONGEST_ASKED).unwrap_or_default();
    let is_name = |sign: u8| sign.is_ascii_alphanumeric() || sign == b'-' || sign == b'_';
    let mut all = SENT.to_owned();
    for name in asked.split(',').map(str::trim) {
        let starts =
            name.get(..PARAMETER.len()).is_some_and(|it| it.eq_ignore_ascii_case(PARAMETER));
        if starts && name.bytes().all(is_name) {
            all.push_str(", ");
            all.push_str(name);
        }
    }
    HeaderValue::try_from(all).unwrap_or(const { HeaderValue::from_static(SENT) })
}
