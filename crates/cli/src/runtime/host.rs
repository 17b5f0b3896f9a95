//! Runs a host for one command and shuts it down afterwards.

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

/// How long the list of an account's connectors may take.
const CONNECTOR_LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs `work` with a host and shuts the host down. An interrupt cancels it.
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

/// Like [`with_host`], for work that handles interrupts itself.
pub fn with_host_and_interrupts<T>(
    invocation: &Invocation,
    retry_policy: RetryPolicy,
    work: impl AsyncFnOnce(&Host, &mut Interrupts) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_custom_host(invocation, retry_policy, |options| options, work)
}

/// Like [`with_host_and_interrupts`], with changed host options.
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
        // Kills server processes that a killed run left behind; awaited at the end.
        let cleanup = tokio::task::spawn_blocking(child::kill_orphans);
        let (host, task) = Host::start(options).map_err(|error| {
            Failure::new(Exit::Failure, "the host cannot start").caused_by(error)
        })?;
        let mut interrupts = Interrupts::listen();
        // New connectors are used by the next run, so they are fetched beside the work.
        let (outcome, ()) = match invocation.providers().account {
            None => (work(&host, &mut interrupts).await, ()),
            Some(_) => tokio::join!(work(&host, &mut interrupts), refresh_connectors(&host)),
        };
        host.shutdown().await;
        let _panicked = task.await;
        let _panicked = cleanup.await;
        outcome
    });
    // A prompt that was open at the interrupt may block a thread forever; nothing else is running.
    runtime.shutdown_background();
    outcome
}

/// Refreshes the cached list of an account's connectors, with a timeout.
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
    let defaults = HostOptions::new(env.paths.clone(), environment);
    Ok(HostOptions {
        max_concurrent_local: positive_number(
            invocation,
            "MCP_SERVER_CONNECTION_BATCH_SIZE",
            defaults.max_concurrent_local,
        )?,
        max_concurrent_remote: positive_number(
            invocation,
            "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE",
            defaults.max_concurrent_remote,
        )?,
        connect_timeout: duration_variable(invocation, "MCP_TIMEOUT", defaults.connect_timeout)?,
        retry_policy,
        network: network_settings(invocation, defaults.network)?,
        watchdog: watchdog_program(),
        elicitor: elicitor(invocation, Arc::new(invocation.prompt.clone()))?,
        in_process: in_process::in_process(invocation),
        model: language_model::sampler(invocation),
        login: LoginOptions {
            identity_provider: invocation.providers().identity_provider.clone(),
            account: invocation.providers().account.clone(),
            ..LoginOptions::default()
        },
        ..defaults
    })
}

/// The elicitor: scripted answers of `--answers` first, then `fallback`.
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
    let answers = ScriptedAnswers::parse(&text, fallback).map_err(|error| {
        let failure = Failure::new(Exit::Usage, &format!("--answers: {error}"));
        match std::error::Error::source(&error) {
            Some(source) => failure.caused_by(source),
            None => failure,
        }
    })?;
    Ok(Arc::new(answers))
}
