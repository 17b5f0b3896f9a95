//! Draws Markdown tables of measurements: times, memory, and how each row compares to one of them.

use std::time::Duration;

use crate::measured_program::MeasuredProgram;
use crate::process_cost::Measurement;

/// A Markdown table; the first column is text, the rest are flush right unless named in `texts`.
pub fn markdown(header: &[&str], texts: &[usize], rows: &[Vec<String>]) -> String {
    let rule = (0..header.len()).map(|column| match column {
        0 => "---",
        column if texts.contains(&column) => "---",
        _ => "---:",
    });
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(header.to_vec());
    text.push_str(&line(rule.collect()));
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

/// The table of subjects measured in one scene. Ratios are of median wall times to the row labelled `unit`.
pub fn program_table(
    subjects: &[MeasuredProgram],
    measurements: &[Option<Measurement>],
    unit: &str,
) -> String {
    let one = subjects.iter().zip(measurements).find(|(subject, _)| subject.label == unit);
    let one = one.and_then(|(_, it)| it.as_ref()).map(Measurement::median_wall);
    let row = |(subject, measurement): (&MeasuredProgram, &Option<Measurement>)| {
        let mut cells = vec![subject.label.to_owned()];
        match measurement {
            Some(it) => cells.extend([
                milliseconds(it.median_wall()),
                milliseconds(it.shortest_wall()),
                milliseconds(it.median_cpu()),
                megabytes(it.peak_megabytes()),
                one.map_or("–".to_owned(), |one| ratio(it.median_wall(), one)),
                it.runs().to_string(),
                subject.note.clone(),
            ]),
            None => {
                cells.extend(["–"; 6].map(str::to_owned));
                cells.push("not installed".to_owned());
            }
        }
        cells
    };
    let rows: Vec<Vec<String>> = subjects.iter().zip(measurements).map(row).collect();
    let unit = format!("wall, × {unit}");
    let header =
        ["program", "wall ms, median", "wall ms, min", "CPU ms", "peak MB", &unit, "runs", "notes"];
    markdown(&header, &[7], &rows)
}

/// Milliseconds, with as many digits as mean something.
pub fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    if milliseconds < 100.0 { format!("{milliseconds:.1}") } else { format!("{milliseconds:.0}") }
}

/// Megabytes, with one digit after the point.
pub fn megabytes(megabytes: f64) -> String {
    format!("{megabytes:.1}")
}

fn ratio(time: Duration, one: Duration) -> String {
    two_digits(time.as_secs_f64() / one.as_secs_f64())
}

/// A ratio, precise enough to tell on which side of a limit it is.
pub fn two_digits(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

/// A whole number, with a comma between thousands.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_flush_right_and_texts_are_not() {
        let row = ["a", "1", "b"].map(str::to_owned).to_vec();
        assert_eq!(
            markdown(&["x", "y", "z"], &[2], &[row]),
            "| x | y | z |\n| --- | ---: | --- |\n| a | 1 | b |\n"
        );
    }

    #[test]
    fn ratios_and_times_keep_the_digits_that_mean_something() {
        let time = Duration::from_micros;
        assert_eq!(milliseconds(time(2_345)), "2.3");
        assert_eq!(milliseconds(time(234_500)), "234");
        assert_eq!(ratio(time(3_000), time(2_000)), "1.50");
        assert_eq!(ratio(time(300_000), time(2_000)), "150");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(
            [7.0, 123.0, 1234.5, 1_234_567.0].map(thousands),
            ["7", "123", "1,234", "1,234,567"]
        );
    }

    #[test]
    fn a_missing_program_gets_a_row_with_the_reason() {
        let missing = MeasuredProgram {
            program: "other",
            label: "`other list`",
            note: "connects".to_owned(),
            pace: crate::measured_program::TurnRate::EveryFifthRound,
            command: None,
        };
        let table = program_table(&[missing], &[None], "`swb list`");
        assert!(
            table.ends_with("| `other list` | – | – | – | – | – | – | not installed |\n"),
            "{table}"
        );
    }
}
