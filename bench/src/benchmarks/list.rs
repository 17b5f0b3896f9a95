//! Measures `swb list`: two hundred servers against the budget, ten servers next to other programs.
//! Writes the report page and prints it.

use std::time::Duration;

use crate::failure::Failure;
use crate::machine;
use crate::measured_program;
use crate::measured_program::MeasuredProgram;
use crate::output::plot::{Bars, Role, Series};
use crate::output::report::{Extent, Picture, Report};
use crate::output::table;
use crate::output::table::{megabytes, milliseconds};
use crate::process_cost::Measurement;
use crate::sandbox::{few, many};
use crate::workspace::Workspace;

const JSON: &str = "`swb list --json`";
const TEXT: &str = "`swb list`";

const CPU_BUDGET: Duration = Duration::from_millis(15);
const MEMORY_BUDGET: f64 = 25.0;

/// The peer that ten servers may not take longer than, by its program.
const COMPARED_HOST: &str = "codex";

/// Subjects in the order of the table, and what was measured of each.
struct Rows {
    subjects: Vec<MeasuredProgram>,
    measurements: Vec<Option<Measurement>>,
}

/// Runs the benchmark.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let swb = workspace.swb()?;
    let own = || {
        vec![
            measured_program::swb(&swb, JSON, &["list", "--json"]),
            measured_program::swb(&swb, TEXT, &["list"]),
        ]
    };

    eprintln!("measuring {}", many::EXPECTED);
    let many = many::build(&swb, &workspace.search_path)?;
    let mut subjects = own();
    subjects.push(measured_program::noop_process(workspace));
    let measurements = measured_program::measure_interleaved(&many.sandbox, &subjects)?;
    let many_rows = Rows { subjects, measurements };

    eprintln!("measuring ten servers, next to other programs");
    let few = few::build(&swb, &workspace.search_path)?;
    let mut subjects = own();
    subjects.extend(measured_program::other_hosts(workspace));
    for subject in &subjects {
        measured_program::verify(subject, &few, &few::names())?;
    }
    let measurements = measured_program::measure_interleaved(&few, &subjects)?;
    let few_rows = Rows { subjects, measurements };

    let states: Vec<String> =
        many.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let pictures = vec![picture(&few_rows)];
    Ok(Report {
        name: "list",
        text: page(&states.join(", "), &many_rows, &few_rows, &pictures),
        pictures,
        budgets: budgets(&many_rows, &few_rows),
        extent: Extent::Whole,
    })
}

impl Rows {
    fn table(&self) -> String {
        table::program_table(&self.subjects, &self.measurements, TEXT)
    }

    fn measured(&self) -> impl Iterator<Item = (&MeasuredProgram, &Measurement)> {
        let rows = self.subjects.iter().zip(&self.measurements);
        rows.filter_map(|(subject, it)| Some((subject, it.as_ref()?)))
    }

    fn of(&self, label: &str) -> Option<&Measurement> {
        self.measured().find(|(subject, _)| subject.label == label).map(|(_, it)| it)
    }

    /// The rival's quickest form.
    fn compared_host(&self) -> Option<(&'static str, &Measurement)> {
        let forms = self.measured().filter(|(subject, _)| subject.program == COMPARED_HOST);
        let quickest = forms.min_by_key(|(_, it)| it.median_wall())?;
        Some((quickest.0.label, quickest.1))
    }
}

fn picture(few: &Rows) -> Picture {
    let title = "A list of ten servers: wall time and peak memory";
    let groups = few.measured().map(|(subject, _)| subject.label.to_owned()).collect();
    let figures = |figure: fn(&Measurement) -> f64| {
        few.measured().map(|(_, it)| Some(figure(it))).collect::<Vec<_>>()
    };
    let time = figures(|it| it.median_wall().as_secs_f64() * 1e3);
    let memory = figures(Measurement::peak_megabytes);
    let series = vec![Series::new("ms", Role::Ours, time), Series::new("MB", Role::Other, memory)];
    let across = "milliseconds, megabytes";
    Picture::new("list", title, Bars { title, x_axis: across, groups, series }.draw())
}

fn page(states: &str, many: &Rows, few: &Rows, pictures: &[Picture]) -> String {
    let header = ["budget", "limit", "measured", ""];
    let budgets = table::markdown(&header, &[3], &budgets(many, few));
    format!(
        "\
# `swb list`

Written by `cargo xtask bench list`; `cargo xtask bench install-peers` installs the other programs.
Machine: {machine}.

The programs run in turn, with only `PATH`, `HOME`, `LANG` and `SWB_SHARE=off` in the environment; their output is
discarded.
Wall is the time from start to exit of the process, CPU the median of user plus system time, and peak the largest resident set
of any process in any run. The ratios are comparable; the absolute numbers depend on the other load of the machine.

## Budgets

{budgets}
## {servers} servers in {files} files

A project 24 folders deep with a file in each, local settings, user settings with 20 allow and 20 deny entries, four plugins;
every entry has variables in its arguments and environment, or in its URL and headers.
The states of the definitions: {states}.

{many_table}
## 10 servers in the user's settings

The same ten servers in each program's own file. Their commands do not exist.

{few_table}
{picture}",
        machine = machine::describe(),
        servers = many::EXPECTED.servers,
        files = many::EXPECTED.files,
        many_table = many.table(),
        few_table = few.table(),
        picture = pictures.iter().map(Picture::link).collect::<String>(),
    )
}

fn budgets(many: &Rows, few: &Rows) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for label in [JSON, TEXT] {
        let Some(own) = many.of(label) else { continue };
        let time = own.median_cpu();
        rows.push(vec![
            format!("{label}, 200 servers: own time (CPU)"),
            format!("< {} ms", milliseconds(CPU_BUDGET)),
            format!("{} ms", milliseconds(time)),
            verdict(time < CPU_BUDGET),
        ]);
        let peak = own.peak_megabytes();
        rows.push(vec![
            format!("{label}, 200 servers: peak memory"),
            format!("< {} MB", megabytes(MEMORY_BUDGET)),
            format!("{} MB", megabytes(peak)),
            verdict(peak < MEMORY_BUDGET),
        ]);
    }
    let Some(own) = few.of(TEXT) else { return rows };
    match few.compared_host() {
        Some((label, other)) => rows.extend(comparison_rows(own, label, other)),
        None => rows.push(vec![
            format!("{TEXT}, 10 servers: no more than `{COMPARED_HOST}`"),
            "–".to_owned(),
            format!(
                "{} ms, {} MB",
                milliseconds(own.median_wall()),
                megabytes(own.peak_megabytes())
            ),
            format!("unknown: `{COMPARED_HOST}` is not installed"),
        ]),
    }
    rows
}

fn comparison_rows(own: &Measurement, label: &str, other: &Measurement) -> [Vec<String>; 2] {
    [
        vec![
            format!("{TEXT}, 10 servers: wall, no more than {label}"),
            format!("≤ {} ms", milliseconds(other.median_wall())),
            format!("{} ms", milliseconds(own.median_wall())),
            verdict(own.median_wall() <= other.median_wall()),
        ],
        vec![
            format!("{TEXT}, 10 servers: peak memory, no more than {label}"),
            format!("≤ {} MB", megabytes(other.peak_megabytes())),
            format!("{} MB", megabytes(own.peak_megabytes())),
            verdict(own.peak_megabytes() <= other.peak_megabytes()),
        ],
    ]
}

fn verdict(is_met: bool) -> String {
    if is_met { "met".to_owned() } else { "**missed**".to_owned() }
}
