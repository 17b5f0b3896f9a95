//! The program `swb` with the administrator's folder and the time of its build taken from variables, for tests alone.
//! `swb` itself has no such variable: nothing may lift an administrator's control.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let managed = std::env::var_os("SWB_TESTBED_MANAGED").map(PathBuf::from);
    let written = std::env::var("SWB_TESTBED_BUILD").ok().and_then(|it| it.parse().ok());
    swb_cli::run(managed.unwrap_or_else(swb_cli::env::managed_folder), written)
}
