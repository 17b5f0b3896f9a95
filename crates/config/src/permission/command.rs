//! Compares shell commands with a pattern. A shell runs several commands in one line, so an allow rule matches only a line
//! that is one simple command, and a deny rule every line in which the command may run.

use crate::pattern::Glob;

/// Words that run the command after them.
const WRAPPERS: [&str; 17] = [
    "!", "builtin", "command", "do", "doas", "else", "env", "eval", "exec", "if", "nice", "nohup",
    "sudo", "then", "time", "while", "xargs",
];

/// Is the line one command that the pattern matches, with or without further words? Everything that a shell could
/// understand as more than the words of one command makes it no match: separators, redirections, substitutions and
/// variables, also in quotes.
pub(super) fn is_one_matching_command(pattern: &Glob, line: &str) -> bool {
    let is_special = |c: char| c.is_control() || ";&|<>`$(){}".contains(c);
    !line.contains(is_special) && matches_words(pattern, line)
}

/// May the line run a command that the pattern matches? It is searched for after every separator, behind assignments and
/// words such as `sudo`, with and without the folder of the program, and without quotes.
pub(super) fn may_run_matching_command(pattern: &Glob, line: &str) -> bool {
    if matches_words(pattern, line.trim()) {
        return true;
    }
    let plain: String = line.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
    let is_separator = |c: char| c == '\n' || c == '\r' || ";&|`(){}<>".contains(c);
    plain.split(is_separator).any(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        possible_starts(&words).any(|start| {
            let command = words[start..].join(" ");
            let without_folder = command.split_once(' ').map_or_else(
                || file_name(&command).to_owned(),
                |(program, rest)| format!("{} {rest}", file_name(program)),
            );
            matches_words(pattern, &command) || matches_words(pattern, &without_folder)
        })
    })
}

/// The words at which the command may start: the first one, and each one after only assignments, wrappers and their
/// options.
fn possible_starts(words: &[&str]) -> impl Iterator<Item = usize> {
    let is_skipped = |word: &&&str| {
        word.starts_with('-') || word.contains('=') || WRAPPERS.contains(&file_name(word))
    };
    let skipped = words.iter().take_while(is_skipped).count();
    0..(skipped + 1).min(words.len())
}

fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Is the line what the pattern says, or does it begin with it and a space?
fn matches_words(pattern: &Glob, line: &str) -> bool {
    let mut with_more = pattern.pieces().to_vec();
    if let Some(last) = with_more.last_mut() {
        last.push(' ');
    }
    with_more.push(String::new());
    pattern.matches(line) || Glob::from_pieces(with_more).matches(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, line: &str, expected: &str) {
        let pattern = Glob::parse(pattern);
        let strict = is_one_matching_command(&pattern, line);
        let broad = may_run_matching_command(&pattern, line);
        let found = match (strict, broad) {
            (true, true) => "always",
            (false, true) => "broadly",
            (false, false) => "never",
            (true, false) => "strictly alone",
        };
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn a_command_matches_with_further_words_and_never_in_the_middle_of_one() {
        check("git status", "git status", "always");
        check("git status", "git status -s src", "always");
        check("git status", "git statusx", "never");
        check("git", "gitk", "never");
        check("git status", "git -C / status", "never");
        check("git * main", "git push origin main", "always");
        check("git * main", "git push origin main --force", "always");
        check("git * main", "git push origin maintenance", "never");
    }

    #[test]
    fn a_line_with_a_second_command_is_not_allowed() {
        for line in [
            "git status; rm -rf /",
            "git status;rm -rf /",
            "git status && rm -rf /",
            "git status || rm -rf /",
            "git status | sh",
            "git status & rm -rf /",
            "git status\nrm -rf /",
            "git status\r\nrm -rf /",
            "git status `rm -rf /`",
            "git status $(rm -rf /)",
            "git status ${x:-$(rm -rf /)}",
            "git status <(rm -rf /)",
            "git status > /etc/passwd",
            "git status $IFS",
            "git status \"$(rm -rf /)\"",
            "git status '; rm -rf /'",
        ] {
            check("git status", line, "broadly");
        }
    }

    #[test]
    fn a_denied_command_is_found_wherever_it_may_run() {
        for line in [
            "rm -rf /",
            "cd / && rm -rf x",
            "true;rm x",
            "echo $(rm x)",
            "echo `rm x`",
            "sudo rm x",
            "sudo -n env A=b rm x",
            "A=b rm x",
            "/bin/rm x",
            "\\rm x",
            "\"rm\" x",
            "r''m x",
            "if true; then rm x; fi",
            "{ rm x; }",
            "  rm x",
            "ls\nrm x",
            "find | xargs -0 rm",
        ] {
            assert!(may_run_matching_command(&Glob::parse("rm"), line), "{line}");
        }
        for line in ["echo rm", "git rm x", "rmdir x", "npm run rm", ""] {
            check("rm", line, "never");
        }
    }
}
