//! The commands, one file each. Each takes its arguments and a session and comes back with an outcome.

pub mod add;
pub mod add_json;
pub mod approvals;
pub mod approve;
pub mod audit;
pub mod auth;
pub mod call;
pub mod complete;
pub mod completions;
pub mod config;
pub mod demo;
pub mod disable;
pub mod doctor;
pub mod enable;
pub mod get;
pub mod idp;
pub mod import;
pub mod list;
pub mod login;
pub mod logout;
pub mod logs;
pub mod man;
pub mod overview;
pub mod paths;
pub mod permissions;
pub mod ping;
pub mod policy;
pub mod print;
pub mod prompt;
pub mod prompts;
pub mod read;
pub mod reconnect;
pub mod reject;
pub mod remove;
pub mod reset_project_choices;
pub mod resources;
pub mod result;
pub mod search;
pub mod serve;
pub mod status;
pub mod subscribe;
pub mod tools;

use crate::args::CommandArgs;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};

/// Runs a command.
pub fn run(verb: CommandArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    match verb {
        CommandArgs::Demo(it) => demo::run(&it, session),
        CommandArgs::List(it) => list::run(&it, session),
        CommandArgs::Status(it) => status::run(&it, session),
        CommandArgs::Doctor(it) => doctor::run(&it, session),
        CommandArgs::Login(it) => login::run(&it, session),
        CommandArgs::Logout(it) => logout::run(&it, session),
        CommandArgs::Auth(it) => auth::run(&it, session),
        CommandArgs::Idp(it) => idp::run(&it, session),
        CommandArgs::Logs(it) => logs::run(&it, session),
        CommandArgs::Ping(it) => ping::run(&it, session),
        CommandArgs::Reconnect(it) => reconnect::run(&it, session),
        CommandArgs::Tools(it) => tools::run(&it, session),
        CommandArgs::Search(it) => search::run(&it, session),
        CommandArgs::Call(it) => call::run(&it, session),
        CommandArgs::Read(it) => read::run(&it, session),
        CommandArgs::Result(it) => result::run(&it, session),
        CommandArgs::Permissions(it) => permissions::run(&it, session),
        CommandArgs::Audit(it) => audit::run(&it, session),
        CommandArgs::Resources(it) => resources::run(&it, session),
        CommandArgs::Prompts(it) => prompts::run(&it, session),
        CommandArgs::Prompt(it) => prompt::run(&it, session),
        CommandArgs::Complete(it) => complete::run(&it, session),
        CommandArgs::Subscribe(it) => subscribe::run(&it, session),
        CommandArgs::Serve(it) => serve::run(&it, session),
        CommandArgs::Approvals(it) => approvals::run(&it, session),
        CommandArgs::Get(it) => get::run(&it, session),
        CommandArgs::Add(it) => add::run(&it, session),
        CommandArgs::AddJson(it) => add_json::run(&it, session),
        CommandArgs::Import(it) => import::run(&it, session),
        CommandArgs::Remove(it) => remove::run(&it, session),
        CommandArgs::Enable(it) => enable::run(&it, session),
        CommandArgs::Disable(it) => disable::run(&it, session),
        CommandArgs::Approve(it) => approve::run(&it, session),
        CommandArgs::Reject(it) => reject::run(&it, session),
        CommandArgs::ResetProjectChoices(it) => reset_project_choices::run(&it, session),
        CommandArgs::Policy(it) => policy::run(&it, session),
        CommandArgs::Config(it) => config::run(&it, session),
        CommandArgs::Paths(it) => paths::run(&it, session),
        CommandArgs::Completions(it) => completions::run(&it),
        CommandArgs::Man(it) => man::run(&it),
    }
}

/// JSON for programs, with every character escaped that a terminal would act on.
pub(crate) fn json_output(value: &serde_json::Value) -> CommandOutput {
    CommandOutput::text(escape_deceptive(format!("{value:#}\n")))
}

/// The same on one line.
pub(crate) fn json_line(value: &serde_json::Value) -> String {
    escape_deceptive(format!("{value}\n"))
}

fn escape_deceptive(text: String) -> String {
    let is_bad = |c: char| c != '\n' && switchboard::config::display::is_unprintable(c);
    if !text.contains(is_bad) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_bad(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}
