//! From start to the first response: a client starts the echo server, performs the handshake and makes one call.
//! `many_servers` measures how this grows with the number of servers.

mod many_servers;

use std::ffi::OsString;

use crate::benchmarks::calls::{client, sdk_clients};
use crate::child_server;
use crate::failure::Failure;
use crate::machine;
use crate::measured_program;
use crate::measured_program::{MeasuredProgram, TurnRate};
use crate::output::plot::{Bars, Role, Series};
use crate::output::report::{Extent, Picture, Report};
use crate::output::table;
use crate::process_cost::Measurement;
use crate::sandbox::Sandbox;
use crate::workspace::Workspace;

const OUR_LABEL: &str = "**switchboard**";

/// Runs the benchmark.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let rivals = sdk_clients::prepare(workspace)?;
    let own = child_server::own_program()?;
    let ours = |name: &str| vec![own.clone().into(), client::SUBCOMMAND.into(), name.into()];
    let subjects = [
        subject("written by hand", ours("by-hand"), TurnRate::TwicePerRound),
        subject(OUR_LABEL, ours("raw"), TurnRate::TwicePerRound),
        subject("Rust SDK (rmcp 3.8.0)", rivals.rmcp, TurnRate::TwicePerRound),
        subject("TypeScript SDK 1.32.2", rivals.typescript_v1, TurnRate::EveryFifthRound),
        subject("TypeScript SDK 2.4.0", rivals.typescript_v2, TurnRate::EveryFifthRound),
        subject("Python SDK 2.3.0", rivals.python, TurnRate::EveryFifthRound),
    ];
    let subjects = subjects.into_iter().collect::<Result<Vec<_>, _>>()?;
    let sandbox = Sandbox::new(&workspace.search_path)?;
    let measurements = measured_program::measure_interleaved(&sandbox, &subjects)?;
    let (growth, of_crowd) = many_servers::measure(workspace)?;
    let picture = picture(&subjects, &measurements);
    let text = format!(
        "\
# From start to the first response

Written by `cargo xtask bench start`. Machine: {}.

A client starts, starts the echo server, performs the handshake, makes one call of 100 B over standard input and output, stops the
server and exits. The clients run in turn. CPU and peak include the server, which is the same small program for all.

{}
{}
{growth}",
        machine::describe(),
        table::program_table(&subjects, &measurements, OUR_LABEL),
        picture.link(),
    );
    let pictures = [picture].into_iter().chain(of_crowd).collect();
    Ok(Report { name: "start", text, pictures, budgets: Vec::new(), extent: Extent::Whole })
}

fn picture(subjects: &[MeasuredProgram], measurements: &[Option<Measurement>]) -> Picture {
    let title = "From start to the first response";
    let groups = subjects.iter().map(|it| it.label.to_owned()).collect();
    let figures = |figure: fn(&Measurement) -> f64| {
        measurements.iter().map(|it| it.as_ref().map(figure)).collect::<Vec<_>>()
    };
    let time = figures(|it| it.median_wall().as_secs_f64() * 1e3);
    let memory = figures(Measurement::peak_megabytes);
    let series = vec![Series::new("ms", Role::Ours, time), Series::new("MB", Role::Other, memory)];
    let across = "milliseconds, megabytes";
    Picture::new("start", title, Bars { title, x_axis: across, groups, series }.draw())
}

fn subject(
    label: &'static str,
    mut command: Vec<OsString>,
    pace: TurnRate,
) -> Result<MeasuredProgram, Failure> {
    command.extend(["stdio", "100", "1", "1"].map(OsString::from));
    command.extend(child_server::echo_command("stdio")?);
    Ok(MeasuredProgram { program: label, label, note: String::new(), pace, command: Some(command) })
}
