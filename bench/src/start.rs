//! From nothing to the first answer: a client starts, starts the echo server, shakes hands and makes one call.
//! Writes the report page and prints it.

use std::ffi::OsString;
use std::fs;

use crate::calls::{client, rivals, server};
use crate::facts;
use crate::failure::Failure;
use crate::scene::Scene;
use crate::subject::{self, Pace, Subject};
use crate::table;
use crate::workplace::Workplace;

const OURS: &str = "**switchboard**";

/// Runs the benchmark.
pub fn run(workplace: &Workplace) -> Result<(), Failure> {
    let rivals = rivals::prepare(workplace)?;
    let own = server::own_program()?;
    let ours = |name: &str| vec![own.clone().into(), client::WORD.into(), name.into()];
    let subjects = [
        subject("written by hand", ours("by-hand"), Pace::Quick),
        subject(OURS, ours("raw"), Pace::Quick),
        subject("Rust SDK (rmcp 3.8.0)", rivals.rmcp, Pace::Quick),
        subject("TypeScript SDK 1.32.2", rivals.typescript_v1, Pace::Slow),
        subject("TypeScript SDK 2.4.0", rivals.typescript_v2, Pace::Slow),
        subject("Python SDK 2.3.0", rivals.python, Pace::Slow),
    ];
    let subjects = subjects.into_iter().collect::<Result<Vec<_>, _>>()?;
    let scene = Scene::new(&workplace.search_path)?;
    let measurements = subject::by_turns(&scene, &subjects)?;
    let page = format!(
        "\
# From nothing to the first answer

Written by `cargo xtask bench start`. Machine: {}.

A client starts, starts the echo server, shakes hands, makes one call of 100 B over standard streams, stops the server and ends.
Clients take turns. CPU and peak count the server too, which is the same small one for all.

{}",
        facts::line(),
        table::of_subjects(&subjects, &measurements, OURS),
    );
    print!("{page}");
    let path = workplace.report("start.md");
    fs::write(&path, page).map_err(|error| Failure::file(&path, error))
}

fn subject(
    label: &'static str,
    mut command: Vec<OsString>,
    pace: Pace,
) -> Result<Subject, Failure> {
    command.extend(["stdio", "100", "1", "1"].map(OsString::from));
    command.extend(server::echo_command("stdio")?);
    Ok(Subject { program: label, label, note: String::new(), pace, command: Some(command) })
}
