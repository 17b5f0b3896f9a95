//! The browser server next to the two that people use, on the same pages and with the same Chromium.

mod driver;
mod jobs;
mod mcp_client;
mod programs;
mod site;
mod speed;

use std::time::Duration;

use crate::effort::repetitions;
use crate::failure::Failure;
use crate::machine;
use crate::output::report::{Extent, Report};
use crate::output::table;
use crate::output::table::{megabytes, milliseconds, thousands, two_digits};
use crate::workspace::Workspace;
use driver::Driver;
use jobs::{JOBS, JobResult};
use mcp_client::failed;
use programs::{Kind, Programs};
use site::{ROWS, Site};
use speed::Speed;

const FIRST_PAGE_RATIO: f64 = 0.8;
const SNAPSHOT_RATIO: f64 = 0.2;
const DEFINITION_TOKENS: usize = 3000;
const FIRST_READ_TOKENS: usize = 10_000;
const MEMORY_MEGABYTES: f64 = 10.0;

/// The figures of one server.
struct Measured {
    kind: Kind,
    speed: Result<Speed, String>,
    definition_tokens: usize,
    first_read_tokens: usize,
}

/// A job with the results of ours and of Playwright's server.
struct JobRow {
    name: &'static str,
    results: Vec<(JobResult, usize)>,
}

/// Runs the benchmark.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let programs = Programs::prepare(workspace)?;
    let site = Site::start()?;
    let mut measured: Vec<(Kind, Result<Speed, String>)> =
        Kind::ALL.map(|kind| (kind, Ok(Speed::default()))).into_iter().collect();
    // In turn, so that the load of the machine is the same for all.
    for round in 0..repetitions(3) {
        for (kind, result) in &mut measured {
            eprintln!("round {}: {}", round + 1, kind.label());
            let folder = tempfile::tempdir().map_err(failed)?;
            if let Ok(speed) = result
                && let Err(failure) = speed::measure(&programs, *kind, &site, folder.path(), speed)
            {
                eprintln!("{}: {failure:?}", kind.label());
                *result = Err("could not be measured".to_owned());
            }
        }
    }
    let mut with_tokens = Vec::new();
    for (kind, speed) in measured {
        let texts = match &speed {
            Ok(speed) => vec![speed.definitions.clone(), speed.first_read.clone()],
            Err(_) => vec![String::new(), String::new()],
        };
        let tokens = programs.tokens(&texts)?;
        let count = |at: usize| tokens.get(at).copied().unwrap_or_default();
        with_tokens.push(Measured {
            kind,
            speed,
            definition_tokens: count(0),
            first_read_tokens: count(1),
        });
    }
    let jobs = measure_jobs(&programs, &site)?;
    let results = Results { measured: with_tokens, jobs, build: workspace.swb_build() };
    Ok(Report {
        name: "browser",
        text: results.page(),
        pictures: Vec::new(),
        budgets: results.budgets(),
        extent: Extent::Whole,
    })
}

