//! The slash commands: their list, and the parser of a line. Running them is left to `effects`.

use switchboard::config::file::entry_decoder::nearest;
use switchboard::connection::ServerView;
use switchboard::pool::naming::{NameOrigin, prefix, sanitise};

/// A command in the list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandHelp {
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub usage: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// All commands, in the order in which they are listed.
pub const COMMANDS: [CommandHelp; 15] = [
    command_help("help", "", "keys and commands"),
    command_help("mcp", "[SERVER]", "status of servers, and actions on them"),
    command_help("tools", "[SERVER]", "all tools, by the name exposed to the model"),
    command_help("call", "TOOL [k=v … | {json}]", "call a tool yourself"),
    command_help("resources", "[SERVER]", "the resources of servers"),
    command_help("read", "SERVER URI", "read a resource"),
    command_help("registry", "TEXT | NAME | add NAME", "find servers in the registry"),
    command_help("plugin", "[list | ID]", "installed plugins, or one of them"),
    command_help("permissions", "", "the permission rules"),
    command_help("model", "[NAME]", "show or change the model"),
    command_help("clear", "", "start a new conversation"),
    command_help("ide", "[NUMBER | off]", "the editors that run; connect one"),
    command_help("logs", "[SERVER]", "the standard error output of a server"),
    command_help("doctor", "[SERVER]", "diagnose servers"),
    command_help("quit", "", "quit (also Ctrl-D)"),
];

const fn command_help(name: &'static str, usage: &'static str, about: &'static str) -> CommandHelp {
    CommandHelp { name, usage, about }
}

/// The prefix of the names of servers' prompts.
pub const PROMPT_PREFIX: &str = "mcp__";

/// The command name of a server's prompt.
pub fn prompt_command_name(view: &ServerView, prompt: &str) -> String {
    let server = prefix(&view.name, NameOrigin::of(view.scope));
    format!("{}{server}__{}", PROMPT_PREFIX, sanitise(prompt))
}

/// A parsed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlashCommand {
    /// Lists keys and commands.
    Help,
    /// Opens the server panel, at one server or at the list.
    Mcp(Option<String>),
    /// Lists tools, of one server or of all.
    Tools(Option<String>),
    /// Calls a tool.
    Call {
        /// The tool's exposed name.
        tool: String,
        /// The arguments as typed.
        arguments: Vec<String>,
    },
    /// Lists resources, of one server or of all.
    Resources(Option<String>),
    /// Reads a resource.
    Read {
        /// The server.
        server: String,
        /// The URI.
        uri: String,
    },
    /// Searches the registry, or shows one of its servers: the words after the command.
    Registry(Vec<String>),
    /// Lists plugins, or shows one.
    Plugin(Option<String>),
    /// Lists the permission rules.
    Permissions,
    /// Shows the model, or changes it.
    Model(Option<String>),
    /// Starts a new conversation.
    Clear,
    /// Shows the log of a server.
    Logs(Option<String>),
    /// Lists IDEs, connects one or disconnects.
    Ide(Option<String>),
    /// Diagnoses servers.
    Doctor(Option<String>),
    /// Closes the screen.
    Quit,
    /// Runs a server's prompt.
    Prompt {
        /// Its command name.
        name: String,
        /// The arguments as typed.
        arguments: Vec<String>,
    },
}

/// Parses a line that begins with a slash. The error is a message for the user.
pub fn parse(line: &str) -> Result<SlashCommand, String> {
    let line = line.trim().trim_start_matches('/');
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let words = split_words(rest);
    let optional = || words.first().cloned();
    Ok(match name {
        "help" | "?" => SlashCommand::Help,
        "mcp" => SlashCommand::Mcp(optional()),
        "tools" => SlashCommand::Tools(optional()),
        "call" => parse_call(rest)?,
        "resources" => SlashCommand::Resources(optional()),
        "read" => match &words[..] {
            [server, uri] => SlashCommand::Read { server: server.clone(), uri: uri.clone() },
            [_, ..] | [] => return Err("write /read SERVER URI".to_owned()),
        },
        "registry" if words.is_empty() => {
            return Err("write /registry TEXT, or /registry NAME".to_owned());
        }
        "registry" => SlashCommand::Registry(words),
        "plugin" | "plugins" => SlashCommand::Plugin(optional().filter(|it| it != "list")),
        "permissions" => SlashCommand::Permissions,
        "model" => SlashCommand::Model(optional()),
        "clear" => SlashCommand::Clear,
        "ide" => SlashCommand::Ide(optional()),
        "logs" => SlashCommand::Logs(optional()),
        "doctor" => SlashCommand::Doctor(optional()),
        "quit" | "exit" => SlashCommand::Quit,
        name if name.starts_with(PROMPT_PREFIX) => {
            SlashCommand::Prompt { name: name.to_owned(), arguments: words }
        }
        name => {
            let names = COMMANDS.iter().map(|it| it.name);
            return Err(match nearest(name, names) {
                Some(near) => format!("there is no command `/{name}`; did you mean `/{near}`?"),
                None => format!("there is no command `/{name}`; `/help` lists them"),
            });
        }
    })
}

fn parse_call(rest: &str) -> Result<SlashCommand, String> {
    let (tool, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if tool.is_empty() {
        return Err("write /call TOOL and its arguments: k=v, k:=json, or {json}".to_owned());
    }
    let rest = rest.trim();
    let arguments = if rest.starts_with('{') { vec![rest.to_owned()] } else { split_words(rest) };
    Ok(SlashCommand::Call { tool: tool.to_owned(), arguments })
}

/// Splits a text into words as a shell does, with quotes and backslashes.
pub fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                word.get_or_insert_default().extend(letters.next());
            }
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_command_with_its_words() {
        assert_eq!(parse("/help"), Ok(SlashCommand::Help));
        assert_eq!(parse("/tools files"), Ok(SlashCommand::Tools(Some("files".to_owned()))));
        assert_eq!(
            parse("/call mcp__a__b text='two words' n:=3"),
            Ok(SlashCommand::Call {
                tool: "mcp__a__b".to_owned(),
                arguments: vec!["text=two words".to_owned(), "n:=3".to_owned()]
            })
        );
        assert_eq!(
            parse(r#"/call t {"a": "b c"}"#),
            Ok(SlashCommand::Call {
                tool: "t".to_owned(),
                arguments: vec![r#"{"a": "b c"}"#.to_owned()]
            })
        );
        assert_eq!(
            parse("/mcp__demo__write topic=tea"),
            Ok(SlashCommand::Prompt {
                name: "mcp__demo__write".to_owned(),
                arguments: vec!["topic=tea".to_owned()]
            })
        );
    }

    #[test]
    fn an_unknown_command_suggests_a_similar_one() {
        assert_eq!(
            parse("/tool"),
            Err("there is no command `/tool`; did you mean `/tools`?".to_owned())
        );
        assert!(parse("/read x").is_err_and(|it| it.contains("SERVER URI")));
        assert!(parse("/call").is_err_and(|it| it.contains("TOOL")));
        assert!(parse("/registry").is_err_and(|it| it.contains("TEXT")));
    }

    #[test]
    fn quotes_and_backslashes_hold_words_together() {
        assert_eq!(split_words(r#"a\ b "c d" 'e"f' """#), ["a b", "c d", "e\"f", ""]);
        assert_eq!(split_words("  "), Vec::<String>::new());
    }
}
