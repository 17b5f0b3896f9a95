//! Servers that the suite is let loose on: how each is started, where it listens, and what can be asked of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::scenarios::Group;
use super::{SuiteError, io_error};
use crate::run;
use crate::workshop::Workshop;

/// The server on the official SDK that stands behind the gateway.
const UPSTREAM: &str = "conformance_upstream";
/// What the gateway calls it.
const NAME: &str = "upstream";
/// The gateway, with the names of its upstream and for everybody on this machine.
const GATEWAY: &[&str] =
    &["serve", "--pool", "--http", "127.0.0.1:0", "--no-auth", "--names", "plain"];
/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which protocols the upstream is made to know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// All.
    Both,
    /// Those of 2025 and before.
    Legacy,
    /// That of 2026.
    Modern,
}

impl Era {
    const ALL: [Era; 3] = [Era::Both, Era::Legacy, Era::Modern];

    fn name(self) -> &'static str {
        match self {
            Era::Both => "both",
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

/// How the gateway reaches its upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// Streamable HTTP.
    Http,
    /// Standard input and output.
    Stdio,
}

/// A server to test.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Subject {
    /// Whatever answers there. Somebody else has started it.
    Elsewhere(String),
    /// The upstream, with nothing in front.
    Upstream(Era),
    /// The gateway in front of the upstream.
    Gateway(Way, Era),
}

/// The upstream in every era.
pub fn all_upstreams() -> Vec<Subject> {
    Era::ALL.map(Subject::Upstream).to_vec()
}

/// The gateway in front of every upstream.
pub fn all_gateways() -> Vec<Subject> {
    let ways = [Way::Http, Way::Stdio];
    ways.into_iter().flat_map(|way| Era::ALL.map(|era| Subject::Gateway(way, era))).collect()
}

impl Subject {
    /// What it is called in the tables.
    pub fn title(&self) -> String {
        match self {
            Subject::Elsewhere(url) => url.clone(),
            Subject::Upstream(era) => format!("upstream alone, {}", era.name()),
            Subject::Gateway(Way::Http, era) => format!("http, {}", era.name()),
            Subject::Gateway(Way::Stdio, era) => format!("stdio, {}", era.name()),
        }
    }

    /// Can it be asked such things? An upstream alone knows only its own era, and there were no tasks of this kind
    /// before 2026. The gateway speaks every version, whatever its upstream speaks.
    pub fn has(&self, group: Group) -> bool {
        let is_old = matches!(group, Group::V20250618 | Group::V20251125);
        match self {
            Subject::Elsewhere(_) => true,
            Subject::Upstream(Era::Both) => true,
            Subject::Upstream(Era::Legacy) => is_old,
            Subject::Upstream(Era::Modern) => !is_old,
            Subject::Gateway(_, Era::Both | Era::Modern) => true,
            Subject::Gateway(_, Era::Legacy) => group != Group::Tasks,
        }
    }

    /// Is it beyond any gateway? Two scenarios want questions to have the names that a modern server gives them, and
    /// answers to count that come before anything was asked; a legacy server's questions have no names. And a legacy
    /// program is told once what its client can do, so that it cannot be exact where several clients share it.
    pub fn is_beyond(&self, scenario: &str) -> bool {
        match self {
            Subject::Gateway(way, Era::Legacy) => match scenario {
                "input-required-result-basic-elicitation"
                | "input-required-result-ignore-extra-params" => true,
                "server-stateless" => *way == Way::Stdio,
                _ => false,
            },
            Subject::Gateway(_, Era::Both | Era::Modern)
            | Subject::Elsewhere(_)
            | Subject::Upstream(_) => false,
        }
    }

    /// Starts it, and what stands behind it.
    pub fn start(&self, workshop: &Workshop) -> Result<Running, SuiteError> {
        match self {
            Subject::Elsewhere(url) => Ok(Running { url: url.clone(), programs: Vec::new() }),
            Subject::Upstream(era) => Running::start(upstream_over_http(workshop, *era)),
            Subject::Gateway(way, era) => {
                let (behind, entry) = match way {
                    Way::Http => {
                        let behind = Running::start(upstream_over_http(workshop, *era))?;
                        let entry = json!({"type": "http", "url": behind.url()});
                        (Some(behind), entry)
                    }
                    Way::Stdio => {
                        let arguments = ["--stdio", "--era", era.name()];
                        let program = upstream_program(workshop);
                        (None, json!({"type": "stdio", "command": program, "args": arguments}))
                    }
                };
                let home = workshop.target.join("tools").join("conformance").join("home");
                let settings = home.join(".config").join("switchboard").join("settings.json");
                furnish(&home, &settings, entry).map_err(|error| io_error(&settings, error))?;
                let mut gateway = workshop.program(workshop.target.join("debug").join("swb"));
                gateway.args(GATEWAY).current_dir(&home).env("HOME", &home);
                for variable in
                    ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"]
                {
                    gateway.env_remove(variable);
                }
                let mut running = Running::start(gateway)?;
                // The gateway goes first, when all of this ends.
                running.programs.extend(behind.into_iter().flat_map(Running::into_programs));
                Ok(running)
            }
        }
    }
}

