//! `swb status`: connects to servers and prints the state of each connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::Snapshot;
use switchboard::catalogue::ListKind;
use switchboard::config::display::{pluralize, printable};
use switchboard::config::merge::ResolvedServer;
use switchboard::connection::{RetryPolicy, ServerView, Status};
use switchboard::sources::ConfigWatcher;
use switchboard::sources::loader::Configuration;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::account_text;
use crate::output::connection_text;
use crate::output::json::json_line;
use crate::output::json::json_output;
use crate::output::report;
use crate::output::report::StdoutState;
use crate::output::server_json;
use crate::output::server_text;
use crate::output::unusable_files;
use crate::runtime::control;
use crate::runtime::host;
use crate::runtime::readiness::ReadyOptions;
use crate::runtime::servers;

/// Arguments of `swb status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only these servers
    pub names: Vec<String>,
    /// Keep running, follow configuration changes and show every change
    #[arg(long, short)]
    pub watch: bool,
    /// Required servers. Does not wait for the others.
    #[command(flatten)]
    pub ready: ReadyOptions,
}

/// Runs the command.
pub fn run(arguments: &StatusArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let shown = servers::active_servers(invocation, &configuration, &arguments.names)?;
    arguments.ready.expect_startable(invocation, &configuration)?;
    if arguments.watch {
        return watch(arguments, invocation, configuration.clone());
    }
    let snapshot = host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        servers::apply_configuration(host, &configuration, &all_names(arguments)).await;
        let deadline = arguments.ready.deadline();
        let required = &arguments.ready.require;
        let is_settled = |snapshot: &Snapshot| match required.is_empty() {
            true => snapshot.is_settled(),
            false => servers::are_settled(snapshot, required),
        };
        Ok(servers::wait_until_settled(invocation, host, deadline, is_settled).await)
    })?;
    let done = show(invocation, &shown, &snapshot);
    Ok(match arguments.ready.expect_connected(&snapshot) {
        Err(failure) => done.note(format!("\n{}\n", failure.message)).failed(failure),
        Ok(()) if arguments.names.is_empty() => unusable_files::incomplete(&configuration, done),
        Ok(()) => done,
    })
}

/// The named and the required servers; empty for all.
fn all_names(arguments: &StatusArgs) -> Vec<String> {
    match arguments.names.is_empty() {
        true => Vec::new(),
        false => arguments.names.iter().chain(&arguments.ready.require).cloned().collect(),
    }
}

fn show(
    invocation: &Invocation,
    servers: &[&ResolvedServer],
    snapshot: &Snapshot,
) -> CommandOutput {
    if invocation.wants_json() {
        let connection = |it: &ResolvedServer| snapshot.servers.get(&it.name).map(AsRef::as_ref);
        let as_json =
            |it: &&ResolvedServer| server_json::server_json(&invocation.env, it, connection(it));
        let servers: Vec<Json> = servers.iter().map(as_json).collect();
        return json_output(&account_text::add_to(
            invocation.known_account(),
            json!({"servers": servers}),
        ));
    }
    if servers.is_empty() {
        return CommandOutput::text(
            "No MCP servers to connect to: `swb list` shows which files were read.\n",
        )
        .note(account_text::note(invocation.known_account()));
    }
    let mut done =
        CommandOutput::text(connection_text::status_table(&invocation.env, servers, snapshot));
    for server in servers {
        match snapshot.servers.get(&server.name) {
            Some(view) => done.notes.push_str(&connection_text::problem_text(view)),
            None => {
                if let Some(reason) = server_text::state_reason(&invocation.env, server) {
                    done.notes
                        .push_str(&format!("note: `{}`: {reason}\n", printable(&server.name)));
                }
            }
        }
    }
    done.notes.push_str(&account_text::note(invocation.known_account()));
    if !done.notes.is_empty() {
        done.notes.insert(0, '\n');
    }
    done
}

