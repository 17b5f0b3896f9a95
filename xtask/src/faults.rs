//! Breaks what `swb` stands on while it works: installs the system's tools for that, builds, and starts `swb-faults`.

use std::process::Command;

use crate::failure::Failure;
use crate::run::{self, Closing, Step};
use crate::servers::{self, Runtime};
use crate::tools::ToolError;
use crate::workshop::Workshop;

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

/// Makes sure that the system has what is needed.
fn prepare(workshop: &Workshop) -> Result<(), ToolError> {
    TOOLS.iter().try_for_each(|tool| tool.prepare(workshop))
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
