//! Rule: only cli prints, reads the environment or knows the home folder; other crates take parameters. The TUI's terminal
//! module may write to the terminal.

use super::Finding;
use super::source::LineKind;
use super::tree::Tree;

/// Crates that may access the environment: the program, and the test support.
const EXEMPT_CRATES: &[&str] = &["cli", "testkit"];

/// The folder that draws the screen: it may write to the terminal, but not read the environment.
const TERMINAL_FOLDER: &str = "crates/tui/src/terminal/";

const PRINTS: &str = "return it or send an event; only cli prints";
const READS: &str = "take it as a parameter; only cli reads the environment and knows home";

const FORBIDDEN: &[(&str, &str)] = &[
    ("print!", PRINTS),
    ("println!", PRINTS),
    ("eprint!", PRINTS),
    ("eprintln!", PRINTS),
    ("io::stdout", PRINTS),
    ("io::stderr", PRINTS),
    // `env!` is not listed: it is evaluated at compile time.
    ("std::env", READS),
    ("env::var", READS),
    ("env::var_os", READS),
    ("home_dir", READS),
    ("etcetera", READS),
];

/// Finds library code that uses the terminal, the environment or the home folder.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.sources {
        let Some(folder) = file.product_crate() else {
            continue;
        };
        if EXEMPT_CRATES.contains(&folder) {
            continue;
        }
        let draws = file.path.starts_with(TERMINAL_FOLDER);
        for (phrase, advice) in FORBIDDEN {
            if draws && matches!(*phrase, "io::stdout" | "io::stderr") {
                continue;
            }
            let lines = file.source.mentions(phrase).filter(|line| line.kind == LineKind::Product);
            findings.extend(lines.map(|line| Finding::new(&file.path, line.number, *advice)));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::commands::tidy::fixture::check;

    const BAD: &str = "//! A.\nuse std::{env, fs};\nuse std::io;\nfn f() {\n    println!();\n    \
                       eprint!();\n    io::stdout();\n    std::env::var_os();\n    \
                       dirs::home_dir();\n    etcetera::base();\n}\n";

    #[test]
    fn a_library_neither_prints_nor_reads_the_environment() {
        let expected: Vec<String> =
            [2, 5, 6, 7, 8, 9, 10].map(|line| format!("crates/host/src/a.rs:{line}")).to_vec();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check("surroundings", &[("crates/host/src/a.rs", BAD)], &expected);
    }

    #[test]
    fn cli_testkit_and_tests_may_print_and_read_the_environment() {
        let tests = "//! A.\n#[cfg(test)]\nmod tests {\n    fn f() { println!(); }\n}\n";
        check(
            "surroundings",
            &[
                ("crates/cli/src/a.rs", BAD),
                ("crates/testkit/src/b.rs", BAD),
                ("crates/host/tests/c.rs", BAD),
                ("crates/host/src/d.rs", tests),
                ("bench/src/main.rs", BAD),
            ],
            &[],
        );
    }

    #[test]
    fn the_tui_terminal_may_write_but_not_read_the_environment() {
        let text = "//! A.\nfn f() {\n    io::stdout();\n    io::stderr();\n    println!();\n    std::env::args();\n}\n";
        check(
            "surroundings",
            &[("crates/tui/src/terminal/a.rs", text), ("crates/tui/src/b.rs", text)],
            &[
                "crates/tui/src/b.rs:3",
                "crates/tui/src/b.rs:4",
                "crates/tui/src/b.rs:5",
                "crates/tui/src/b.rs:6",
                "crates/tui/src/terminal/a.rs:5",
                "crates/tui/src/terminal/a.rs:6",
            ],
        );
    }

    #[test]
    fn comments_strings_and_compile_time_environment_are_accepted() {
        let text = "//! No println! here.\n/// Not `std::env`.\nconst A: &str = \"etcetera\";\n\
                    const B: &str = env!(\"CARGO_PKG_VERSION\");\nfn f(g: &mut Formatter) { writeln!(g) }\n";
        check("surroundings", &[("crates/host/src/a.rs", text)], &[]);
    }
}
