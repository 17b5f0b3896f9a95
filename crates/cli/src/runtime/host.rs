//! Runs a host for one command and shuts it down afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard::config::display::printable;
use switchboard::connection::RetryPolicy;
use switchboard::elicitation::{Elicitor, ScriptedAnswers};
use switchboard::login::LoginOptions;
use switchboard::sources::text_file;
use switchboard::sources::text_file::{AllowedFiles, FileContent};
use switchboard::wire::process::child;
use switchboard::{Host, HostEnv, HostOptions};
use url::Url;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::runtime::connectors;
use crate::runtime::connectors::{ConnectorRefresh, RunLength};
use crate::runtime::in_process;
use crate::runtime::interrupts::{Interrupts, tokio_runtime};
use crate::runtime::language_model;
use crate::runtime::network::network_settings;
use crate::runtime::sharing;
use crate::runtime::sharing::HostStart;
use crate::runtime::shutdown_deadline::ShutdownDeadline;
use crate::runtime::subprocess::watchdog_program;
use crate::runtime::variables::{duration_variable, positive_number};

/// Runs `work` with a host and shuts the host down. An interrupt cancels it.
pub fn with_host<T>(
    invocation: &Invocation,
    retry_policy: RetryPolicy,
    work: impl AsyncFnOnce(&Host) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let work = async |host: &Host, interrupts: &mut Interrupts| {
        tokio::select! {
            outcome = work(host) => outcome,
            () = interrupts.next() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    };
    let refresh = ConnectorRefresh::plan(invocation, RunLength::Short);
    let ending = (refresh, &ShutdownDeadline::default());
    run_host((invocation, retry_policy), |options| options, ending, work)
}

/// Like [`with_host`], for work that is about the connector account itself.
pub fn with_host_alone<T>(
    invocation: &Invocation,
    work: impl AsyncFnOnce(&Host) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let work = async |host: &Host, interrupts: &mut Interrupts| {
        tokio::select! {
            outcome = work(host) => outcome,
            () = interrupts.next() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    };
    let ending = (ConnectorRefresh::Skip, &ShutdownDeadline::default());
    run_host((invocation, RetryPolicy::NoRetry), |options| options, ending, work)
}

/// Like [`with_host`], for work that handles interrupts itself. It does not wait for the list of connectors.
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
    let deadline = ShutdownDeadline::default();
    with_deadline(invocation, (retry_policy, &deadline), customize, work)
}

/// Like [`with_custom_host`], for work that may set the deadline of the shutdown.
pub fn with_deadline<T>(
    invocation: &Invocation,
    (retry_policy, deadline): (RetryPolicy, &ShutdownDeadline),
    customize: impl FnOnce(HostOptions) -> HostOptions,
    work: impl AsyncFnOnce(&Host, &mut Interrupts) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let ending = (ConnectorRefresh::plan(invocation, RunLength::Long), deadline);
    run_host((invocation, retry_policy), customize, ending, work)
}

fn run_host<T>(
    (invocation, retry_policy): (&Invocation, RetryPolicy),
    customize: impl FnOnce(HostOptions) -> HostOptions,
    (refresh, deadline): (ConnectorRefresh, &ShutdownDeadline),
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
        // The next run uses new connectors, and a run that watches its configuration does at once.
        let working = work(&host, &mut interrupts);
        let (outcome, warning) = match refresh {
            ConnectorRefresh::Skip => (working.await, None),
            ConnectorRefresh::ToTheEnd => {
                tokio::join!(working, connectors::refresh(invocation, &host))
            }
            ConnectorRefresh::Beside => {
                tokio::pin!(working);
                tokio::select! {
                    outcome = &mut working => (outcome, None),
                    warning = connectors::refresh(invocation, &host) => (working.await, warning),
                }
            }
        };
        if let Some(warning) = warning {
            report::print_stderr(&warning);
        }
        let end = async {
            host.shutdown().await;
            let _panicked = task.await;
            let _panicked = cleanup.await;
        };
        deadline.limit(end).await;
        outcome
    });
    // A prompt that was open at the interrupt may block a thread forever; nothing else is running.
    runtime.shutdown_background();
    outcome
}

/// The options of a host for this run.
pub fn host_options(
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
        sharing: sharing::options(invocation, HostStart::Interactive)?,
        elicitor: elicitor(invocation, Arc::new(invocation.prompt.clone()))?,
        in_process: in_process::in_process(invocation)?,
        embedded: in_process::embedded(invocation),
        model: language_model::sampler(invocation),
        login: LoginOptions {
            client_metadata_url: client_metadata_url(invocation),
            identity_provider: invocation.providers().identity_provider.clone(),
            account: invocation.providers().account.clone(),
            session_ingress: connectors::session_ingress(invocation)?,
            ..LoginOptions::default()
        },
        ..defaults
    })
}

/// The URL of our client metadata document according to the settings, which were checked when they were read.
pub fn client_metadata_url(invocation: &Invocation) -> Option<Url> {
    let text = invocation.providers().login_defaults.client_metadata_url.as_deref();
    text.and_then(|it| Url::parse(it).ok())
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
