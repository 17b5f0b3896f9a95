//! A call through the library with and without the shared host, to the same kind of server over its standard streams.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use switchboard::config::permission::{PermissionEffect, PermissionRules, ToolRule};
use switchboard::config::settings::sharing::SharingSettings;
use switchboard::connection::RetryPolicy;
use switchboard::permission::ActiveRules;
use switchboard::request::RequestOptions;
use switchboard::sharing::SharingOptions;
use switchboard::sharing::share::client::{ClientOptions, SharedHostClient};
use switchboard::sharing::share::protocol::{Build, ClientInfo};
use switchboard::sources::{Paths, loader};
use switchboard::{CallContext, Host, HostEnv, HostOptions, ToolCall};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use super::shared_home::{SharedHome, echo_entry};
use crate::benchmarks::calls::placement::Placement;
use crate::effort;
use crate::failure::{self, Failure};
use crate::workspace::Workspace;

const REPETITIONS: usize = 9;
const CALLS: usize = 4_000;
const WARM_UP_CALLS: usize = 500;
const TIMEOUT: Duration = Duration::from_secs(30);

/// The median time of a call.
pub struct CallTimes {
    /// Where all processes run.
    pub placement: Placement,
    /// With a server of the process itself.
    pub direct: Duration,
    /// With a server of the shared host.
    pub shared: Duration,
}

impl CallTimes {
    /// How much longer a call through the shared host takes, in microseconds. Negative if it is faster.
    pub fn more_microseconds(&self) -> f64 {
        (self.shared.as_secs_f64() - self.direct.as_secs_f64()) * 1e6
    }
}

/// Measures both on one core, then on any.
pub fn measure(workspace: &Workspace, swb: &Path) -> Result<Vec<CallTimes>, Failure> {
    let placements = [Placement::OneCore, Placement::AnyCore];
    placements.into_iter().map(|it| it.during(|| measure_at(it, workspace, swb))).collect()
}

/// Measures both in turn, many calls one after the other. All processes start here, so they have the placement of this one.
fn measure_at(
    placement: Placement,
    workspace: &Workspace,
    swb: &Path,
) -> Result<CallTimes, Failure> {
    let mut servers = Map::new();
    servers.insert("echo".to_owned(), echo_entry("stdio")?);
    let home = SharedHome::open(workspace, swb, servers)?;
    // Starts the host.
    failure::output(home.sandbox.command(swb).args(["call", "echo/echo", "size:=100"]))?;
    let folder = home.host_folder()?;
    let failed = |error| Failure::client("host", error);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut direct, mut shared) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let options = SharingOptions {
            client: SharedHostClient::new(ClientOptions {
                folder,
                // Older than any host, so that none is replaced.
                build: Build { version: "0".to_owned(), written: 0 },
                launcher: None,
            }),
            settings: SharingSettings::default(),
            client_info: ClientInfo {
                pid: std::process::id(),
                command: "swb-bench".to_owned(),
                folder: home.sandbox.home().to_owned(),
            },
        };
        let before = home.shared_calls()?;
        let alone = Session::open(home.sandbox.home(), None).await?;
        let sharing = Session::open(home.sandbox.home(), Some(options)).await?;
        for repetition in 0..effort::repetitions(REPETITIONS) {
            // Neither is always the first.
            if repetition % 2 == 0 {
                direct.extend(alone.calls().await?);
                shared.extend(sharing.calls().await?);
            } else {
                shared.extend(sharing.calls().await?);
                direct.extend(alone.calls().await?);
            }
        }
        let carried = home.shared_calls()? - before;
        alone.close().await;
        sharing.close().await;
        match usize::try_from(carried) {
            Ok(carried) if carried >= shared.len() => Ok(()),
            Ok(_) | Err(_) => Err(Failure::client("host", "the calls did not use the shared host")),
        }
    })?;
    Ok(CallTimes { placement, direct: super::median(direct), shared: super::median(shared) })
}

struct Session {
    host: Host,
    context: CallContext,
    task: JoinHandle<()>,
    _files: tempfile::TempDir,
}

impl Session {
    async fn open(home: &Path, sharing: Option<SharingOptions>) -> Result<Session, Failure> {
        let failed = |error| Failure::client("host", error);
        let files = tempfile::tempdir().map_err(failed)?;
        let paths = Paths::in_dir(files.path());
        let host_env = HostEnv { working_folder: home.to_owned(), ..HostEnv::default() };
        let mut options = HostOptions::new(paths.clone(), host_env);
        options.retry_policy = RetryPolicy::NoRetry;
        options.sharing = sharing;
        let (host, task) = Host::start(options).map_err(failed)?;
        let context = CallContext {
            rules: ActiveRules::new(rules()),
            ..CallContext::new(host.watch_pool(), &paths).map_err(failed)?
        };
        let servers = json!({"mcpServers": {"echo": echo_entry("stdio")?}}).to_string();
        host.apply(&loader::from_program("bench", &servers)).await;
        host.settled().await;
        match host.settled_pool().await.find("mcp__echo__echo") {
            Some(_) => Ok(Session { host, context, task, _files: files }),
            None => Err(Failure::NotConnected { connected: 0, of: 1 }),
        }
    }

    /// Makes calls one after the other. The first ones are not counted.
    async fn calls(&self) -> Result<Vec<Duration>, Failure> {
        let mut times = Vec::new();
        for _ in 0..effort::scaled(WARM_UP_CALLS) + effort::scaled(CALLS) {
            let start = Instant::now();
            let call = ToolCall {
                caller: "bench".to_owned(),
                call_id: None,
                exposed_name: "mcp__echo__echo".to_owned(),
                arguments: json!({"size": 100}),
                options: RequestOptions::new(TIMEOUT),
            };
            let output = self.host.call_with(&self.context, call).await;
            output.map_err(|error| Failure::client("host", error))?;
            times.push(start.elapsed());
        }
        Ok(times.split_off(effort::scaled(WARM_UP_CALLS)))
    }

    async fn close(self) {
        self.host.shutdown().await;
        drop(self.host);
        let _panicked = self.task.await;
    }
}

fn rules() -> PermissionRules {
    let mut rules = PermissionRules::default();
    rules.add_for_session(PermissionEffect::Allow, ToolRule::parse("mcp__echo").expect("a rule"));
    rules
}
