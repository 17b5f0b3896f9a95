//! `/registry` of the screen: search and show as outside it; what adds a server is told as a command.

use switchboard::config::display::printable;
use switchboard::config::registry::identifier::is_server_name;

use super::{RESULTS, search, show, source};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};

/// Runs `/registry`: the words after it are `search TEXT`, `show NAME`, `add NAME`, a name or a text.
pub(crate) async fn run_screen_command(
    invocation: &Invocation,
    words: &[String],
) -> Result<CommandOutput, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["add", name] | ["add", name, ..] => {
            source::expect_name(name)?;
            let client = source::client(invocation, None)?;
            let shown = show(invocation, &client, name, None).await?;
            let how = format!(
                "\nIt asks for values and shows what will run, so it needs a terminal of its own:\n  swb registry add {}\n",
                printable(name)
            );
            let text = shown.text.split("\nAdd it: ").next().unwrap_or_default().to_owned();
            Ok(CommandOutput::text(format!("{text}{how}")))
        }
        ["show", name] => show_named(invocation, name).await,
        [name] if is_server_name(name) => show_named(invocation, name).await,
        ["search", text @ ..] | text if !text.is_empty() => {
            let client = source::client(invocation, None)?;
            search(invocation, &client, &text.join(" "), RESULTS).await
        }
        [..] => Err(Failure::new(Exit::Usage, "write /registry TEXT, or /registry NAME")),
    }
}

async fn show_named(invocation: &Invocation, name: &str) -> Result<CommandOutput, Failure> {
    source::expect_name(name)?;
    let client = source::client(invocation, None)?;
    show(invocation, &client, name, None).await
}
