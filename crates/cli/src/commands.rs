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

use crate::arguments::Verb;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// Runs a command.
pub fn run(verb: Verb, session: &Session) -> Result<Done, Failure> {
    match verb {
        Verb::Demo(it) => demo::run(&it, session),
        Verb::List(it) => list::run(&it, session),
        Verb::Status(it) => status::run(&it, session),
        Verb::Doctor(it) => doctor::run(&it, session),
        Verb::Login(it) => login::run(&it, session),
        Verb::Logout(it) => logout::run(&it, session),
        Verb::Auth(it) => auth::run(&it, session),
        Verb::Idp(it) => idp::run(&it, session),
        Verb::Logs(it) => logs::run(&it, session),
        Verb::Ping(it) => ping::run(&it, session),
        Verb::Reconnect(it) => reconnect::run(&it, session),
        Verb::Tools(it) => tools::run(&it, session),
        Verb::Search(it) => search::run(&it, session),
        Verb::Call(it) => call::run(&it, session),
        Verb::Read(it) => read::run(&it, session),
        Verb::Result(it) => result::run(&it, session),
        Verb::Permissions(it) => permissions::run(&it, session),
        Verb::Audit(it) => audit::run(&it, session),
        Verb::Resources(it) => resources::run(&it, session),
        Verb::Prompts(it) => prompts::run(&it, session),
        Verb::Prompt(it) => prompt::run(&it, session),
        Verb::Complete(it) => complete::run(&it, session),
        Verb::Subscribe(it) => subscribe::run(&it, session),
        Verb::Serve(it) => serve::run(&it, session),
        Verb::Approvals(it) => approvals::run(&it, session),
        Verb::Get(it) => get::run(&it, session),
        Verb::Add(it) => add::run(&it, session),
        Verb::AddJson(it) => add_json::run(&it, session),
        Verb::Import(it) => import::run(&it, session),
        Verb::Remove(it) => remove::run(&it, session),
        Verb::Enable(it) => enable::run(&it, session),
        Verb::Disable(it) => disable::run(&it, session),
        Verb::Approve(it) => approve::run(&it, session),
        Verb::Reject(it) => reject::run(&it, session),
        Verb::ResetProjectChoices(it) => reset_project_choices::run(&it, session),
        Verb::Policy(it) => policy::run(&it, session),
        Verb::Config(it) => config::run(&it, session),
        Verb::Paths(it) => paths::run(&it, session),
        Verb::Completions(it) => completions::run(&it),
        Verb::Man(it) => man::run(&it),
    }
}

/// JSON for programs, with every character escaped that a terminal would act on.
pub(crate) fn json(value: &serde_json::Value) -> Done {
    Done::text(harmless(format!("{value:#}\n")))
}

/// The same on one line.
pub(crate) fn json_line(value: &serde_json::Value) -> String {
    harmless(format!("{value}\n"))
}

fn harmless(text: String) -> String {
    let is_bad = |c: char| c != '\n' && switchboard::config::shown::is_deceptive(c);
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
