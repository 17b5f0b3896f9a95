//! The half of the suite that acts as client: it connects to a running server.
//! `server_under_test` starts the server and its upstream.

use super::SuiteError;
use super::docs_page;
use super::docs_page::{DocsBlock, ServerScores as Row};
use super::scenarios::{self, ScenarioRun, Side};
use super::score::Score;
use super::server_under_test::{ServerUnderTest, all_gateways, all_replicas, all_upstreams};
use super::suite::Suite;
use crate::failure::Failure;
use crate::steps;
use crate::steps::{Step, StepSummary};
use crate::workspace::Workspace;

/// Which servers are tested.
#[derive(Clone, Debug, Eq, PartialEq)]
enum TestTarget {
    /// The gateway, in front of each upstream.
    Gateways,
    /// Two replicas of the gateway behind a load balancer, in front of each upstream.
    Replicas,
    /// The upstreams alone.
    Upstreams,
    /// The server at this URL.
    Url(String),
}

/// Installs the suite, builds the servers, runs every scenario whose name contains one of the words, and prints a table. A
/// full run of the gateway also updates the docs.
pub fn run(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let ServerOptions { target, title_filter, scenario_filters: words } =
        ServerOptions::parse(words)?;
    let (mut subjects, build) = match &target {
        TestTarget::Gateways => (all_gateways(), Some("--bin swb --example conformance_upstream")),
        TestTarget::Replicas => (all_replicas(), Some("--bin swb --example conformance_upstream")),
        TestTarget::Upstreams => (all_upstreams(), Some("--example conformance_upstream")),
        TestTarget::Url(url) => (vec![ServerUnderTest::Url(url.clone())], None),
    };
    if let Some(part) = &title_filter {
        subjects.retain(|subject| subject.title().contains(part));
    }
    if subjects.is_empty() {
        return Err(SuiteError::NoMatch.into());
    }
    let suite = Suite::install(workspace)?;
    if let Some(what) = build {
        let build = workspace.cargo(&format!("build --workspace {what} --locked"));
        steps::run_all(vec![Step::new("server", build, StepSummary::PrintsTime)])?;
    }
    let planned = scenarios::plan_runs(&suite.list()?, Side::Server)?;
    let selected = super::select_scenarios(&planned, &words)?;
    let mut rows = Vec::new();
    let mut counted = Vec::new();
    for subject in subjects {
        let scores = scores(&suite, &subject, &selected)?;
        let is_counted = |it: &&Score| !subject.is_out_of_scope(&it.run.scenario);
        counted.extend(scores.iter().filter(is_counted).cloned());
        rows.push(Row { title: subject.title(), scores });
    }
    println!("{}", docs_page::server_tables(&rows));
    let block = match target {
        TestTarget::Gateways => Some(DocsBlock::SERVER),
        TestTarget::Replicas => Some(DocsBlock::REPLICAS),
        TestTarget::Upstreams | TestTarget::Url(_) => None,
    };
    if let Some(block) = block.filter(|_| title_filter.is_none() && words.is_empty()) {
        super::write_docs_block(workspace, &block, &docs_page::server_tables(&rows))?;
    }
    super::check_scores(counted.iter())
}

fn scores(
    suite: &Suite<'_>,
    subject: &ServerUnderTest,
    selected: &[&ScenarioRun],
) -> Result<Vec<Score>, SuiteError> {
    let title = subject.title();
    eprintln!("==> {title}");
    let running = subject.start(suite.workspace)?;
    let place = title.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
    let command = || {
        let mut command = suite.command();
        command.args(["server", "--url", running.url()]);
        command
    };
    let mut scores = Vec::new();
    for group in Side::Server.groups().iter().filter(|group| subject.supports(**group)) {
        let group_runs: Vec<&ScenarioRun> =
            selected.iter().copied().filter(|it| it.group == *group).collect();
        let is_whole = group_runs.len() == group.size(Side::Server);
        let group_scores = match group.version().filter(|_| is_whole) {
            Some(version) => suite.score_version(&group_runs, version, &place, command())?,
            None => {
                let score = |it: &&ScenarioRun| suite.score(it, &place, command());
                group_runs.iter().map(score).collect::<Result<Vec<Score>, SuiteError>>()?
            }
        };
        group_scores.iter().for_each(|score| eprintln!("    {}", docs_page::progress_line(score)));
        scores.extend(group_scores);
    }
    Ok(scores)
}

/// The parsed arguments.
#[derive(Debug, Eq, PartialEq)]
struct ServerOptions {
    target: TestTarget,
    /// Only servers whose title contains this.
    title_filter: Option<String>,
    /// Only scenarios whose name contains one of these.
    scenario_filters: Vec<String>,
}

impl ServerOptions {
    fn parse(arguments: &[String]) -> Result<ServerOptions, SuiteError> {
        let mut options = ServerOptions {
            target: TestTarget::Gateways,
            title_filter: None,
            scenario_filters: Vec::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(word) = arguments.next() {
            let mut value = || {
                let value = arguments.next().cloned();
                value.ok_or_else(|| SuiteError::InvalidOption(word.clone()))
            };
            match word.as_str() {
                "--replicas" => options.target = TestTarget::Replicas,
                "--upstream-only" => options.target = TestTarget::Upstreams,
                "--url" => options.target = TestTarget::Url(value()?),
                "--subject" => options.title_filter = Some(value()?),
                option if option.starts_with('-') => {
                    return Err(SuiteError::InvalidOption(word.clone()));
                }
                _ => options.scenario_filters.push(word.clone()),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, target: TestTarget, title_filter: Option<&str>, words: &[&str]) {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let words = words.iter().map(|it| (*it).to_owned()).collect();
        let expected = ServerOptions {
            target,
            title_filter: title_filter.map(str::to_owned),
            scenario_filters: words,
        };
        assert_eq!(ServerOptions::parse(&arguments).unwrap(), expected, "{line}");
    }

    #[test]
    fn options_choose_the_server_and_words_the_scenarios() {
        check("", TestTarget::Gateways, None, &[]);
        check(
            "tools --subject stdio caching",
            TestTarget::Gateways,
            Some("stdio"),
            &["tools", "caching"],
        );
        check("--replicas", TestTarget::Replicas, None, &[]);
        check("--upstream-only tools", TestTarget::Upstreams, None, &["tools"]);
        let url = "http://localhost:1/mcp";
        check(&format!("--url {url}"), TestTarget::Url(url.to_owned()), None, &[]);
    }

    #[test]
    fn unknown_options_are_refused() {
        for line in ["--upstream", "tools --url", "--subject"] {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert!(
                matches!(ServerOptions::parse(&arguments), Err(SuiteError::InvalidOption(_))),
                "{line}"
            );
        }
    }
}