/// Keeps running: follows the configuration, serves `swb reconnect`, and prints changes.
fn watch(
    arguments: &StatusArgs,
    invocation: &Invocation,
    configuration: Configuration,
) -> Result<CommandOutput, Failure> {
    let watched = host::with_host(invocation, RetryPolicy::RetryWithBackoff, async |host| {
        let cannot = |error| {
            Failure::new(Exit::Failure, "the configuration cannot be watched").caused_by(error)
        };
        let mut watcher =
            ConfigWatcher::start(invocation.load_options(), &configuration).map_err(cannot)?;
        let targets = control::ControlTargets {
            host: host.clone(),
            approvals: None,
            handover: None,
            gateway: None,
            dashboard: None,
        };
        let control = control::serve(targets, &invocation.env.paths.control_sockets());
        let mut screen = WatchDisplay { invocation, drawn_lines: 0, last_lines: BTreeMap::new() };
        let mut configuration = configuration;
        servers::apply_configuration(host, &configuration, &all_names(arguments)).await;
        let mut changes = host.watch();
        let _watched = host.watch_servers();
        loop {
            let snapshot = changes.borrow_and_update().clone();
            if screen.show(arguments, &configuration, &snapshot) == StdoutState::Closed {
                break;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { break },
                next = watcher.next() => if let Some(next) = next {
                    configuration = next;
                    servers::apply_configuration(host, &configuration, &all_names(arguments)).await;
                },
            }
        }
        control.close().await;
        Ok(())
    });
    match watched {
        // An interrupt is the normal end of a watch.
        Err(failure) if failure.exit == Exit::Interrupted => Ok(CommandOutput::default()),
        Ok(()) => Ok(CommandOutput::default()),
        Err(failure) => Err(failure),
    }
}

/// What is on the screen.
struct WatchDisplay<'s> {
    invocation: &'s Invocation,
    drawn_lines: usize,
    last_lines: BTreeMap<String, String>,
}

impl WatchDisplay<'_> {
    fn show(
        &mut self,
        arguments: &StatusArgs,
        configuration: &Configuration,
        snapshot: &Arc<Snapshot>,
    ) -> StdoutState {
        let is_screen =
            self.invocation.env.terminal.stdout_is_terminal && !self.invocation.wants_json();
        if !is_screen {
            return self.lines(configuration, snapshot);
        }
        let winners = configuration.effective.servers.iter().filter(|it| it.is_selected());
        let servers: Vec<&ResolvedServer> = winners
            .filter(|it| arguments.names.is_empty() || arguments.names.contains(&it.name))
            .collect();
        let mut text = connection_text::status_table(&self.invocation.env, &servers, snapshot);
        for view in snapshot.servers.values() {
            if let Some(cause) = view.status.cause() {
                let line =
                    format!("`{}`: {}", printable(&view.name), printable(&cause.to_string()));
                let width = self.invocation.env.terminal.width;
                text.push_str(&line.chars().take(width).collect::<String>());
                text.push('\n');
            }
        }
        let drawn = text.lines().count();
        let reader = report::print_stdout(&report::redraw(self.drawn_lines, &text));
        self.drawn_lines = drawn;
        reader
    }

    /// Prints one line for each server that changed.
    fn lines(&mut self, configuration: &Configuration, snapshot: &Snapshot) -> StdoutState {
        let mut now = BTreeMap::new();
        let mut text = String::new();
        for (name, view) in &snapshot.servers {
            let server = configuration.effective.winner(name);
            let line = match (self.invocation.wants_json(), server) {
                (true, Some(server)) => {
                    json_line(&server_json::server_json(&self.invocation.env, server, Some(view)))
                }
                // A server that the configuration no longer has.
                (true, None) => continue,
                (false, _) => change_line(view),
            };
            if self.last_lines.get(name) != Some(&line) {
                text.push_str(&line);
            }
            now.insert(name.clone(), line);
        }
        for name in self.last_lines.keys().filter(|name| !now.contains_key(*name)) {
            let gone = match self.invocation.wants_json() {
                true => json_line(&json!({"name": name, "state": "removed"})),
                false => format!("{}  removed\n", printable(name)),
            };
            text.push_str(&gone);
        }
        self.last_lines = now;
        report::print_stdout(&text)
    }
}

fn change_line(view: &ServerView) -> String {
    let name = printable(&view.name);
    let state = view.status.label();
    match (&view.status, view.status.cause()) {
        (Status::Connected, _) => {
            let tools = view.catalogue.items(ListKind::Tools).len();
            format!("{name}  {state}, {}\n", pluralize(tools, "tool", "tools"))
        }
        (_, Some(cause)) => format!("{name}  {state}: {}\n", printable(&cause.to_string())),
        (_, None) => format!("{name}  {state}\n"),
    }
}
