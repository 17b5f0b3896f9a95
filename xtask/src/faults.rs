//! Breaks what `swb` stands on while it works: installs the system's tools for that, builds, and starts `swb-faults`.

use std::process::Command;

use crate::failure::Failure;
use crate::run::{self, Closing, Step};
use crate::servers::{self, Runtime};
use crate::tools::ToolError;
use crate::workshop::Workshop;

/// How long it goes on among the other checks, and what chance begins with there: what is tried is the same each time.
const AMONG_CHECKS: [&str; 4] = ["--seconds", "120", "--seed", "1"];

const TOOLS: [Runtime; 4] = [
    Runtime {
        needed: "unshare, nsenter and mount",
        check: &["sh", "-c", "unshare --version && nsenter --version && mount --version"],
        packages: &["util-linux", "mount"],
    },
    Runtime { needed: "ip", check: &["ip", "-Version"], packages: &["iproute2"] },
    Runtime { needed: "curl", check: &["curl", "--version"], packages: &["curl"] },
    Runtime {
        needed: "faketime",
        check: &["faketime", "-f", "+1h", "true"],
        packages: &["faketime"],
    },
];

/// One run by itself; `arguments` go to the program.
pub fn run(workshop: &Workshop, arguments: &[String]) -> Result<(), Failure> {
    prepare(workshop)?;
    servers::prepare(workshop)?;
    let mut faults = program(workshop);
    faults.args(arguments);
    run::all(vec![build(workshop), Step::new("faults", faults, Closing::OwnSummary)])?;
    Ok(())
}

/// Makes sure that the system has what is needed, where there are namespaces at all.
pub fn prepare(workshop: &Workshop) -> Result<(), ToolError> {
    match cfg!(target_os = "linux") {
        true => TOOLS.iter().try_for_each(|tool| tool.prepare(workshop)),
        false => Ok(()),
    }
}

/// The steps among the other checks. Namespaces are Linux's; elsewhere there are none, and that is said.
pub fn among_checks(workshop: &Workshop) -> Vec<Step> {
    if cfg!(target_os = "linux") {
        return steps(workshop).into();
    }
    eprintln!("==> faults: nothing can be broken on this system; that takes Linux");
    Vec::new()
}

fn steps(workshop: &Workshop) -> [Step; 2] {
    let mut faults = program(workshop);
    faults.args(AMONG_CHECKS);
    [build(workshop), Step::new("faults", faults, Closing::Timed)]
}

fn build(workshop: &Workshop) -> Step {
    let build = workshop.cargo("build --workspace --bins --examples --locked");
    Step::new("programs", build, Closing::Timed)
}

/// It finds `swb` and the scripted servers beside itself.
fn program(workshop: &Workshop) -> Command {
    let mut command = workshop.program(workshop.target.join("debug").join("swb-faults"));
    command.env(servers::VARIABLE, servers::folder(workshop));
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn programs_are_built_before_they_are_run() {
        let lines: Vec<String> =
            steps(&Workshop::at(Path::new("."))).iter().map(Step::line).collect();
        assert_eq!(
            lines,
            [
                "cargo build --workspace --bins --examples --locked",
                "swb-faults --seconds 120 --seed 1"
            ]
        );
    }
}
