//! Reads the TLS files again when they change. Files that are not valid are reported, and the last valid ones stay in
//! use.

use std::sync::Arc;
use std::time::Duration;

use switchboard::config::display::printable;
use switchboard_gateway::{TlsReload, TlsServer};

use crate::output::report;

/// How often the files are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Reloads the files until it is dropped. Not without TLS.
pub async fn reload(tls: Option<Arc<TlsServer>>) {
    let Some(tls) = tls else { return std::future::pending().await };
    let mut errors = RepeatedErrors::default();
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let reader = tls.clone();
        let reloaded = tokio::task::spawn_blocking(move || reader.reload()).await;
        let error = match reloaded {
            Ok(Ok(TlsReload::Changed)) => {
                report::print_stderr("note: new connections use the new TLS certificate\n");
                None
            }
            Ok(Ok(TlsReload::Unchanged)) | Err(_) => None,
            Ok(Err(error)) => Some(format!("{error}: {}", error.kind)),
        };
        if let Some(error) = errors.next(error) {
            let error = printable(&error);
            report::print_stderr(&format!(
                "warning: {error}; the certificate that was read last stays in use\n"
            ));
        }
    }
}

/// Which errors to report: certificate and key are two files, so an error between the two changes is none. Each error is
/// reported when it occurs for the second time in a row, once.
#[derive(Debug, Default)]
struct RepeatedErrors {
    last: Option<String>,
    is_reported: bool,
}

impl RepeatedErrors {
    fn next(&mut self, error: Option<String>) -> Option<String> {
        let is_repeated = error.is_some() && error == self.last;
        if !is_repeated {
            self.is_reported = false;
        }
        self.last.clone_from(&error);
        let is_due = is_repeated && !self.is_reported;
        self.is_reported |= is_due;
        error.filter(|_| is_due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_once_when_it_stays() {
        let mut errors = RepeatedErrors::default();
        let mut reported = |error: &str| {
            let error = Some(error.to_owned()).filter(|it| !it.is_empty());
            errors.next(error).unwrap_or_default()
        };
        let sequence = ["a", "", "a", "a", "a", "b", "b", "", "b", "b"];
        assert_eq!(sequence.map(&mut reported), ["", "", "", "a", "", "", "b", "", "", "b"]);
    }
}
