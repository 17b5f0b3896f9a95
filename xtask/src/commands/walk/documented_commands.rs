//! Reads from the pages which commands a new user types and what output they document.
//! Pure; `walk` runs the commands.

use std::fmt;

/// A line that matches any number of lines.
const ANY_LINES: &str = "...";
/// Matches any text within a line.
const ANYTHING: &str = "[..]";

/// A command of a `console` block, and its documented output.
#[derive(Debug, Eq, PartialEq)]
pub struct DocumentedCommand {
    /// The line of the command, counted from 1.
    pub line: usize,
    /// The command; a line that starts with `> ` continues it.
    pub command: String,
    /// Its documented output.
    pub output: Vec<String>,
}

/// Every command of the page's `console` blocks, in order.
pub fn console_commands(page: &str) -> Vec<DocumentedCommand> {
    let mut found: Vec<DocumentedCommand> = Vec::new();
    let mut is_inside = false;
    for (index, line) in page.lines().enumerate() {
        if !is_inside {
            is_inside = line == "```console";
            continue;
        }
        if line == "```" {
            is_inside = false;
        } else if let Some(command) = line.strip_prefix("$ ") {
            let command = command.to_owned();
            found.push(DocumentedCommand { line: index + 1, command, output: Vec::new() });
        } else if let Some(last) = found.last_mut() {
            match line.strip_prefix("> ") {
                Some(more) if last.output.is_empty() => {
                    last.command.push_str(&format!("\n{more}"));
                }
                Some(_) | None => last.output.push(line.to_owned()),
            }
        }
    }
    found
}

/// The lines of the first fenced block below a heading.
pub fn code_block_below<'page>(page: &'page str, heading: &str) -> Vec<&'page str> {
    let below = page.lines().skip_while(|line| *line != heading).skip(1);
    let in_section = below.take_while(|line| !line.starts_with("## "));
    let block = in_section.skip_while(|line| !line.starts_with("```")).skip(1);
    block.take_while(|line| !line.starts_with("```")).collect()
}

/// The first command in backticks that starts with these words.
pub fn inline_command<'page>(page: &'page str, begins: &str) -> Option<&'page str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .find(|it| it.starts_with(begins))
}

/// Where the actual output differs from the expected output.
#[derive(Debug, Eq, PartialEq)]
pub struct Difference {
    expected: Vec<String>,
    seen: Vec<String>,
    at: usize,
}

/// Compares line by line. A line `...` matches any lines, and `[..]` any text within a line.
pub fn compare(expected: &[&str], seen: &[&str]) -> Result<(), Difference> {
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let differs = |at: usize| Difference { expected: owned(expected), seen: owned(seen), at };
    let mut next = 0;
    let mut may_skip = false;
    for (index, pattern) in expected.iter().enumerate() {
        if *pattern == ANY_LINES {
            may_skip = true;
            continue;
        }
        let rest = &seen[next..];
        let found = match may_skip {
            true => rest.iter().position(|line| line_matches(pattern, line)),
            false => rest.first().filter(|line| line_matches(pattern, line)).map(|_| 0),
        };
        next += found.ok_or_else(|| differs(index))? + 1;
        may_skip = false;
    }
    match may_skip || next == seen.len() {
        true => Ok(()),
        false => Err(differs(expected.len())),
    }
}

fn line_matches(pattern: &str, line: &str) -> bool {
    match pattern.split_once(ANYTHING) {
        None => pattern == line,
        Some((before, after)) => {
            let Some(rest) = line.strip_prefix(before) else { return false };
            rest.char_indices().any(|(at, _)| line_matches(after, &rest[at..]))
                || line_matches(after, "")
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "expected:")?;
        for (index, line) in self.expected.iter().enumerate() {
            let mark = if index == self.at { '>' } else { ' ' };
            writeln!(out, "{mark} | {line}")?;
        }
        if self.at == self.expected.len() {
            writeln!(out, "> (nothing more)")?;
        }
        write!(out, "seen:")?;
        self.seen.iter().try_for_each(|line| write!(out, "\n  | {line}"))
    }
}

