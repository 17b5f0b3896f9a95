//! The program `swb`.

use std::process::ExitCode;

fn main() -> ExitCode {
    swb_cli::run(swb_cli::machine::managed_folder())
}
