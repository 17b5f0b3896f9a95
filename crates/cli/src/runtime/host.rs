//! A running host for one command: made from the machine and the flags, and stopped whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard::config::display::printable;
use switchboard::connection::resolve::HostEnv;
use switchboard::connection::state::RetryPolicy;
use switchboard::elicitation::elicitor::Elicitor;
use switchboard::elicitation::scripted_answers::ScriptedAnswers;
use switchboard::host::{Host, HostOptions};
use switchboard::login::server_login::LoginOptions;
use switchboard::sources::text_file;
use switchboard::sources::text_file::{AllowedFiles, FileContent};
use switchboard::wire::process::child;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::runtime::in_process;
use crate::runtime::interrupts::{Interrupts, tokio_runtime};
use crate::runtime::language_model;
use crate::runtime::network::network_settings;
use crate::runtime::subprocess::watchdog_program;
use crate::runtime::variables::{duration_variable, positive_number};

/// How long an account may take to list its connectors.
const CONNECTOR_LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs something with a host, and stops the host afterwards. An interrupt ends it early.
pub fn with_host<T>(
    invocation: &Invocation,
    retry_policy: RetryPolicy,
    work: impl AsyncFnOnce(&Host) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_host_and_interrupts(invocation, retry_policy, async |host, interrupts| {
        tokio::select! {
            outcome = work(host) => outcome,
            () = interrupts.next() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    })
}

/// The same for work that minds interrupts itself.
pub fn with_host_and_interrupts<T>(
    invocation: &Invocation,
    retry_policy: RetryPolicy,
    work: impl AsyncFnOnce(&Host, &mut Interrupts) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_custom_host(invocation, retry_policy, |options| options, work)
}

/// The same for a host that is a little different.
pub fn with_custom_host<T>(
    invocation: &Invocation,
    retry_policy: RetryPolicy,
    customize: impl FnOnce(HostOptions) -> HostOptions,
    work: impl AsyncFnOnce(&Host, &mut Interrupts) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let options = customize(host_options(invocation, retry_policy)?);
    child::raise_file_limit();
    let runtime = tokio_runtime()?;
    let outcome = runtime.block_on(async {
        // What a killed predecessor may have left behind; nobody waits for it but the end.
        let reaping = tokio::task::spawn_blocking(child::kill_orphans);
        let (host, task) = Host::start(options).map_err(|error| {
            Failure::new(Exit::Failure, "the host cannot start").caused_by(error)
        })?;
        let mut interrupts = Interrupts::listen();
        // What is new in an account is there the next time, so it is asked for beside the work.
        let (outcome, ()) = match invocation.providers().account {
            None => (work(&host, &mut interrupts).await, ()),
            Some(_) => tokio::join!(work(&host, &mut interrupts), refresh_connectors(&host)),
        };
        host.shutdown().await;
        let _panicked = task.await;
        let _panicked = reaping.await;
        outcome
    });
    // A person who was being asked when somebody interrupted us may never answer; nothing else is under way.
    runtime.shutdown_background();
    outcome
}

/// Has an account's connectors listed and remembered. A slow account holds up nobody for long.
async fn refresh_connectors(host: &Host) {
    let _slow_or_refused = tokio::time::timeout(CONNECTOR_LIST_TIMEOUT, host.connectors()).await;
}

fn host_options(
    invocation: &Invocation,
    retry_policy: RetryPolicy,
) -> Result<HostOptions, Failure> {
    let env = &invocation.env;
    let environment = HostEnv {
        home: env.home.clone(),
        working_folder: env.working_folder.clone(),
        variables: BTreeMap::clone(&env.variables),
    };
    let usual = HostOptions::new(env.paths.clone(), environment);
    Ok(HostOptions {
        max_concurrent_local: positive_number(
            invocation,
            "MCP_SERVER_CONNECTION_BATCH_SIZE",
            usual.max_concurrent_local,
        )?,
        max_concurrent_remote: positive_number(
            invocation,
            "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE",
            usual.max_concurrent_remote,
        )?,
        connect_timeout: duration_variable(invocation, "MCP_TIMEOUT", usual.connect_timeout)?,
        retry_policy,
        network: network_settings(invocation, usual.network)?,
        watchdog: watchdog_program(),
        elicitor: elicitor(invocation, Arc::new(invocation.prompt.clone()))?,
        in_process: in_process::in_process(invocation),
        model: language_model::sampler(invocation),
        login: LoginOptions {
            identity_provider: invocation.providers().identity_provider.clone(),
            account: invocation.providers().account.clone(),
            ..LoginOptions::default()
        },
        ..usual
    })
}

/// Who answers servers' questions: what was written down beforehand, then somebody.
pub fn elicitor(
    invocation: &Invocation,
    fallback: Arc<dyn Elicitor>,
) -> Result<Arc<dyn Elicitor>, Failure> {
    let Some(file) = &invocation.global.answers else { return Ok(fallback) };
    let path = invocation.env.working_folder.join(file);
    let unreadable_file = |why: &str| {
        let message = format!("--answers: `{}` cannot be read", printable(file));
        Failure { causes: vec![printable(why)], ..Failure::new(Exit::Usage, &message) }
    };
    let text = match text_file::read_text(&path, AllowedFiles::PipesToo) {
        Ok(FileContent::Text(text)) => text,
        Ok(FileContent::Absent) => return Err(unreadable_file("there is no such file")),
        Err(error) => return Err(unreadable_file(&error.to_string())),
    };
    let prepared = ScriptedAnswers::parse(&text, fallback).map_err(|error| {
        let failure = Failure::new(Exit::Usage, &format!("--answers: {error}"));
        match std::error::Error::source(&error) {
            Some(source) => failure.caused_by(source),
            None => failure,
        }
    })?;
    Ok(Arc::new(prepared))
}
