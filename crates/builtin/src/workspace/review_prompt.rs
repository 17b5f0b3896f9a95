//! The prompt `review`: asks for a code review with the workspace tools.

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::prompt::{Prompt, PromptArgument, PromptArguments, PromptMessage};

/// The maximum length of an argument, in characters.
const MAX_ARGUMENT_LENGTH: usize = 2000;

/// The default review target.
const DEFAULT_TARGET: &str = "the changes in the working tree that are not committed yet";

pub(super) fn prompt() -> Prompt {
    Prompt::new("review", "Asks for a review of code.", review)
        .argument(PromptArgument::optional(
            "target",
            "What to review: a branch, a range of commits or files; by default, uncommitted changes",
        ))
        .argument(PromptArgument::optional("focus", "What to look at above all"))
}

async fn review(
    _: HandlerContext,
    arguments: PromptArguments,
) -> Result<Vec<PromptMessage>, HandlerError> {
    let argument = |name: &str| {
        let text = arguments.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        text.map(|text| text.chars().take(MAX_ARGUMENT_LENGTH).collect::<String>())
    };
    let target = argument("target").unwrap_or_else(|| DEFAULT_TARGET.to_owned());
    let focus = match argument("focus") {
        Some(focus) => format!("\nAbove all, look at: {focus}\n"),
        None => String::new(),
    };
    Ok(vec![PromptMessage::user(format!(
        "Review this code: {target}\n\
         {focus}\n\
         Find out first what changed, with `git status`, `git diff` and `git log` through Bash, or by reading the files \
         that are named. Then read enough of what surrounds each change to judge it: who calls it, what it calls, which \
         tests cover it. Change nothing.\n\
         \n\
         Report, the worst first:\n\
         - what is wrong: behaviour that differs from what was meant, cases that are forgotten, errors that are swallowed, \
         races, leaks, holes in security;\n\
         - what is missing: tests, documentation, handling of what can fail;\n\
         - what could be simpler, only where that is worth a change.\n\
         \n\
         For each, name the file and the line, say what happens and when, and propose a change. Say which of it you have \
         seen happen and which you infer. Where nothing is wrong, say so in one sentence.\n"
    ))])
}
