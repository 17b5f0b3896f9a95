//! Sends audit records to a URL as JSON: `{"records": […]}`. A batch that is sent again has the same `Idempotency-Key`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, header};
use switchboard::audit::log::FedRecord;
use switchboard_auth::fetch::origin_guard::AllowedAddresses;
use switchboard_auth::fetch::{Fetch, FetchRequest, FetchResponse};
use switchboard_config::entry::server::sha256;
use url::Url;

use super::{Delivery, DeliveryError, DeliveryFuture};

/// The largest token.
const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// A URL that takes records.
pub struct WebhookTarget {
    /// Sends the requests.
    pub fetch: Arc<dyn Fetch>,
    /// The URL.
    pub url: Url,
    /// The file with the bearer token. It is read for each batch, so that a new token is used at once.
    pub token_file: Option<PathBuf>,
}

impl fmt::Debug for WebhookTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookTarget").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl WebhookTarget {
    async fn headers(&self, body: &str) -> Result<HeaderMap, DeliveryError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let digest = sha256(body.as_bytes()).to_string();
        if let Ok(key) = HeaderValue::from_str(&digest) {
            headers.insert("idempotency-key", key);
        }
        if let Some(path) = &self.token_file {
            let path = path.clone();
            let token = tokio::task::spawn_blocking(move || std::fs::read_to_string(path))
                .await
                .unwrap_or_else(|panicked| Err(std::io::Error::other(panicked)))
                .map_err(|error| DeliveryError::later(format!("the token file: {error}")))?;
            let token = token.trim();
            let value = Some(token).filter(|it| !it.is_empty() && it.len() <= MAX_TOKEN_BYTES);
            let value = value.and_then(|it| HeaderValue::from_str(&format!("Bearer {it}")).ok());
            let Some(mut value) = value else {
                return Err(DeliveryError::later("the token file holds no token"));
            };
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        Ok(headers)
    }

    async fn send(&self, batch: &[Arc<FedRecord>]) -> Result<(), DeliveryError> {
        let lines: Vec<&str> = batch.iter().map(|it| it.line.as_str()).collect();
        let body = format!("{{\"records\":[{}]}}", lines.join(","));
        let headers = self.headers(&body).await?;
        let request = FetchRequest {
            method: Method::POST,
            url: self.url.clone(),
            headers,
            body: body.into(),
            // The administrator configured the URL.
            allowed: AllowedAddresses::Any,
        };
        let response = self.fetch.fetch(request).await.map_err(DeliveryError::later)?;
        outcome(&response)
    }
}

/// What a status means: 2xx is accepted, 408, 425, 429, 5xx and a rejected token may change, anything else will not.
fn outcome(response: &FetchResponse) -> Result<(), DeliveryError> {
    let reason = format!("it responds with status {}", response.status);
    match response.status {
        200..=299 => Ok(()),
        401 | 403 | 408 | 425 | 429 | 500..=599 => {
            let value = response.headers.get(header::RETRY_AFTER);
            let seconds = value.and_then(|it| it.to_str().ok()).and_then(|it| it.parse().ok());
            Err(DeliveryError::Later { reason, wait: seconds.map(Duration::from_secs) })
        }
        _ => Err(DeliveryError::Never { reason }),
    }
}

impl Delivery for WebhookTarget {
    fn deliver<'a>(&'a mut self, batch: &'a [Arc<FedRecord>]) -> DeliveryFuture<'a> {
        Box::pin(self.send(batch))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use switchboard::audit::log::{AuditLog, AuditRecord};
    use switchboard_auth::fetch::FetchFuture;
    use tokio::sync::mpsc;

    use super::*;

    /// Keeps the requests.
    struct Receiver(mpsc::UnboundedSender<FetchRequest>); // as many as a test makes

    impl Fetch for Receiver {
        fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a> {
            let _test_over = self.0.send(request);
            Box::pin(async move {
                Ok(FetchResponse { status: 200, headers: HeaderMap::new(), body: Bytes::new() })
            })
        }
    }

    #[tokio::test]
    async fn a_batch_is_one_request_with_the_token_of_the_file_and_a_key_of_its_content() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let audit = AuditLog::open(&folder.path().join("audit.jsonl")).expect("a log");
        let mut feed = audit.feed(10).await;
        audit.record(AuditRecord::begin("ada", "t"));
        audit.record(AuditRecord::begin("grace", "t"));
        audit.flush().await;
        let batch: Vec<_> = std::iter::from_fn(|| feed.try_next()).collect();
        let (requests, mut received) = mpsc::unbounded_channel();
        let token_file = folder.path().join("token");
        let mut target = WebhookTarget {
            fetch: Arc::new(Receiver(requests)),
            url: "https://hook.example/x".parse().expect("a URL"),
            token_file: Some(token_file.clone()),
        };
        let away = target.deliver(&batch).await.expect_err("there is no token yet");
        assert!(matches!(away, DeliveryError::Later { .. }));
        let mut keys = Vec::new();
        for token in ["first", "second"] {
            std::fs::write(&token_file, format!("{token}\n")).expect("written");
            target.deliver(&batch).await.expect("it is accepted");
            let request = received.try_recv().expect("a request");
            assert_eq!(request.headers["authorization"], format!("Bearer {token}"));
            let body: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
            assert_eq!(body["records"][1]["caller"], "grace");
            keys.push(request.headers["idempotency-key"].clone());
        }
        assert_eq!(keys[0], keys[1]);
    }

    #[test]
    fn a_status_says_whether_to_try_again_and_when() {
        let check = |status: u16, after: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(after) = after {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(after));
            }
            match outcome(&FetchResponse { status, headers, body: Bytes::new() }) {
                Ok(()) => "ok".to_owned(),
                Err(DeliveryError::Later { wait, .. }) => format!("later {wait:?}"),
                Err(DeliveryError::Never { .. }) => "never".to_owned(),
            }
        };
        assert_eq!(check(204, None), "ok");
        assert_eq!(check(503, None), "later None");
        assert_eq!(check(429, Some("7")), "later Some(7s)");
        assert_eq!(check(401, None), "later None");
        assert_eq!((check(400, None), check(302, None)), ("never".to_owned(), "never".to_owned()));
    }
}
