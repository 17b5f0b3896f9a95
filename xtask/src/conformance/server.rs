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
    let (wish, words) = parsed(words)?;
    let (subjects, build) = match &wish {
        Wish::Gateways => (all_gateways(), Some("--bin swb --example conformance_upstream")),
        Wish::Upstreams => (all_upstreams(), Some("--example conformance_upstream")),
        Wish::Elsewhere(url) => (vec![Subject::Elsewhere(url.clone())], None),
    };
    let suite = Suite::install(workshop)?;
    if let Some(what) = build {
        let build = workshop.cargo(&format!("build --workspace {what} --locked"));
        run::all(vec![Step::new("server", build, Closing::Timed)])?;
    }
    let planned = scenarios::planned(&suite.list()?, Side::Server)?;
    let wanted = super::wanted(&planned, &words)?;
    let mut rows = Vec::new();
    for subject in subjects {
        let scores = scores(&suite, &subject, &wanted)?;
        rows.push(Row { subject: subject.title(), scores });
    }
    println!("{}", page::server_tables(&rows));
    if wish == Wish::Gateways && words.is_empty() {
        super::write_page(workshop, &Block::SERVER, &page::server_tables(&rows))?;
    }
    super::judged(rows.iter().flat_map(|row| &row.scores))
}

fn scores(
    suite: &Suite<'_>,
    subject: &Subject,
    wanted: &[&Planned],
) -> Result<Vec<Score>, SuiteError> {
    let title = subject.title();
    eprintln!("==> {title}");
    let running = subject.start(suite.workshop)?;
    let mut scores = Vec::new();
    for planned in wanted.iter().filter(|it| subject.has(it.group)) {
        let mut command = suite.command();
        command.args(["server", "--url", running.url()]);
        let score = suite.score(planned, &title.replace(' ', "-"), command)?;
        eprintln!("    {}", page::line(&score));
        scores.push(score);
    }
    Ok(scores)
}

/// The options, and the words that are left.
fn parsed(words: &[String]) -> Result<(Wish, Vec<String>), SuiteError> {
    let mut wish = Wish::Gateways;
    let mut left = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--upstream-only" => wish = Wish::Upstreams,
            "--url" => {
                let url = words.next().ok_or_else(|| SuiteError::Option(word.clone()))?;
                wish = Wish::Elsewhere(url.clone());
            }
            option if option.starts_with('-') => return Err(SuiteError::Option(word.clone())),
            _ => left.push(word.clone()),
        }
    }
    Ok((wish, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, wish: Option<(Wish, &[&str])>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let parsed = parsed(&words).ok();
        let wish =
            wish.map(|(wish, left)| (wish, left.iter().map(|it| (*it).to_owned()).collect()));
        assert_eq!(parsed, wish, "{line}");
    }

    #[test]
    fn options_choose_the_server_and_words_the_scenarios() {
        check("", Some((Wish::Gateways, &[])));
        check("tools caching", Some((Wish::Gateways, &["tools", "caching"])));
        check("--upstream-only tools", Some((Wish::Upstreams, &["tools"])));
        check(
            "--url http://localhost:1/mcp",
            Some((Wish::Elsewhere("http://localhost:1/mcp".into()), &[])),
        );
    }

    #[test]
    fn what_is_no_option_is_refused() {
        check("--upstream", None);
        check("tools --url", None);
    }
}
