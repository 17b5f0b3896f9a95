//! Responds to the requests of browsers: who they come from, which screen or action they are for, and the headers that
//! every response has. The gateway's host and origin check comes first; the checks here are stricter.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

use super::access::{DashboardSession, SESSION_TTL, is_same_token};
use super::actions::{self, ActionOutcome};
use super::assets;
use super::clients::ClientDirectory;
use super::context::{Dashboard, LOGIN_PATH, ROOT, ScreenContext};
use super::events;
use super::form::Form;
use super::page::{self, Frame, Notice, NoticeKind, RenderScope, View};
use super::screens::Screen;
use crate::relay::VERSION;

/// The most cookies with the name of ours that are looked at.
const MAX_COOKIES: usize = 4;
const FORM: &str = "application/x-www-form-urlencoded";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The headers of every response. A referrer policy of `no-referrer` would make browsers send `Origin: null` with forms.
const HEADERS: [(&str, &str); 8] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("cache-control", "no-store"),
];

/// A request, with its whole body.
#[derive(Debug)]
pub(crate) struct DashboardRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    /// The host and port that the browser asked for: of the `Host` header, or of the target from HTTP/2 on.
    pub(crate) host: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The body of a response.
pub(crate) enum DashboardBody {
    Full(Bytes),
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

type DashboardResponse = Response<DashboardBody>;

impl Dashboard {
    /// Whether a path is the dashboard's.
    pub(crate) fn owns(path: &str) -> bool {
        path == "/ui" || path.starts_with(ROOT)
    }

    /// Whether the request has the cookie of an open session.
    pub(crate) async fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        self.session(headers).await.is_some()
    }

