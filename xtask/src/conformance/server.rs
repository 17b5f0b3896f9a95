//! The half of the suite that plays the client: it talks to a server that is up already. What that server is, and what
//! stands behind it, is the subject's business.

use super::SuiteError;
use super::page::{self, Block, Result as Row};
use super::scenarios::{self, Planned, Side};
use super::score::Score;
use super::subject::{Subject, all_gateways, all_upstreams};
use super::suite::Suite;
use crate::failure::Failure;
use crate::run::{self, Closing, Step};
use crate::workshop::Workshop;

/// What is tested.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Wish {
    /// The gateway, in front of every upstream.
    Gateways,
    /// The upstreams alone.
    Upstreams,
    /// Whatever answers there.
    Elsewhere(String),
}

/// Installs the suite, builds what is tested, runs every scenario that holds one of the words, and prints a table. A
/// whole run of the gateway is written to the docs as well.
pub fn run(workshop: &Workshop, words: &[String]) -> Result<(), Failure> {
    let Asked { wish, only, words } = Asked::parse(words)?;
    let (mut subjects, build) = match &wish {
        Wish::Gateways => (all_gateways(), Some("--bin swb --example conformance_upstream")),
        Wish::Upstreams => (all_upstreams(), Some("--example conformance_upstream")),
        Wish::Elsewhere(url) => (vec![Subject::Elsewhere(url.clone())], None),
    };
    if let Some(part) = &only {
        subjects.retain(|subject| subject.title().contains(part));
    }
    if subjects.is_empty() {
        return Err(SuiteError::NothingToRun.into());
    }
    let suite = Suite::install(workshop)?;
    if let Some(what) = build {
        let build = workshop.cargo(&format!("build --workspace {what} --locked"));
        run::all(vec![Step::new("server", build, Closing::Timed)])?;
    }
    let planned = scenarios::planned(&suite.list()?, Side::Server)?;
    let wanted = super::wanted(&planned, &words)?;
    let mut rows = Vec::new();
    let mut counted = Vec::new();
    for subject in subjects {
        let scores = scores(&suite, &subject, &wanted)?;
        let is_counted = |it: &&Score| !subject.is_beyond(&it.planned.scenario);
        counted.extend(scores.iter().filter(is_counted).cloned());
        rows.push(Row { subject: subject.title(), scores });
    }
    println!("{}", page::server_tables(&rows));
    if wish == Wish::Gateways && only.is_none() && words.is_empty() {
        super::write_page(workshop, &Block::SERVER, &page::server_tables(&rows))?;
    }
    super::judged(counted.iter())
}

fn scores(
    suite: &Suite<'_>,
    subject: &Subject,
    wanted: &[&Planned],
) -> Result<Vec<Score>, SuiteError> {
    let title = subject.title();
    eprintln!("==> {title}");
    let running = subject.start(suite.workshop)?;
    let place = title.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
    let command = || {
        let mut command = suite.command();
        command.args(["server", "--url", running.url()]);
        command
    };
    let mut scores = Vec::new();
    for group in Side::Server.groups().iter().filter(|group| subject.has(**group)) {
        let those: Vec<&Planned> = wanted.iter().copied().filter(|it| it.group == *group).collect();
        let is_whole = those.len() == group.size(Side::Server);
        let fresh = match group.version().filter(|_| is_whole) {
            Some(version) => suite.scores_of_version(&those, version, &place, command())?,
            None => {
                let score = |it: &&Planned| suite.score(it, &place, command());
                those.iter().map(score).collect::<Result<Vec<Score>, SuiteError>>()?
            }
        };
        fresh.iter().for_each(|score| eprintln!("    {}", page::line(score)));
        scores.extend(fresh);
    }
    Ok(scores)
}

/// What somebody typed.
#[derive(Debug, Eq, PartialEq)]
struct Asked {
    wish: Wish,
    /// Only servers whose title holds this.
    only: Option<String>,
    /// Only scenarios whose name holds one of these.
    words: Vec<String>,
}

impl Asked {
    fn parse(typed: &[String]) -> Result<Asked, SuiteError> {
        let mut asked = Asked { wish: Wish::Gateways, only: None, words: Vec::new() };
        let mut typed = typed.iter();
        while let Some(word) = typed.next() {
            let mut value = || {
                let value = typed.next().cloned();
                value.ok_or_else(|| SuiteError::Option(word.clone()))
            };
            match word.as_str() {
                "--upstream-only" => asked.wish = Wish::Upstreams,
                "--url" => asked.wish = Wish::Elsewhere(value()?),
                "--subject" => asked.only = Some(value()?),
                option if option.starts_with('-') => {
                    return Err(SuiteError::Option(word.clone()));
                }
                _ => asked.words.push(word.clone()),
            }
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, wish: Wish, only: Option<&str>, words: &[&str]) {
        let typed: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let words = words.iter().map(|it| (*it).to_owned()).collect();
        let expected = Asked { wish, only: only.map(str::to_owned), words };
        assert_eq!(Asked::parse(&typed).unwrap(), expected, "{line}");
    }

    #[test]
    fn options_choose_the_server_and_words_the_scenarios() {
        check("", Wish::Gateways, None, &[]);
        check(
            "tools --subject stdio caching",
            Wish::Gateways,
            Some("stdio"),
            &["tools", "caching"],
        );
        check("--upstream-only tools", Wish::Upstreams, None, &["tools"]);
        let url = "http://localhost:1/mcp";
        check(&format!("--url {url}"), Wish::Elsewhere(url.to_owned()), None, &[]);
    }

    #[test]
    fn what_is_no_option_is_refused() {
        for line in ["--upstream", "tools --url", "--subject"] {
            let typed: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert!(matches!(Asked::parse(&typed), Err(SuiteError::Option(_))), "{line}");
        }
    }
}
