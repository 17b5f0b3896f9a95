//! The dashboard over HTTP: reads a request's body, and tells the dashboard which clients there are.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http::uri::Authority;
use http::{Method, Request, Response, header};
use hyper::body::Incoming;

use crate::dashboard::{
    ClientDirectory, Dashboard, DashboardBody, DashboardRequest, PrincipalRow, SessionEnd,
    SessionRow,
};
use crate::http::body::Body;
use crate::http::limits::accounts::{AccountUse, Accounts};
use crate::http::negotiation::read_body;
use crate::http::server_state::HttpState;
use crate::http::session::Session;
use crate::http::session_table::SessionTable;
use crate::http::shutdown::wait_until_true;

/// The largest form.
const MAX_FORM_BYTES: usize = 256 * 1024;

/// Responds to a request for a path of the dashboard. The host and origin check comes first.
pub(crate) async fn respond(
    state: &HttpState,
    dashboard: &Dashboard,
    request: Request<Incoming>,
) -> Response<Body> {
    let (head, incoming) = request.into_parts();
    let body = match head.method {
        Method::POST => match read_body(incoming, MAX_FORM_BYTES).await {
            Ok(bytes) => bytes,
            Err(response) => return *response,
        },
        _ => Bytes::new(),
    };
    let named = head.headers.get(header::HOST).and_then(|it| it.to_str().ok());
    let target = head.uri.authority().map(Authority::as_str);
    let request = DashboardRequest {
        host: named.or(target).unwrap_or_default().to_owned(),
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    let clients =
        HttpClients { sessions: state.sessions.clone(), accounts: state.accounts.clone() };
    let mut shutdown = state.shutdown.clone();
    dashboard.respond(request, Arc::new(clients)).await.map(|body| match body {
        DashboardBody::Full(bytes) => Body::Full(Some(bytes)),
        DashboardBody::Events(events) => {
            let stopped = async move { wait_until_true(&mut shutdown).await };
            Body::Stream(Box::pin(events.take_until(Box::pin(stopped))))
        }
    })
}

/// The clients of this server.
#[derive(Debug)]
struct HttpClients {
    sessions: SessionTable,
    accounts: Accounts,
}

impl ClientDirectory for HttpClients {
    fn sessions(&self) -> Vec<SessionRow> {
        let all = self.sessions.all();
        let row = |session: &Arc<Session>| {
            let can = session.client.capabilities();
            let capabilities = [
                (can.form_elicitation || can.url_elicitation, "elicitation"),
                (can.sampling, "sampling"),
                (can.roots, "roots"),
            ];
            SessionRow {
                digest: session.client.session_digest().unwrap_or_default().to_owned(),
                principal: session.client.principal.clone(),
                program: session.client.program.clone(),
                protocol_version: session.protocol_version.clone(),
                capabilities: capabilities.iter().filter(|it| it.0).map(|it| it.1).collect(),
                age: session.opened.elapsed(),
                requests: session.request_count(),
            }
        };
        all.iter().map(row).collect()
    }

    fn principals(&self) -> Vec<PrincipalRow> {
        let row = |used: AccountUse| PrincipalRow {
            principal: used.principal,
            sessions: used.sessions,
            requests: used.requests,
            connections: used.connections,
        };
        self.accounts.in_use().into_iter().map(row).collect()
    }

    fn end_session(&self, digest: &str) -> SessionEnd {
        let all = self.sessions.all();
        let named = all.iter().find(|it| it.client.session_digest() == Some(digest));
        match named {
            Some(session) => {
                self.sessions.close(session);
                SessionEnd::Ended
            }
            None => SessionEnd::Unknown,
        }
    }
}
