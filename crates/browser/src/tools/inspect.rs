//! Tools for what is behind a page: its console and its requests.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use switchboard_builtin::kit::{HandlerError, Tool};

use crate::actions::page::Page;
use crate::cdp::message::SessionId;
use crate::error::{BrowserError, Result};
use crate::page::console::ConsoleLevel;
use crate::page::network::{Request, RequestOutcome};
use crate::shown_text::{cut, marked, shown};
use crate::tools::redaction::{is_secret, redacted, safe_header, safe_url};
use crate::tools::registry::{Answer, CallScope, Registry};

/// How many messages or requests are returned unless a call says otherwise, and at most.
const DEFAULT_COUNT: usize = 30;
const MAX_COUNT: usize = 200;
/// The longest answer, in characters.
pub(super) const MAX_ANSWER: usize = 20_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConsoleArguments {
    /// The least level; info by default.
    level: Option<ConsoleLevel>,
    /// Only messages with this text.
    pattern: Option<String>,
    /// Only messages after this number.
    since: Option<u64>,
    limit: Option<usize>,
    tab: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NetworkArguments {
    /// A number from the list, for headers and body.
    request: Option<u64>,
    /// Only URLs with this text.
    filter: Option<String>,
    failed: Option<bool>,
    since: Option<u64>,
    limit: Option<usize>,
    tab: Option<u32>,
}

/// Adds the tools that only look.
pub(super) fn add(registry: &mut Registry) {
    registry.add(
        "console",
        "Lists console messages and errors of the page.",
        Tool::read_only,
        console,
    );
    registry.add("network", "Lists requests of the page, or shows one.", Tool::read_only, network);
}

/// A number that a page cannot guess.
pub(crate) fn nonce() -> String {
    format!("{:08x}", RandomState::new().build_hasher().finish() >> 32)
}

async fn console(
    scope: CallScope,
    it: ConsoleArguments,
) -> std::result::Result<Answer, HandlerError> {
    let page = scope.session.page(it.tab).await?;
    let least = it.level.unwrap_or(ConsoleLevel::Info);
    let limit = it.limit.unwrap_or(DEFAULT_COUNT).clamp(1, MAX_COUNT);
    let pattern = it.pattern.unwrap_or_default().to_lowercase();
    let since = it.since.unwrap_or(0);
    let (lines, dropped, url) = page.with(|tab| {
        let messages = &tab.console.messages;
        let matching = messages
            .since(since)
            .filter(|(_, it)| it.level >= least && it.text.to_lowercase().contains(&pattern));
        let mut lines: Vec<String> = matching
            .rev()
            .take(limit)
            .map(|(number, it)| {
                let place =
                    if it.place.is_empty() { String::new() } else { format!(" ({})", it.place) };
                format!("{number} {}: {}{place}", it.level.id(), shown(&it.text, 500))
            })
            .collect();
        lines.reverse();
        (lines, messages.dropped(), tab.url.clone())
    })?;
    if lines.is_empty() {
        let text = if dropped > 0 {
            format!("no such messages; {dropped} older ones are not kept")
        } else {
            "no such messages".to_owned()
        };
        return Ok(text.into());
    }
    let mut text = marked(&url, &cut(&lines.join("\n"), MAX_ANSWER), &nonce());
    if dropped > 0 {
        text += &format!("\n{dropped} more messages were not kept");
    }
    Ok(text.into())
}

async fn network(
    scope: CallScope,
    it: NetworkArguments,
) -> std::result::Result<Answer, HandlerError> {
    let page = scope.session.page(it.tab).await?;
    if let Some(number) = it.request {
        return Ok(one_request(&page, number).await?.into());
    }
    let limit = it.limit.unwrap_or(DEFAULT_COUNT).clamp(1, MAX_COUNT);
    let filter = it.filter.unwrap_or_default().to_lowercase();
    let only_failed = it.failed == Some(true);
    let (lines, total, url) = page.with(|tab| {
        let list = &tab.requests.list;
        let is_failed = |it: &Request| {
            matches!(it.outcome, RequestOutcome::Failed(_)) || it.status.is_some_and(|it| it >= 400)
        };
        let matching: Vec<(u64, &Request)> = list
            .since(it.since.unwrap_or(0))
            .filter(|(_, it)| it.url.to_lowercase().contains(&filter))
            .filter(|(_, it)| !only_failed || is_failed(it))
            .collect();
        let total = matching.len();
        let last = &matching[total.saturating_sub(limit)..];
        let lines: Vec<String> =
            last.iter().map(|(number, it)| request_line(*number, it)).collect();
        (lines, total, tab.url.clone())
    })?;
    if lines.is_empty() {
        return Ok("no such requests".to_owned().into());
    }
    let mut text = marked(&url, &cut(&lines.join("\n"), MAX_ANSWER), &nonce());
    if total > lines.len() {
        text += &format!("\nthe newest {} of {total}", lines.len());
    }
    Ok(text.into())
}

fn request_line(number: u64, request: &Request) -> String {
    let status = match (&request.outcome, request.status) {
        (RequestOutcome::Failed(error), _) => format!("failed: {}", shown(error, 100)),
        (RequestOutcome::Pending, None) => "pending".to_owned(),
        (RequestOutcome::Pending, Some(status)) => format!("{status}, loading"),
        (RequestOutcome::Finished(bytes), status) => {
            format!("{}, {bytes} bytes", status.unwrap_or(0))
        }
    };
    let took = request.took_ms.map(|it| format!(", {it} ms")).unwrap_or_default();
    let url = shown(&safe_url(&request.url), 200);
    format!("{number} {} {url} {} {status}{took}", shown(&request.method, 20), request.kind)
}

async fn one_request(page: &Page, number: u64) -> Result<String> {
    let (head, id, session, url, has_body, mime_type) = page
        .with(|tab| {
            let request = tab.requests.list.get(number)?;
            let mut head = request_line(number, request);
            for (title, headers) in
                [("request", &request.request_headers), ("response", &request.response_headers)]
            {
                head += &format!("\n{title} headers:");
                for (name, value) in headers {
                    let value = if is_secret(name) {
                        "REDACTED".to_owned()
                    } else {
                        shown(&safe_header(value), 300)
                    };
                    head += &format!("\n  {}: {value}", shown(name, 80));
                }
            }
            let url = tab.url.clone();
            Some((
                head,
                request.id.clone(),
                request.session.clone(),
                url,
                request.has_body,
                request.mime_type.clone(),
            ))
        })?
        .ok_or(BrowserError::NoRequest(number))?;
    let mut text = head;
    if has_body {
        let sent = sent_body(page, &session, &id).await.unwrap_or_else(|| "not kept".to_owned());
        text += &format!("\nrequest body: {}", cut(&redacted(&sent), 2000));
    }
    let is_text =
        ["text", "json", "javascript", "xml", "urlencoded"].iter().any(|it| mime_type.contains(it));
    if is_text {
        let body = received_body(page, &session, &id).await;
        text += &format!(
            "\nresponse body: {}",
            body.map_or("not kept".to_owned(), |it| cut(&redacted(&it), 8000))
        );
    } else if !mime_type.is_empty() {
        text += &format!("\nresponse body: {}, not shown", shown(&mime_type, 60));
    }
    Ok(marked(&url, &cut(&text, MAX_ANSWER), &nonce()))
}

async fn sent_body(page: &Page, session: &SessionId, id: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SentBody {
        post_data: String,
    }
    let params = json!({"requestId": id});
    let sent: SentBody =
        page.browser.cdp.get(Some(session), "Network.getRequestPostData", params).await.ok()?;
    Some(sent.post_data)
}

async fn received_body(page: &Page, session: &SessionId, id: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ReceivedBody {
        body: String,
        base64_encoded: bool,
    }
    let params = json!({"requestId": id});
    let received: ReceivedBody =
        page.browser.cdp.get(Some(session), "Network.getResponseBody", params).await.ok()?;
    (!received.base64_encoded).then_some(received.body)
}
