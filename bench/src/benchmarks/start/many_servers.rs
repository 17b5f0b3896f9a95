//! From start to many servers at once: `swb status` next to programs on the official TypeScript SDKs.

use std::ffi::OsString;

use serde_json::json;

use crate::child_server::echo_command;
use crate::effort;
use crate::failure::Failure;
use crate::output::plot::{Lines, Role, Series, Tick};
use crate::output::report::Picture;
use crate::output::table;
use crate::output::table::{megabytes, milliseconds};
use crate::process_cost;
use crate::process_cost::Measurement;
use crate::sandbox::Sandbox;
use crate::workspace::Workspace;

const COUNTS: [usize; 5] = [1, 5, 10, 20, 50];
const REPETITIONS: usize = 5;

/// One program, and what each number of servers cost it.
struct Program {
    label: &'static str,
    role: Role,
    /// Its command for each number of servers.
    commands: Vec<Vec<OsString>>,
    costs: Vec<Measurement>,
}

impl Program {
    fn new(label: &'static str, role: Role, commands: Vec<Vec<OsString>>) -> Program {
        let costs = commands.iter().map(|_| Measurement::default()).collect();
        Program { label, role, commands, costs }
    }
}

/// Measures; what is told of it, and its pictures. The SDKs must have been installed.
pub fn measure(workspace: &Workspace) -> Result<(String, [Picture; 2]), Failure> {
    let swb = workspace.swb()?;
    let scenes = COUNTS.map(|count| sandbox(workspace, &swb, count));
    let scenes = scenes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let status = COUNTS.map(|_| vec![swb.clone().into(), "status".into()]);
    let mut programs = vec![
        Program::new("**`swb status`**", Role::Ours, status.to_vec()),
        Program::new("TypeScript SDK 1.32.2", Role::Other, typescript(workspace, "v1")?),
        Program::new("TypeScript SDK 2.4.0", Role::Other, typescript(workspace, "v2")?),
    ];
    let repetitions = effort::repetitions(REPETITIONS);
    for repetition in 1..=repetitions {
        eprintln!("measuring many servers, repetition {repetition} of {repetitions}");
        for (place, sandbox) in scenes.iter().enumerate() {
            for program in &mut programs {
                let more = process_cost::measure_runs(sandbox, &program.commands[place], 1)?;
                let before = std::mem::take(&mut program.costs[place]);
                program.costs[place] = before.merge(more);
            }
        }
    }
    Ok(report(&programs))
}

/// A home with so many echo servers, all of which can be connected to.
fn sandbox(workspace: &Workspace, swb: &std::path::Path, count: usize) -> Result<Sandbox, Failure> {
    let [program, word, kind] = echo_command("stdio")?.map(|it| it.to_string_lossy().into_owned());
    let entry = json!({"command": program, "args": [word, kind]});
    let servers = (0..count).map(|it| (format!("server-{it}"), entry.clone())).collect();
    let sandbox = Sandbox::with_servers(swb, &workspace.search_path, servers)?;
    let answer = sandbox.query_json(swb, &["status"])?;
    let servers = answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    match servers.iter().filter(|server| server["state"] == "connected").count() {
        connected if connected == count => Ok(sandbox),
        connected => Err(Failure::NotConnected { connected, of: count }),
    }
}

fn typescript(workspace: &Workspace, version: &str) -> Result<Vec<Vec<OsString>>, Failure> {
    let script = workspace.root.join("bench").join("rivals").join("typescript_many.mjs");
    let echo = echo_command("stdio")?;
    let command = |count: usize| {
        let words: [OsString; 4] =
            ["node".into(), script.clone().into(), version.into(), count.to_string().into()];
        words.into_iter().chain(echo.clone()).collect()
    };
    Ok(COUNTS.map(command).to_vec())
}

fn report(programs: &[Program]) -> (String, [Picture; 2]) {
    let cell = |it: &Measurement| {
        format!("{} / {}", milliseconds(it.median_wall()), megabytes(it.peak_megabytes()))
    };
    let row = |program: &Program| {
        let mut cells = vec![program.label.to_owned()];
        cells.extend(program.costs.iter().map(cell));
        cells
    };
    let rows: Vec<Vec<String>> = programs.iter().map(row).collect();
    let mut header = vec!["ms / peak MB".to_owned()];
    header.extend(COUNTS.map(|it| it.to_string()));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let pictures = [
        picture("start-many", "milliseconds, median", programs, |it| {
            it.median_wall().as_secs_f64() * 1e3
        }),
        picture("start-memory", "peak megabytes", programs, Measurement::peak_megabytes),
    ];
    let text = format!(
        "\
## Many servers

The time until the given number of echo servers is started and connected, their tools are listed, and all are stopped again. The
programs on the SDKs connect to all at once; `swb` uses its default number of concurrent starts. Medians of {REPETITIONS} runs in turn; peak is that
of the largest process.

{}
{}
{}",
        table::markdown(&header, &[], &rows),
        pictures[0].link(),
        pictures[1].link(),
    );
    (text, pictures)
}

fn picture(
    name: &str,
    upwards: &str,
    programs: &[Program],
    figure: fn(&Measurement) -> f64,
) -> Picture {
    let title = match name {
        "start-memory" => "Memory by the number of servers",
        _ => "From start to many servers",
    };
    let series = programs.iter().map(|program| {
        let figures = program.costs.iter().map(|it| Some(figure(it))).collect();
        Series::new(program.label, program.role, figures)
    });
    let (stops, series) = (COUNTS.map(Tick::of).to_vec(), series.collect());
    Picture::new(
        name,
        title,
        Lines { title, x_axis: "servers", y_axis: upwards, ticks: stops, series }.draw(),
    )
}
