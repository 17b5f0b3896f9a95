//! Where a gateway sends copies of its audit records, as the settings say.

use std::path::PathBuf;
use std::sync::Arc;

use switchboard::auth::fetch::HttpFetcher;
use switchboard::config::settings::audit::{AuditTargets, SyslogAddress};
use switchboard_gateway::{AuditTarget, SyslogTarget, WebhookTarget};
use url::Url;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::runtime::{network, trace_export};

/// The targets of the settings.
pub fn targets(
    invocation: &Invocation,
    settings: &AuditTargets,
) -> Result<Vec<AuditTarget>, Failure> {
    let mut targets = Vec::new();
    if let Some(address) = &settings.syslog {
        let host = host_name();
        targets.push(AuditTarget::Syslog(match address {
            SyslogAddress::Unix(path) => SyslogTarget::unix(path, &host),
            SyslogAddress::Udp(place) => SyslogTarget::udp(place, &host),
            SyslogAddress::Tcp(place) => SyslogTarget::tcp(place, &host),
        }));
    }
    if let Some(url) = &settings.webhook {
        let url = Url::parse(url).map_err(|error| {
            let message = "the setting `audit.webhook` is not a URL";
            Failure::new(Exit::Configuration, message).caused_by(error)
        })?;
        targets.push(AuditTarget::Webhook(WebhookTarget {
            fetch: Arc::new(HttpFetcher::new(network::outbound_network(invocation)?)),
            url,
            token_file: settings.webhook_token_file.as_ref().map(PathBuf::from),
        }));
    }
    if settings.otlp == Some(true) {
        targets.push(AuditTarget::Otlp(Box::new(trace_export::log_export(invocation)?)));
    }
    Ok(targets)
}

/// The name of this machine.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