/// Every job by both servers, each in a fresh server.
fn measure_jobs(programs: &Programs, site: &Site) -> Result<Vec<JobRow>, Failure> {
    let mut rows = Vec::new();
    for job in &JOBS {
        eprintln!("job: {}", job.name);
        let mut results = Vec::new();
        for kind in [Kind::OursWithChromium, Kind::Playwright] {
            let folder = tempfile::tempdir().map_err(failed)?;
            // Clicks by pixels are an option there, and its default would wait for a minute.
            let more = ["--caps=vision", "--timeout-navigation=10000"];
            let mut driver = Driver::new(programs.start(kind, folder.path(), site, &more)?, kind);
            driver.open(&site.url("/small2"))?;
            let result = job.measure(&mut driver, site, folder.path());
            let tokens = programs.tokens(std::slice::from_ref(&result.context))?;
            results.push((result, tokens.first().copied().unwrap_or_default()));
        }
        rows.push(JobRow { name: job.name, results });
    }
    Ok(rows)
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

struct Results {
    measured: Vec<Measured>,
    jobs: Vec<JobRow>,
    build: String,
}

type Pick = fn(&Speed) -> &Vec<Duration>;

/// The calls that are timed.
const TIMES: [(&str, Pick); 9] = [
    ("start to first page", |it| &it.first_page),
    ("navigate, small page", |it| &it.navigate),
    ("snapshot, small page", |it| &it.snapshot_small),
    ("type 9 characters", |it| &it.type_text),
    ("click", |it| &it.click),
    ("screenshot", |it| &it.screenshot),
    ("navigate, big page", |it| &it.navigate_big),
    ("snapshot, big page", |it| &it.snapshot_big),
    ("find one row, big page", |it| &it.find_big),
];

impl Results {
    fn speed(&self, kind: Kind) -> Option<&Speed> {
        self.measured.iter().find(|it| it.kind == kind)?.speed.as_ref().ok()
    }

    /// The shorter median of the others.
    fn fastest(&self, pick: Pick) -> Option<Duration> {
        let others = [Kind::Playwright, Kind::DevTools].into_iter().filter_map(|it| self.speed(it));
        others.map(pick).filter(|it| !it.is_empty()).map(|it| median(it)).min()
    }

    fn budgets(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut row = |what: &str, limit: String, measured: String, is_met: bool| {
            let verdict = if is_met { "met" } else { "**missed**" };
            rows.push(vec![what.to_owned(), limit, measured, verdict.to_owned()]);
        };
        for (kind, note) in [(Kind::Ours, ""), (Kind::OursWithChromium, ", with `chromium`")] {
            let Some(ours) = self.speed(kind) else { continue };
            for (name, pick) in TIMES {
                let (Some(other), own) = (self.fastest(pick), median(pick(ours))) else { continue };
                let limit = match name {
                    "start to first page" => FIRST_PAGE_RATIO,
                    "snapshot, big page" => SNAPSHOT_RATIO,
                    _ => 1.0,
                };
                let ratio = own.as_secs_f64() / other.as_secs_f64();
                let what = format!("{name}, over the faster one{note}");
                row(
                    &what,
                    format!("≤ {limit} ×"),
                    format!("{} ×", two_digits(ratio)),
                    ratio <= limit,
                );
            }
        }
        if let Some(ours) = self.measured.iter().find(|it| it.kind == Kind::Ours) {
            let tokens = ours.definition_tokens;
            row(
                "definitions of all tools",
                format!("≤ {DEFINITION_TOKENS} tokens"),
                format!("{tokens} tokens"),
                tokens <= DEFINITION_TOKENS,
            );
            let tokens = ours.first_read_tokens;
            row(
                "first read of the big page",
                format!("≤ {FIRST_READ_TOKENS} tokens"),
                format!("{tokens} tokens"),
                tokens <= FIRST_READ_TOKENS,
            );
        }
        if let Some(ours) = self.speed(Kind::Ours) {
            let more = ours.megabytes.1 - ours.megabytes.0;
            row(
                "memory beside Chromium that the browser server adds to `swb`",
                format!("≤ {} MB", megabytes(MEMORY_MEGABYTES)),
                format!("{} MB", megabytes(more)),
                more <= MEMORY_MEGABYTES,
            );
        }
        let done = self
            .jobs
            .iter()
            .filter(|it| it.results.first().is_some_and(|it| it.0.problem.is_none()))
            .count();
        row(
            "jobs done",
            "12 of 12".to_owned(),
            format!("{done} of {}", self.jobs.len()),
            done == self.jobs.len(),
        );
        rows
    }

    fn times_table(&self) -> String {
        let mut header = vec!["ms, median"];
        header.extend(self.measured.iter().map(|it| it.kind.label()));
        let mut rows: Vec<Vec<String>> = TIMES
            .iter()
            .map(|(name, pick)| {
                let cell = |it: &Measured| match &it.speed {
                    Ok(speed) if !pick(speed).is_empty() => milliseconds(median(pick(speed))),
                    Ok(_) | Err(_) => "–".to_owned(),
                };
                std::iter::once((*name).to_owned()).chain(self.measured.iter().map(cell)).collect()
            })
            .collect();
        let mut add = |name: &str, cell: &dyn Fn(&Measured, &Speed) -> String| {
            let cells = self.measured.iter().map(|it| match &it.speed {
                Ok(speed) => cell(it, speed),
                Err(problem) => problem.clone(),
            });
            rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        };
        add("tools", &|_, speed| speed.tools.to_string());
        add("tokens of their definitions", &|it, _| thousands(it.definition_tokens as f64));
        add("tokens of the first read of the big page", &|it, _| {
            thousands(it.first_read_tokens as f64)
        });
        add("memory of the server without Chromium, MB: at its start", &|_, speed| {
            megabytes(speed.megabytes.0)
        });
        add("… and after the calls", &|_, speed| megabytes(speed.megabytes.1));
        table::markdown(&header, &[], &rows)
    }

    fn jobs_table(&self) -> String {
        let header = [
            "job",
            "calls",
            "tokens",
            "ms",
            "calls, Playwright's",
            "tokens, Playwright's",
            "ms, Playwright's",
        ];
        let rows: Vec<Vec<String>> = self
            .jobs
            .iter()
            .map(|job| {
                let mut cells = vec![job.name.to_owned()];
                for (result, tokens) in &job.results {
                    match &result.problem {
                        None => cells.extend([
                            result.calls.to_string(),
                            thousands(*tokens as f64),
                            milliseconds(result.took),
                        ]),
                        Some(problem) => {
                            cells.extend([problem.clone(), "–".to_owned(), "–".to_owned()])
                        }
                    }
                }
                cells
            })
            .collect();
        table::markdown(&header, &[], &rows)
    }

    fn page(&self) -> String {
        let budgets = table::markdown(&["budget", "limit", "measured", ""], &[3], &self.budgets());
        format!(
            "\
# The browser server

Written by `cargo xtask bench browser`. Machine: {machine}. `swb` is {build}.

`swb serve --pool` with the browser server, next to `@playwright/mcp` and `chrome-devtools-mcp`, all over standard streams and in turn in one
run. The others use Debian's `chromium`; ours is measured with it, too, and with `chromium-headless-shell`, which it prefers if it is
installed. Times are those of one call, as a client sees them. The defaults of all programs are used. A call of Playwright's server after an action
includes its own waiting for the page, and so does ours; the page of the click only sets its title.

## Budgets

{budgets}
## Calls

The small page is a form of eight controls; the big one is a table of {rows} rows with {controls} controls. Our snapshot of the big page
stops at its budget and says what is left out; the others return the whole page. Tokens are those of `o200k_base`.
Memory is resident memory of the server's process and its children that are not Chromium; ours is all of `swb`.

{times}
## Jobs

Each job begins in a fresh server on another page, and is done with the tools as a model would use them: read the page once, act by
references, search on large pages. It counts as done if the site got the right request. Ours uses `chromium` here. Playwright's
server has its option for clicks by pixels. Tokens are the arguments and results of all calls, without definitions and pictures.

{jobs}",
            machine = machine::describe(),
            build = self.build,
            rows = thousands(ROWS as f64),
            controls = thousands(2.0 * ROWS as f64 + 1.0),
            times = self.times_table(),
            jobs = self.jobs_table(),
        )
    }
}
