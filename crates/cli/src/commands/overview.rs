//! `swb` without a command and without a screen: lists the servers, or shows what the demo server can do.

use switchboard::catalogue::ListKind;
use switchboard::connection::Status;
use switchboard::pool::Tool;
use switchboard::sources::loader::Configuration;

use crate::commands::list;
use crate::invocation::Invocation;
use crate::invocation::demo_server;
use crate::outcome::{CommandOutput, Failure};
use crate::output::style::{TextStyle, paint};
use crate::output::tool_table;
use crate::runtime::servers;
use crate::runtime::servers::ConnectedServers;

/// Commands to try.
const EXAMPLES: [(&str, &str); 7] = [
    ("swb call mcp__demo__now offset=+02:00", "the time in another zone"),
    ("swb call mcp__demo__add_note 'text=Buy tea'", "asks for permission first"),
    ("swb resources", "notes are also resources"),
    ("swb read demo note://1", "read one of them"),
    ("swb prompt demo write_about topic=tea tone=funny", "a prompt for a model"),
    ("swb call mcp__demo__count_slowly steps:=5", "a tool that reports progress"),
    ("swb search picture", "find tools by name and description"),
];

/// What to do next.
const NEXT_STEPS: [(&str, &str); 4] = [
    ("swb add NAME -- COMMAND …", "a server of your own (or: swb add NAME URL)"),
    ("swb import --dry-run", "what other programs have configured"),
    ("swb config explain", "where servers are read from"),
    ("swb --help", "everything else"),
];

/// Runs the command.
pub fn run(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_with_problems()?;
    let demo = demo_server::only_server(&configuration).filter(|it| it.is_ready());
    if demo.is_some() && !invocation.wants_json() {
        return demo_overview(invocation, &configuration);
    }
    let listing = list::ListArgs { all: false, scope: None, require: Vec::new() };
    list::run(&listing, invocation)
}

/// Connects to the demo server and shows its tools.
fn demo_overview(
    invocation: &Invocation,
    configuration: &Configuration,
) -> Result<CommandOutput, Failure> {
    let ConnectedServers { snapshot, pool, notes } =
        servers::connect_once(invocation, configuration, &[])?;
    let of_server = pool.tools().iter().filter(|it| !it.is_built_in());
    let offered: Vec<&Tool> = of_server.map(AsRef::as_ref).collect();
    let mut text = String::from(
        "No MCP servers are configured yet. `demo` is a built-in server to try: it runs inside swb,\n\
         needs no network, and is used until you add a server.\n\n",
    );
    text.push_str(&tool_table::as_text(&invocation.env, &offered));
    let view = snapshot.servers.get(demo_server::NAME).filter(|it| it.status == Status::Connected);
    if let Some(view) = view {
        let count = |list| view.catalogue.items(list).len();
        text.push_str(&format!(
            "\nresources: {}   templates: {}   prompts: {}\n",
            count(ListKind::Resources),
            count(ListKind::ResourceTemplates),
            count(ListKind::Prompts)
        ));
    }
    text.push_str(&block("Try it:", &EXAMPLES));
    text.push_str(&block("Then:", &NEXT_STEPS));
    Ok(CommandOutput::text(text).note(notes))
}

fn block(title: &str, lines: &[(&str, &str)]) -> String {
    let width = lines.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let mut text = format!("\n{title}\n");
    for (command, about) in lines {
        let room = " ".repeat(width - command.chars().count());
        text.push_str(&format!("  {command}{room}   {}\n", paint(TextStyle::Dim, *about)));
    }
    text
}
