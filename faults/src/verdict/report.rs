//! Renders the results of a run: tables, and violations.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::fault::FaultKind;
use crate::verdict::checker;
use crate::verdict::checker::{EXTRA_FILES, EXTRA_MEMORY_KB, EXTRA_THREADS};
use crate::verdict::failure_cause;
use crate::verdict::history::{Expectation, History, Outcome, ResourceUsage};

/// All measurements of a run.
pub fn render(history: &History) -> String {
    let tables = [
        call_table(history),
        failure_table(history),
        fault_table(history),
        resource_table(history),
    ];
    tables.join("\n")
}

/// Aligns columns; all but the first are right-aligned.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|it| it.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _memory = match column {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn text_row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn call_table(history: &History) -> String {
    let mut rows =
        vec![text_row(["server", "kind", "sent", "answered", "failed", "median ms", "worst ms"])];
    let mut all = [0; 3];
    for (server, manner) in &history.expectations {
        let calls: Vec<_> = history.calls.iter().filter(|it| &it.server == server).collect();
        let answered = calls.iter().filter(|it| it.outcome == Outcome::Answered).count();
        let mut times: Vec<Duration> = calls.iter().map(|it| it.ended - it.sent).collect();
        times.sort_unstable();
        let ms =
            |it: Option<&Duration>| it.map_or("–".to_owned(), |it| it.as_millis().to_string());
        for (sum, count) in all.iter_mut().zip([calls.len(), answered, calls.len() - answered]) {
            *sum += count;
        }
        rows.push(vec![
            server.clone(),
            if *manner == Expectation::Reliable { "good" } else { "bad" }.to_owned(),
            calls.len().to_string(),
            answered.to_string(),
            (calls.len() - answered).to_string(),
            ms(times.get(times.len() / 2)),
            ms(times.last()),
        ]);
    }
    let [sent, answered, failed] = all.map(|it| it.to_string());
    rows.push(vec!["all".to_owned(), String::new(), sent, answered, failed]);
    table(&rows)
}

fn failure_table(history: &History) -> String {
    let mut counts: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for call in &history.calls {
        let why = match &call.outcome {
            Outcome::Answered => continue,
            Outcome::Failed(said) => failure_cause::classify(said).to_string(),
            Outcome::WrongAnswer(_) => "another's answer".to_owned(),
            Outcome::ProtocolError(_) => "broken off".to_owned(),
            Outcome::TimedOut => "lost".to_owned(),
        };
        let said = match &call.outcome {
            Outcome::Failed(said) | Outcome::WrongAnswer(said) | Outcome::ProtocolError(said) => {
                said.as_str()
            }
            Outcome::Answered | Outcome::TimedOut => "",
        };
        let example = || shortened(said.lines().next().unwrap_or_default());
        counts.entry(why).or_insert_with(|| (0, example())).0 += 1;
    }
    let mut rows = vec![text_row(["why calls failed", "calls"])];
    let mut examples = String::from("for example:\n");
    for (why, (count, example)) in counts {
        examples.push_str(&format!("  {example}\n"));
        rows.push(vec![why, count.to_string()]);
    }
    table(&rows) + &examples
}

/// The maximum length of a message.
const EXAMPLE_CHARS: usize = 100;

/// The message, truncated if it is too long.
fn shortened(sentence: &str) -> String {
    match sentence.char_indices().nth(EXAMPLE_CHARS) {
        Some((end, _)) => format!("{}…", &sentence[..end]),
        None => sentence.to_owned(),
    }
}

fn fault_table(history: &History) -> String {
    let mut kinds: BTreeMap<FaultKind, Vec<(Option<Duration>, Duration)>> = BTreeMap::new();
    for (index, hit) in history.faults.iter().enumerate() {
        let took = hit.recovered.map(|it| it.saturating_sub(hit.ended));
        kinds
            .entry(hit.kind)
            .or_default()
            .push((took, checker::recovery_limit(&history.faults, index)));
    }
    let mut rows =
        vec![text_row(["fault", "times", "recovered", "median s", "worst s", "allowed s"])];
    for (kind, hits) in kinds {
        let mut took: Vec<Duration> = hits.iter().filter_map(|(took, _)| *took).collect();
        took.sort_unstable();
        let seconds = |it: Option<&Duration>| {
            it.map_or("–".to_owned(), |it| format!("{:.2}", it.as_secs_f64()))
        };
        let allowed = hits.iter().map(|(_, bound)| *bound);
        let (least, most) = (allowed.clone().min(), allowed.max());
        let [least, most] = [least, most].map(|it| it.unwrap_or_default().as_secs());
        let allowed = match least == most {
            true => most.to_string(),
            false => format!("{least}–{most}"),
        };
        rows.push(vec![
            kind.to_string(),
            hits.len().to_string(),
            took.len().to_string(),
            seconds(took.get(took.len() / 2)),
            seconds(took.last()),
            allowed,
        ]);
    }
    table(&rows)
}

fn resource_table(history: &History) -> String {
    let [before, after] = &history.usage;
    let row = |what: &str, of: fn(&ResourceUsage) -> u64, more: u64| {
        vec![what.to_owned(), of(before).to_string(), of(after).to_string(), format!("+{more}")]
    };
    let count = |it: &ResourceUsage| it.processes.values().sum::<usize>().to_string();
    table(&[
        text_row(["what `swb` holds", "before", "after", "allowed"]),
        row("open files", |it| it.files as u64, EXTRA_FILES as u64),
        row("– connections", |it| it.sockets as u64, EXTRA_FILES as u64),
        row("– pipes", |it| it.pipes as u64, EXTRA_FILES as u64),
        row("threads", |it| it.threads as u64, EXTRA_THREADS as u64),
        row("memory, kB", |it| it.memory, EXTRA_MEMORY_KB),
        vec!["processes".to_owned(), count(before), count(after), "1 of a kind".to_owned()],
        row("calls in flight", |it| it.in_flight as u64, 0),
        row("sessions", |it| it.sessions as u64, 0),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_truncated_with_a_mark() {
        let long = "ü".repeat(EXAMPLE_CHARS);
        assert_eq!(shortened(&long), long);
        assert_eq!(shortened(&format!("{long}x")), format!("{long}…"));
    }

    #[test]
    fn numbers_are_flush_right() {
        let rows = [text_row(["a", "number"]), text_row(["longer", "1"])];
        assert_eq!(table(&rows), "a       number\nlonger       1\n");
    }
}