fn upstream_program(workshop: &Workshop) -> PathBuf {
    workshop.target.join("debug").join("examples").join(UPSTREAM)
}

fn upstream_over_http(workshop: &Workshop, era: Era) -> Command {
    let mut command = workshop.program(upstream_program(workshop));
    command.args(["--http", "127.0.0.1:0", "--era", era.name()]);
    command
}

/// A home in which nothing is configured but the upstream, and nobody has to be asked about it.
fn furnish(home: &Path, settings: &Path, mut entry: Json) -> std::io::Result<()> {
    let _absent = fs::remove_dir_all(home);
    fs::create_dir_all(settings.parent().unwrap_or(home))?;
    entry["trust"] = json!(true);
    let servers = json!({"mcpServers": {NAME: entry}});
    fs::write(settings, format!("{servers:#}\n"))
}

/// A server that runs. Dropping it ends it, and what stands behind it.
#[derive(Debug)]
pub struct Running {
    url: String,
    programs: Vec<Program>,
}

/// A program that ends with us.
#[derive(Debug)]
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

impl Running {
    /// Starts a program and waits for the line that says where it listens.
    fn start(mut command: Command) -> Result<Running, SuiteError> {
        let line = run::line(&command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let path = PathBuf::from(command.get_program());
        let mut child = command.spawn().map_err(|error| io_error(&path, error))?;
        let said = child.stdout.take().map(addresses);
        let program = Program(child);
        let url = said.and_then(|it| it.recv_timeout(PATIENCE).ok());
        let url = url.ok_or(SuiteError::Silent(line))?;
        Ok(Running { url, programs: vec![program] })
    }

    /// Where it listens. The suite wants to see `localhost`, by name.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn into_programs(self) -> Vec<Program> {
        self.programs
    }
}

/// The first address that a program says; the rest of what it says is read and forgotten, so that it is never kept
/// waiting. Ends with the program.
fn addresses(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (found, receiver) = sync_channel(1);
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(url) = address(&line) {
                let _only_the_first_counts = found.try_send(url);
            }
        }
    });
    receiver
}

fn address(line: &str) -> Option<String> {
    let url = line.split_whitespace().find(|word| word.starts_with("http://"))?;
    Some(url.replacen("127.0.0.1", "localhost", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_what_a_program_says() {
        let said =
            "starting\nlistening on http://127.0.0.1:4711/mcp\nsee http://127.0.0.1:1/docs\n";
        let url = addresses(said.as_bytes()).recv_timeout(PATIENCE).unwrap();
        assert_eq!(url, "http://localhost:4711/mcp");
    }

    #[test]
    fn a_program_that_ends_without_an_address_is_named() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo nothing to see"]);
        let error = Running::start(command).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c echo nothing to see` did not say where it listens");
    }

    #[test]
    fn a_home_holds_the_upstream_alone() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("home").join("settings.json");
        let home = folder.path().join("home");
        fs::create_dir_all(home.join("old")).unwrap();
        furnish(&home, &settings, json!({"type": "http", "url": "http://localhost:1/mcp"}))
            .unwrap();
        assert!(!home.join("old").exists());
        assert_eq!(
            fs::read_to_string(&settings).unwrap().parse::<Json>().unwrap(),
            json!({"mcpServers": {"upstream": {
                "type": "http", "url": "http://localhost:1/mcp", "trust": true
            }}})
        );
    }

    #[test]
    fn nobody_is_asked_what_their_era_does_not_have() {
        let groups = |subject: Subject| {
            let all = super::super::scenarios::Side::Server.groups().iter();
            all.filter(|group| subject.has(**group)).map(|group| group.title()).collect::<Vec<_>>()
        };
        assert_eq!(groups(Subject::Upstream(Era::Legacy)), ["2025-06-18", "2025-11-25"]);
        assert_eq!(groups(Subject::Upstream(Era::Modern)), ["2026-07-28", "tasks", "skills"]);
        assert_eq!(
            groups(Subject::Gateway(Way::Http, Era::Legacy)),
            ["2025-06-18", "2025-11-25", "2026-07-28", "skills"]
        );
    }
}
