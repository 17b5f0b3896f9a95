//! What it costs to pass calls on: ours next to no gateway, to a proxy that only passes bytes, and to other people's.
//! This file decides who is asked what, and keeps what they cost; who they are is `contender`'s, asking is `load`'s.

pub mod bare_proxy;

mod contender;
mod load;
mod memory;
pub mod needs;
mod page;
mod peers;

use std::ffi::OsString;

use crate::calls::server::Listening;
use crate::effort;
use crate::failure::Failure;
use crate::report::{Extent, Report};
use crate::workplace::Workplace;
use contender::{Running, Stable, Way, Who};
use load::{Cost, Crowd, Era, Lines};
use memory::Memory;

/// The word that makes this program the load alone.
pub const LOAD: &str = "__load";

const REPETITIONS: usize = 5;
const SMALL: usize = 100;
const LARGE: usize = 1_000_000;
/// How many calls are under way over standard streams.
const IN_FLIGHT: usize = 64;

/// What everybody on one way is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question {
    clients: usize,
    size: usize,
    era: Era,
}

impl Question {
    const fn small(clients: usize) -> Question {
        Question { clients, size: SMALL, era: Era::Legacy }
    }

    const MODERN: Question = Question { clients: 8, size: SMALL, era: Era::Modern };
    const LARGE: Question = Question { clients: 8, size: LARGE, era: Era::Legacy };

    /// The questions of one way, in the order of its table.
    fn on(way: Way) -> Vec<Question> {
        let small = Question::small;
        match way {
            Way::HttpToHttp => {
                vec![small(1), small(8), small(64), Question::MODERN, Question::LARGE]
            }
            Way::HttpToStdio => vec![small(1), small(8), Question::LARGE],
            Way::StdioToStdio => vec![small(1), small(IN_FLIGHT)],
        }
    }
}

/// One contender on one way, and what each question cost it.
struct Row {
    who: Who,
    costs: Vec<Vec<Cost>>,
    /// Why it has no figures, or not all.
    trouble: Option<String>,
}

impl Row {
    fn new(who: Who, questions: usize) -> Row {
        Row { who, costs: vec![Vec::new(); questions], trouble: None }
    }

    /// The median cost of a question, by its place.
    fn cost(&self, question: usize) -> Option<Cost> {
        Cost::median(self.costs.get(question)?)
    }

    /// Keeps a cost. What other people's gateways fail at is told in the table, and stops nothing.
    fn keep(&mut self, question: usize, cost: Result<Cost, Failure>) -> Result<(), Failure> {
        match cost {
            Ok(cost) => self.costs[question].push(cost),
            Err(failure) if self.who.is_foreign() => self.note(&failure),
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    fn note(&mut self, failure: &Failure) {
        failure.print();
        self.trouble = Some(failure.to_string());
    }
}

/// Everything that was measured on one way.
struct Part {
    way: Way,
    rows: Vec<Row>,
}

/// Measures all of it, or the part that is named.
pub fn run(workplace: &Workplace, words: &[OsString]) -> Result<Report, Failure> {
    let (ways, has_memory): (&[Way], bool) = match words {
        [] => (&[Way::HttpToHttp, Way::HttpToStdio, Way::StdioToStdio], true),
        [one] if one == "http" => (&[Way::HttpToHttp], false),
        [one] if one == "stdio" => (&[Way::HttpToStdio, Way::StdioToStdio], false),
        [one] if one == "memory" => (&[], true),
        [other, ..] => return Err(Failure::UnknownWord(other.to_string_lossy().into_owned())),
    };
    let stable = Stable {
        swb: workplace.swb()?,
        peers: peers::prepare(workplace)?,
        search_path: workplace.search_path.clone(),
    };
    let mut parts = Vec::new();
    for way in ways {
        let rows = match way {
            Way::HttpToHttp | Way::HttpToStdio => over_http(&stable, *way)?,
            Way::StdioToStdio => over_stdio(&stable)?,
        };
        parts.push(Part { way: *way, rows });
    }
    let memory: Vec<Memory> = if has_memory { memory::measure(&stable)? } else { Vec::new() };
    let extent = if words.is_empty() { Extent::Whole } else { Extent::Part };
    Ok(page::draw(&parts, &memory, extent))
}

/// Has so many clients make calls of a gateway that runs already, for whoever looks at it meanwhile:
/// `URL PROCESS CLIENTS SECONDS`.
pub fn load_only(words: &[OsString]) -> Result<(), Failure> {
    let words: Vec<_> = words.iter().map(|it| it.to_string_lossy()).collect();
    let [address, process, clients, seconds] = words.as_slice() else { return Err(Failure::Call) };
    let number = |word: &str| word.parse::<u32>().map_err(|_| Failure::Call);
    let (process, clients, seconds) = (number(process)?, number(clients)?, number(seconds)?);
    let mut crowd = Crowd::connect(address, clients as usize, Era::Legacy)?;
    // Each measurement takes two seconds.
    for _ in 0..seconds.div_ceil(2) {
        println!("{:?}", crowd.measure(SMALL, process)?);
    }
    crowd.leave();
    Ok(())
}

/// Asks all by turns, so that a noisy minute is noisy for all of them.
fn over_http(stable: &Stable, way: Way) -> Result<Vec<Row>, Failure> {
    let questions = Question::on(way);
    let echo = match way {
        Way::HttpToHttp => Some(Listening::start("http")?),
        Way::HttpToStdio | Way::StdioToStdio => None,
    };
    let behind = echo.as_ref().map(|it| it.address.as_str());
    let mut rows: Vec<(Row, Option<Running>)> = Vec::new();
    for who in Who::on(way) {
        let mut row = Row::new(*who, questions.len());
        let running = match stable.start(*who, behind) {
            Ok(running) => Some(running),
            Err(failure) if who.is_foreign() => {
                row.note(&failure);
                None
            }
            Err(failure) => return Err(failure),
        };
        rows.push((row, running));
    }
    for repetition in 1..=effort::repetitions(REPETITIONS) {
        eprintln!("measuring {way:?}, repetition {repetition} of {REPETITIONS}");
        for (place, question) in questions.iter().enumerate() {
            for (row, running) in &mut rows {
                let Some(running) = running.as_ref().filter(|_| row.trouble.is_none()) else {
                    continue;
                };
                let cost = ask(running, question);
                row.keep(place, cost)?;
            }
        }
    }
    Ok(rows.into_iter().map(|(row, _)| row).collect())
}

fn ask(running: &Running, question: &Question) -> Result<Cost, Failure> {
    let mut crowd = Crowd::connect(running.address(), question.clients, question.era)?;
    let cost = crowd.measure(question.size, running.process());
    crowd.leave();
    cost
}

/// Each contender is started anew for each repetition, as its client starts it.
fn over_stdio(stable: &Stable) -> Result<Vec<Row>, Failure> {
    let questions = Question::on(Way::StdioToStdio);
    let whose = Who::on(Way::StdioToStdio).iter();
    let mut rows: Vec<Row> = whose.map(|who| Row::new(*who, questions.len())).collect();
    for repetition in 1..=effort::repetitions(REPETITIONS) {
        eprintln!("measuring {:?}, repetition {repetition} of {REPETITIONS}", Way::StdioToStdio);
        for (place, question) in questions.iter().enumerate() {
            for row in rows.iter_mut().filter(|row| row.trouble.is_none()) {
                let cost = stable.between_streams(row.who).and_then(|(command, _home)| {
                    Lines::start(command)?.measure(question.size, question.clients)
                });
                row.keep(place, cost)?;
            }
        }
    }
    Ok(rows)
}
