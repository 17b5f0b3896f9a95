//! `swb serve --check`: says what would be served, or what is wrong, without serving. The options and the files that they
//! name are checked before, when the options are made.

use serde_json::json;
use switchboard::config::problem::Severity;
use switchboard_gateway::http::host_origin_check::HostOriginCheck;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::report;
use crate::runtime::audit_export;
use crate::runtime::gateway::{GatewayOptions, client_auth, host_origin_failure};

/// Checks the options and the configuration.
pub(super) fn run(
    invocation: &Invocation,
    options: &GatewayOptions,
) -> Result<CommandOutput, Failure> {
    if let Some(http) = &options.http {
        HostOriginCheck::new(http.address, &http.hosts, &http.origins)
            .map_err(host_origin_failure)?;
        client_auth::check(invocation, &http.client_auth, &http.client_url(http.address))?;
        http.replica.check(invocation, http.address)?;
    }
    let configuration = invocation.load()?;
    let problems = configuration.effective.problems.iter();
    let errors: Vec<_> = problems.filter(|it| it.severity() == Severity::Error).collect();
    if !errors.is_empty() {
        let detail = report::problems(&invocation.env, errors.iter().copied());
        let message = match errors.len() {
            1 => "the configuration has an error".to_owned(),
            count => format!("the configuration has {count} errors"),
        };
        return Err(Failure::new(Exit::Configuration, &message).detail(detail));
    }
    audit_export::targets(invocation, configuration.audit.targets())?;
    let place = match &options.http {
        None => "over standard input and output".to_owned(),
        Some(http) => format!("at {}", http.client_url(http.address)),
    };
    if invocation.wants_json() {
        let url = options.http.as_ref().map(|it| it.client_url(it.address));
        return Ok(json_output(&json!({"ok": true, "url": url})));
    }
    Ok(CommandOutput::text(format!("ok: it would serve {place}\n")))
}