    /// Responds to a request.
    pub(crate) async fn respond(
        &self,
        request: DashboardRequest,
        clients: Arc<dyn ClientDirectory>,
    ) -> DashboardResponse {
        let mut response = self.route(&request, clients).await;
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn route(
        &self,
        request: &DashboardRequest,
        clients: Arc<dyn ClientDirectory>,
    ) -> DashboardResponse {
        if let Err(why) = check_origin(request) {
            return html(StatusCode::FORBIDDEN, page::error_page("Refused", why));
        }
        let path = request.path.as_str();
        match (&request.method, path) {
            (&Method::GET, "/ui") => redirect(ROOT),
            (&Method::GET, LOGIN_PATH) => {
                let query = Form::parse(request.query.as_bytes()).unwrap_or_default();
                let link = Some(query.text("link")).filter(|it| !it.is_empty());
                html(StatusCode::OK, page::login_page(link, None))
            }
            (&Method::GET, _) if assets::find(path).is_some() => asset(path),
            (&Method::POST, LOGIN_PATH) => self.log_in(request).await,
            (&Method::GET, _) => match self.session(&request.headers).await {
                Some(session) => self.get(request, session, clients).await,
                None => html(StatusCode::UNAUTHORIZED, page::login_page(None, None)),
            },
            (&Method::POST, _) => match self.session(&request.headers).await {
                Some(session) => self.post(request, session, &*clients).await,
                None => html(StatusCode::UNAUTHORIZED, page::login_page(None, None)),
            },
            (_, _) => {
                let text = "The dashboard answers GET and POST.";
                let mut response =
                    html(StatusCode::METHOD_NOT_ALLOWED, page::error_page("Not allowed", text));
                let allowed = HeaderValue::from_static("GET, POST");
                response.headers_mut().insert(header::ALLOW, allowed);
                response
            }
        }
    }

    /// The session of a request's cookie, with the cookie's value. Another page of this machine may have set a cookie of
    /// the same name, so that there may be several.
    async fn session(&self, headers: &HeaderMap) -> Option<(String, DashboardSession)> {
        let name = self.0.cookie_name();
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
        let pairs =
            lines.flat_map(|line| line.split(';')).filter_map(|it| it.trim().split_once('='));
        let ours = pairs.filter(|(cookie, _)| *cookie == name).map(|(_, value)| value);
        for secret in ours.take(MAX_COOKIES) {
            if let Some(session) = self.0.access.check(secret).await {
                return Some((secret.to_owned(), session));
            }
        }
        None
    }

    async fn log_in(&self, request: &DashboardRequest) -> DashboardResponse {
        let Some(form) = form_of(request) else { return bad_form() };
        let Some(secret) = self.0.access.redeem(form.text("link")).await else {
            let problem = "This login link was used or has expired.";
            return html(StatusCode::FORBIDDEN, page::login_page(None, Some(problem)));
        };
        let mut response = redirect(ROOT);
        self.set_cookie(&mut response, &secret, SESSION_TTL.as_secs());
        response
    }

    fn set_cookie(&self, response: &mut DashboardResponse, value: &str, seconds: u64) {
        let secure = if self.0.is_secure() { "; Secure" } else { "" };
        let name = self.0.cookie_name();
        let cookie = format!(
            "{name}={value}; Path={ROOT}; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
        );
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
    }

    async fn get(
        &self,
        request: &DashboardRequest,
        (secret, session): (String, DashboardSession),
        clients: Arc<dyn ClientDirectory>,
    ) -> DashboardResponse {
        let Some(query) = Form::parse(request.query.as_bytes()) else { return bad_form() };
        if request.path == events::PATH {
            return self.events(&query, (secret, session), clients);
        }
        let Some(screen) = Screen::parse(&request.path, &query) else { return not_found() };
        let notice = actions::notice(&query);
        let location = Some(match request.query.as_str() {
            "" => request.path.clone(),
            query => format!("{}?{query}", request.path),
        });
        self.show(&screen, (&session, &*clients), (StatusCode::OK, notice, location)).await
    }

    fn events(
        &self,
        query: &Form,
        (secret, session): (String, DashboardSession),
        clients: Arc<dyn ClientDirectory>,
    ) -> DashboardResponse {
        let (path, page_query) =
            query.text("page").split_once('?').unwrap_or((query.text("page"), ""));
        let page_query = Form::parse(page_query.as_bytes()).unwrap_or_default();
        let Some(screen) = Screen::parse(path, &page_query) else { return not_found() };
        match events::stream(self.clone(), screen, (secret, session), clients) {
            Some(stream) => {
                let mut response = Response::new(DashboardBody::Events(stream));
                let kind = HeaderValue::from_static("text/event-stream");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                let unbuffered = HeaderValue::from_static("no");
                response.headers_mut().insert("x-accel-buffering", unbuffered);
                response
            }
            None => {
                let text = "Too many pages are open.";
                html(StatusCode::SERVICE_UNAVAILABLE, page::error_page("Busy", text))
            }
        }
    }

    async fn post(
        &self,
        request: &DashboardRequest,
        (secret, session): (String, DashboardSession),
        clients: &dyn ClientDirectory,
    ) -> DashboardResponse {
        let Some(form) = form_of(request) else { return bad_form() };
        if !is_same_token(form.text("page-token"), &session.page_token) {
            let text = "The page is too old, or the request did not come from it. Reload the page and try again.";
            return html(StatusCode::FORBIDDEN, page::error_page("Refused", text));
        }
        if request.path == "/ui/logout" {
            self.0.access.end(&secret).await;
            let mut response = redirect(LOGIN_PATH);
            self.set_cookie(&mut response, "", 0);
            return response;
        }
        match actions::perform(&request.path, &form, &self.0, clients).await {
            Some(ActionOutcome::Redirect(to)) => redirect(&to),
            Some(ActionOutcome::Failed(why)) => {
                html(StatusCode::CONFLICT, page::error_page("This did not work", &why))
            }
            Some(ActionOutcome::Show(screen, why)) => {
                let notice = Notice { kind: NoticeKind::Problem, text: why };
                let shown = (StatusCode::UNPROCESSABLE_ENTITY, Some(notice), None);
                self.show(&screen, (&session, clients), shown).await
            }
            None => not_found(),
        }
    }

    async fn show(
        &self,
        screen: &Screen,
        (session, clients): (&DashboardSession, &dyn ClientDirectory),
        (status, notice, location): (StatusCode, Option<Notice>, Option<String>),
    ) -> DashboardResponse {
        let page_token = &*session.page_token;
        let context = ScreenContext { parts: &self.0, clients, page_token };
        let view: View = screen.render(context, RenderScope::Page).await;
        let status = if view.is_missing { StatusCode::NOT_FOUND } else { status };
        let frame = Frame {
            page_token,
            waiting_approvals: self.0.approvals.pending().len(),
            notice,
            location: location.as_deref(),
            version: VERSION,
        };
        html(status, page::page(view, &frame))
    }
}

/// Refuses requests of other pages, also of those on this machine at another port, which the gateway's own check allows.
fn check_origin(request: &DashboardRequest) -> Result<(), &'static str> {
    const OTHER_PAGE: &str = "The request came from another page.";
    let text = |name| request.headers.get(name).and_then(|it: &HeaderValue| it.to_str().ok());
    let is_own = |origin: &str| {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|it| !it.is_empty() && it.eq_ignore_ascii_case(&request.host))
    };
    match (request.headers.contains_key(header::ORIGIN), text(header::ORIGIN)) {
        (false, _) if request.method == Method::GET => {}
        (false, _) => return Err("The request does not say which page it came from."),
        (true, Some(origin)) if is_own(origin) => {}
        (true, Some(_) | None) => return Err(OTHER_PAGE),
    }
    let name = |name: &'static str| text(header::HeaderName::from_static(name));
    match name("sec-fetch-site") {
        None | Some("same-origin" | "none") => Ok(()),
        // A link elsewhere may lead here. It opens a page and changes nothing.
        Some(_)
            if request.method == Method::GET
                && name("sec-fetch-mode") == Some("navigate")
                && name("sec-fetch-dest") == Some("document") =>
        {
            Ok(())
        }
        Some(_) => Err(OTHER_PAGE),
    }
}

