//! `/readyz?verbose`: readiness by part, one line each, with the reason of each part that is not ready.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use http::{Response, StatusCode, Uri};
use switchboard::audit::log::UnrecordedCalls;
use switchboard::connection::Status;
use switchboard_config::display::printable;

use crate::http::body::Body;
use crate::http::response::text;
use crate::http::server_state::HttpState;
use crate::shared::fleet::StoreStatus;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// A certificate with less time than this is mentioned.
const RENEWAL_DUE: Duration = Duration::from_secs(14 * 24 * 3600);

/// What a client learns about servers that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// How many, for clients that have not authenticated.
    Count,
    Names,
}

/// The state of one part of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartState {
    Ready,
    /// It works less well than it should; the gateway is ready.
    Degraded,
    NotReady,
}

/// A part of the gateway, and what there is to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: &'static str,
    state: PartState,
    /// For clients that have authenticated.
    note: String,
}

/// Does a probe ask for the parts?
pub(crate) fn is_verbose(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|it| it == "verbose" || it.starts_with("verbose="))
}

/// Responds with the state of every part. The status is that of the short response.
pub(crate) fn readiness_by_part(state: &HttpState, detail: Detail) -> Response<Body> {
    let (status, page) = render(&parts(state), detail);
    text(status, page)
}

fn render(parts: &[Part], detail: Detail) -> (StatusCode, String) {
    let is_ready = parts.iter().all(|it| it.state != PartState::NotReady);
    let mut page = String::new();
    for part in parts {
        let (mark, word) = match part.state {
            PartState::Ready => ('+', "ok"),
            PartState::Degraded => ('!', "degraded"),
            PartState::NotReady => ('-', "not ready"),
        };
        page.push_str(&format!("[{mark}] {}: {word}", part.name));
        match (detail, part.note.is_empty()) {
            (Detail::Names, false) => page.push_str(&format!(" ({})", part.note)),
            (Detail::Names, true) | (Detail::Count, _) => {}
        }
        page.push('\n');
    }
    match is_ready {
        true => (StatusCode::OK, format!("{page}ready\n")),
        false => (StatusCode::SERVICE_UNAVAILABLE, format!("{page}not ready\n")),
    }
}

fn parts(state: &HttpState) -> Vec<Part> {
    let mut parts = vec![traffic(state), servers(state), audit(state)];
    parts.extend(store(state.gateway.relay.shared.fleet().store));
    if let Some(tls) = &state.options.tls {
        parts.push(certificate(tls.expires(), SystemTime::now()));
    }
    parts
}

fn traffic(state: &HttpState) -> Part {
    let is_draining = state.is_draining.load(Ordering::Relaxed);
    let (state, note) = match is_draining {
        true => (PartState::NotReady, "draining"),
        false => (PartState::Ready, ""),
    };
    Part { name: "traffic", state, note: note.to_owned() }
}

fn servers(state: &HttpState) -> Part {
    let snapshot = state.gateway.relay.host.snapshot();
    let missing = state.gateway.missing_servers();
    let connected =
        snapshot.servers.values().filter(|it| matches!(it.status, Status::Connected)).count();
    let part_state = match (snapshot.is_settled(), missing.is_empty()) {
        (false, _) => PartState::NotReady,
        (true, true) => PartState::Ready,
        (true, false) => PartState::Degraded,
    };
    let mut note = format!("{connected} connected");
    for server in &missing {
        let reason = printable(&server.reason);
        note.push_str(&format!("; {}: {reason}", printable(&server.name)));
    }
    Part { name: "servers", state: part_state, note }
}

fn audit(state: &HttpState) -> Part {
    let audit = &state.gateway.relay.audit;
    let (state, note) = match (audit.status().failure, audit.unrecorded_calls()) {
        (None, _) => (PartState::Ready, ""),
        (Some(_), UnrecordedCalls::Allow) => {
            (PartState::Degraded, "it cannot be written: calls are not recorded")
        }
        (Some(_), UnrecordedCalls::Refuse) => {
            (PartState::NotReady, "it cannot be written: calls are refused")
        }
    };
    Part { name: "audit log", state, note: note.to_owned() }
}

/// The store that replicas share. While it is away, most requests are served, and a balancer must not take all replicas
/// out at once.
fn store(status: StoreStatus) -> Option<Part> {
    let (state, note) = match status {
        StoreStatus::None => return None,
        StoreStatus::Connected => (PartState::Ready, ""),
        StoreStatus::Starting => (PartState::Degraded, "it is being connected"),
        StoreStatus::Away { .. } => (PartState::Degraded, "it does not respond"),
    };
    Some(Part { name: "store", state, note: note.to_owned() })
}

/// A certificate that has expired does not make the gateway unready: a balancer would take all replicas out at once.
fn certificate(expires: SystemTime, now: SystemTime) -> Part {
    let (state, note) = match expires.duration_since(now) {
        Err(_) => (PartState::Degraded, "it has expired".to_owned()),
        Ok(remaining) => {
            let state = match remaining < RENEWAL_DUE {
                true => PartState::Degraded,
                false => PartState::Ready,
            };
            (state, format!("it expires in {} days", remaining.as_secs() / DAY.as_secs()))
        }
    };
    Part { name: "certificate", state, note }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(state: PartState, note: &str) -> Part {
        Part { name: "p", state, note: note.to_owned() }
    }

    #[test]
    fn one_part_that_is_not_ready_decides_and_reasons_are_for_known_clients() {
        let mut parts = vec![part(PartState::Ready, ""), part(PartState::Degraded, "x: secret")];
        let (status, page) = render(&parts, Detail::Names);
        assert_eq!(
            (status, page.as_str()),
            (StatusCode::OK, "[+] p: ok\n[!] p: degraded (x: secret)\nready\n")
        );
        parts.push(part(PartState::NotReady, "y"));
        let (status, page) = render(&parts, Detail::Count);
        assert_eq!(
            (status, page.as_str()),
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "[+] p: ok\n[!] p: degraded\n[-] p: not ready\nnot ready\n"
            )
        );
    }

    #[test]
    fn a_certificate_is_degraded_two_weeks_before_it_expires() {
        let now = SystemTime::now();
        assert_eq!(certificate(now + DAY * 20, now).state, PartState::Ready);
        let soon = certificate(now + DAY * 13, now);
        assert_eq!(
            (soon.state, soon.note.as_str()),
            (PartState::Degraded, "it expires in 13 days")
        );
        assert_eq!(certificate(now, now + DAY).note, "it has expired");
    }

    #[test]
    fn the_query_selects_the_parts() {
        let check = |uri: &str| is_verbose(&uri.parse().expect("a URI"));
        assert!(check("/readyz?verbose") && check("/readyz?a&verbose=1"));
        assert!(!check("/readyz") && !check("/readyz?quiet"));
    }
}
