//! The command that clients run to start Switchboard.

use std::path::Path;

use switchboard::config::import::FileScope;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;

const PROGRAM: &str = "swb";

/// The command for a file: the name of the program if the search path leads to it, otherwise its path. A project's
/// file always gets the name, because a path of this machine is of no use to others.
pub(super) fn command_for(scope: FileScope, invocation: &Invocation) -> Result<String, Failure> {
    let unknown = |reason: &str| {
        Failure::new(Exit::Failure, &format!("the path of this program {reason}"))
            .hint("install swb in a folder of PATH")
    };
    let program = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| unknown("is unknown").caused_by(error))?;
    if scope == FileScope::Project || is_on_search_path(&program, invocation) {
        return Ok(PROGRAM.to_owned());
    }
    program.to_str().map(str::to_owned).ok_or_else(|| unknown("is not valid text"))
}

fn is_on_search_path(program: &Path, invocation: &Invocation) -> bool {
    let search_path = invocation.env.variables.get("PATH").map_or("", String::as_str);
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let found = std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&name))
        .find(|candidate| candidate.is_file());
    found.and_then(|path| path.canonicalize().ok()).is_some_and(|path| path == program)
}
