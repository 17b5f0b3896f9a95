//! CORS headers for browsers. Only allowed origins get them. The gateway uses no cookies, so that credentials are never
//! allowed.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use super::HostOriginCheck;

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// The request headers of MCP clients.
const ALLOWED_HEADERS: &str = "content-type, authorization, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, \
    last-event-id, dpop, traceparent, tracestate, baggage";
/// The prefix of headers whose names come from a tool's schema (modern era).
const PARAM_HEADER_PREFIX: &str = "mcp-param-";
/// The longest list of requested headers that is read.
const MAX_REQUESTED_HEADERS_LEN: usize = 4096;
/// The response headers that clients read.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("mcp-session-id, www-authenticate, dpop-nonce, retry-after");
/// How long a browser may cache a preflight response: two hours, the maximum of some browsers.
const MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("7200");
const VARY_ORIGIN: HeaderValue = HeaderValue::from_static("origin");
const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

impl HostOriginCheck {
    /// The headers of the response (204) to a preflight request from an allowed origin. None for all other requests.
    pub fn preflight<B>(&self, request: &Request<B>) -> Option<HeaderMap> {
        let headers = request.headers();
        let is_preflight = request.method() == Method::OPTIONS
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let origin = self.allowed_origin(headers).filter(|_| is_preflight)?;
        let mut response_headers = HeaderMap::with_capacity(8);
        response_headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        response_headers.insert(VARY, VARY_ORIGIN);
        response_headers.insert(ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
        response_headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(headers));
        response_headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS);
        if headers.get(REQUEST_PRIVATE_NETWORK).is_some_and(|value| value == "true") {
            response_headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
        Some(response_headers)
    }

    /// Adds the headers that let a page of an allowed origin read the response.
    pub fn add_cors_headers(&self, requested: &HeaderMap, response_headers: &mut HeaderMap) {
        let Some(origin) = self.allowed_origin(requested) else { return };
        response_headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        response_headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        response_headers.append(VARY, VARY_ORIGIN);
    }

    /// The origin of a request, if it is allowed.
    fn allowed_origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        self.check_origin(headers).ok()?;
        headers.get(ORIGIN)
    }
}

/// The fixed headers, and the requested parameter headers.
fn allowed_headers(headers: &HeaderMap) -> HeaderValue {
    let requested =
        headers.get(ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    let requested = requested
        .filter(|requested| requested.len() <= MAX_REQUESTED_HEADERS_LEN)
        .unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let mut all = ALLOWED_HEADERS.to_owned();
    for name in requested.split(',').map(str::trim) {
        let has_prefix = name
            .get(..PARAM_HEADER_PREFIX.len())
            .is_some_and(|it| it.eq_ignore_ascii_case(PARAM_HEADER_PREFIX));
        if has_prefix && name.bytes().all(is_name) {
            all.push_str(", ");
            all.push_str(name);
        }
    }
    HeaderValue::try_from(all).unwrap_or(const { HeaderValue::from_static(ALLOWED_HEADERS) })
}