/// nextest's summary line, if every test passed and none was skipped.
pub fn passing_summary(printed: &str) -> Option<&str> {
    let line = printed.lines().rfind(|line| line.contains(" tests run: "))?.trim();
    let (_, counts) = line.split_once("] ")?;
    let (run, rest) = counts.split_once(" tests run: ")?;
    let (passed, rest) = rest.split_once(" passed")?;
    let is_whole = run == passed && run != "0" && rest.ends_with(", 0 skipped");
    (is_whole && !rest.contains("failed")).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_block_is_commands_with_their_output() {
        let page = "text\n```\n$ not this\n```\n```console\n$ swb list\nNAME\n> a mark\n$ cat <<E\n> one\n> E\n```\n";

        let found = console_commands(page);

        let shown = |line, command: &str, output: &[&str]| DocumentedCommand {
            line,
            command: command.to_owned(),
            output: output.iter().map(|it| (*it).to_owned()).collect(),
        };
        assert_eq!(
            found,
            [shown(6, "swb list", &["NAME", "> a mark"]), shown(9, "cat <<E\none\nE", &[])]
        );
    }

    #[test]
    fn commands_are_read_below_their_heading_and_between_backticks() {
        let page = "# A\n```\nno\n```\n## Two\ntext `cargo install x` and\n```sh\none # why\ntwo\n```\n```\nno\n```\n## Else\n";

        assert_eq!(code_block_below(page, "## Two"), ["one # why", "two"]);
        assert!(code_block_below(page, "## Else").is_empty());
        assert_eq!(inline_command(page, "cargo install"), Some("cargo install x"));
        assert_eq!(inline_command(page, "text"), None);
    }

    fn check(expected: &[&str], seen: &[&str], differs_at: Option<usize>) {
        let found = compare(expected, seen).err().map(|it| it.at);
        assert_eq!(found, differs_at, "{expected:?} against {seen:?}");
    }

    #[test]
    fn lines_are_compared_one_by_one() {
        check(&["a", "b"], &["a", "b"], None);
        check(&["a", "b"], &["a", "c"], Some(1));
        check(&["a", "b"], &["a"], Some(1));
        check(&["a"], &["a", "b"], Some(1));
        check(&[], &["a"], Some(0));
    }

    #[test]
    fn dots_stand_for_lines_and_for_parts_of_a_line() {
        check(&["a", "...", "d"], &["a", "b", "c", "d"], None);
        check(&["a", "...", "d"], &["a", "d"], None);
        check(&["a", "...", "e"], &["a", "b"], Some(2));
        check(&["a", "..."], &["a", "b"], None);
        check(&["took [..] s, [..]."], &["took 3 s, well."], None);
        check(&["took [..]"], &["took "], None);
        check(&["took [..] s"], &["took 3 m"], Some(0));
    }

    #[test]
    fn a_difference_shows_both_sides_and_marks_the_line() {
        let difference = compare(&["a", "b"], &["a", "c"]).unwrap_err();
        assert_eq!(difference.to_string(), "expected:\n  | a\n> | b\nseen:\n  | a\n  | c");

        let difference = compare(&["a"], &["a", "c"]).unwrap_err();
        assert_eq!(
            difference.to_string(),
            "expected:\n  | a\n> (nothing more)\nseen:\n  | a\n  | c"
        );
    }

    #[test]
    fn a_summary_counts_only_where_everything_passed() {
        let good = "     Summary [  61.1s] 18 tests run: 18 passed (1 slow), 0 skipped";
        assert_eq!(passing_summary(&format!("x\n{good}\nend")), Some(good.trim()));
        for bad in [
            "Summary [ 1s] 18 tests run: 17 passed, 1 failed, 0 skipped",
            "Summary [ 1s] 18 tests run: 18 passed, 4 skipped",
            "Summary [ 1s] 0 tests run: 0 passed, 0 skipped",
            "error: nothing",
        ] {
            assert_eq!(passing_summary(bad), None, "{bad}");
        }
    }
}