/// The form of a request. None if the body is something else.
fn form_of(request: &DashboardRequest) -> Option<Form> {
    let kind = request.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case(FORM).then(|| Form::parse(&request.body))?
}

fn bad_form() -> DashboardResponse {
    let text = "The form could not be read.";
    html(StatusCode::BAD_REQUEST, page::error_page("Refused", text))
}

fn not_found() -> DashboardResponse {
    let text = "There is no such page.";
    html(StatusCode::NOT_FOUND, page::error_page("Not found", text))
}

fn asset(path: &str) -> DashboardResponse {
    let (text, kind) = assets::find(path).unwrap_or_default();
    let mut response = Response::new(DashboardBody::Full(Bytes::from_static(text.as_bytes())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn html(status: StatusCode, text: String) -> DashboardResponse {
    let mut response = Response::new(DashboardBody::Full(text.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Sends the browser to another page of the dashboard.
fn redirect(to: &str) -> DashboardResponse {
    let mut response = Response::new(DashboardBody::Full(Bytes::new()));
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: Method, headers: &[(&'static str, &'static str)], expected: Result<(), ()>) {
        let named = headers.iter().map(|(name, value)| {
            (header::HeaderName::from_static(name), HeaderValue::from_static(value))
        });
        let request = DashboardRequest {
            method,
            path: ROOT.to_owned(),
            query: String::new(),
            host: "127.0.0.1:8808".to_owned(),
            headers: named.collect(),
            body: Bytes::new(),
        };
        assert_eq!(check_origin(&request).map_err(drop), expected, "{headers:?}");
    }

    #[test]
    fn only_the_dashboards_own_pages_and_the_user_may_ask() {
        let own = ("origin", "http://127.0.0.1:8808");
        check(Method::GET, &[], Ok(()));
        check(Method::POST, &[], Err(()));
        check(Method::POST, &[own], Ok(()));
        check(Method::POST, &[own, ("sec-fetch-site", "same-origin")], Ok(()));
        check(Method::POST, &[own, ("sec-fetch-site", "same-site")], Err(()));
        for other in [
            "http://127.0.0.1:9999",
            "http://localhost:8808",
            "null",
            "http://",
            "file://127.0.0.1:8808",
        ] {
            check(Method::POST, &[("origin", other)], Err(()));
            check(Method::GET, &[("origin", other)], Err(()));
        }
        let link = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        check(Method::GET, &link, Ok(()));
        check(Method::POST, &[&[own], &link[..]].concat(), Err(()));
        check(Method::GET, &[link[0], ("sec-fetch-mode", "no-cors")], Err(()));
        check(Method::GET, &[link[0], link[1], ("sec-fetch-dest", "iframe")], Err(()));
    }
}
