//! The command table for help, man pages and the reference pages: grouped commands and examples.
//! Parsing uses the plain table of `args`, which is faster to build.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::args::Cli;

/// Commands by purpose, in the order of `swb --help`.
pub const GROUPS: [(&str, &[&str]); 7] = [
    ("Start", &["demo", "add", "bundle", "plugin", "import", "adopt", "registry"]),
    (
        "Servers",
        &[
            "list",
            "get",
            "status",
            "doctor",
            "logs",
            "ping",
            "ps",
            "host",
            "reconnect",
            "add-json",
            "remove",
            "enable",
            "disable",
        ],
    ),
    (
        "Tools, resources and prompts",
        &[
            "tools",
            "search",
            "describe",
            "call",
            "result",
            "resources",
            "read",
            "subscribe",
            "prompts",
            "prompt",
            "complete",
        ],
    ),
    (
        "Permissions and approvals",
        &[
            "permissions",
            "approvals",
            "approve",
            "reject",
            "reset-project-choices",
            "policy",
            "audit",
        ],
    ),
    ("Login", &["login", "logout", "auth", "idp"]),
    ("Serve", &["serve", "principals", "ui", "acp"]),
    ("Maintenance", &["config", "paths", "completions", "man", "version"]),
];

/// Examples of each command, by its words after `swb`. Each line is one command.
const EXAMPLES: &[(&str, &str)] = &[
    ("demo", "swb demo\nswb demo --speed 4\nswb demo --plain"),
    (
        "add",
        "swb add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes\n\
         swb add github https://api.githubcopilot.com/mcp/ --header 'Authorization: Bearer ${GITHUB_TOKEN}'\n\
         swb add db --scope project --env DATABASE_URL='${DATABASE_URL}' -- uvx mcp-server-postgres",
    ),
    ("bundle", "swb bundle inspect weather.mcpb\nswb bundle install weather.mcpb\nswb bundle list"),
    ("bundle inspect", "swb bundle inspect weather.mcpb"),
    ("bundle verify", "swb bundle verify weather.mcpb"),
    ("bundle install", "swb bundle install weather.mcpb"),
    ("bundle configure", "swb bundle configure weather\nswb bundle configure weather units=metric"),
    ("bundle list", "swb bundle list\nswb bundle list --json"),
    ("bundle uninstall", "swb bundle uninstall weather"),
    (
        "plugin",
        "swb plugin marketplace add ~/plugins\nswb plugin install notes@lab\nswb plugin list",
    ),
    (
        "plugin marketplace",
        "swb plugin marketplace add example/plugins\nswb plugin marketplace list",
    ),
    (
        "plugin marketplace add",
        "swb plugin marketplace add ~/plugins\nswb plugin marketplace add example/plugins",
    ),
    ("plugin marketplace list", "swb plugin marketplace list\nswb plugin marketplace list --json"),
    ("plugin marketplace remove", "swb plugin marketplace remove lab"),
    (
        "plugin marketplace update",
        "swb plugin marketplace update\nswb plugin marketplace update lab",
    ),
    (
        "plugin install",
        "swb plugin install notes@lab\nswb plugin install notes@lab --config folder=docs --scope local",
    ),
    ("plugin uninstall", "swb plugin uninstall notes@lab"),
    ("plugin enable", "swb plugin enable notes@lab"),
    ("plugin disable", "swb plugin disable notes@lab\nswb plugin disable notes@lab --scope local"),
    (
        "plugin configure",
        "swb plugin configure notes@lab\nswb plugin configure notes@lab folder=docs",
    ),
    ("plugin list", "swb plugin list\nswb plugin list --available"),
    ("plugin details", "swb plugin details notes@lab"),
    ("plugin update", "swb plugin update notes@lab"),
    ("plugin validate", "swb plugin validate ~/plugins/notes"),
    ("plugin import", "swb plugin import --dry-run\nswb plugin import --yes"),
    (
        "registry",
        "swb registry search weather\nswb registry show io.github.user/weather\n\
         swb registry add io.github.user/weather",
    ),
    (
        "registry search",
        "swb registry search weather\nswb registry search -n 50 git --registry https://registry.example",
    ),
    (
        "registry show",
        "swb registry show io.github.user/weather\nswb registry show io.github.user/weather --versions",
    ),
    (
        "registry add",
        "swb registry add io.github.user/weather\n\
         swb registry add io.github.user/weather --package npm --set API_KEY='${WEATHER_KEY}' --yes\n\
         swb registry add io.github.user/weather --remote=http --name forecasts --scope user",
    ),
    (
        "import",
        "swb import --dry-run\nswb import claude-code cursor\nswb import --yes --scope user",
    ),
    (
        "adopt",
        "swb adopt --dry-run\nswb adopt cursor codex\nswb adopt --yes --secrets keychain\nswb adopt --undo",
    ),
    ("adopt status", "swb adopt status\nswb adopt status --json"),
    ("list", "swb list\nswb list --all\nswb list --scope project --json"),
    ("get", "swb get github\nswb get github --json"),
    (
        "status",
        "swb status\nswb status github --ready-timeout 10\nswb status --require github --watch",
    ),
    ("doctor", "swb doctor\nswb doctor github"),
    ("logs", "swb logs github\nswb logs github --follow -n 20"),
    ("ping", "swb ping github\nswb ping github -n 5"),
    ("ps", "swb ps\nswb ps --json"),
    ("host", "swb host\nswb host stop"),
    ("host status", "swb host status\nswb host status --json"),
    ("host stop", "swb host stop"),
    ("host logs", "swb host logs\nswb host logs -n 20"),
    ("reconnect", "swb reconnect github"),
    (
        "add-json",
        "swb add-json files '{\"command\": \"npx\", \"args\": [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/srv\"]}'\n\
         swb add-json github - < github.json",
    ),
    ("remove", "swb remove github\nswb remove github --scope project"),
    ("enable", "swb enable github"),
    ("disable", "swb disable github\nswb disable github --scope user"),
    ("tools", "swb tools\nswb tools github --json"),
    ("search", "swb search 'create issue'\nswb search -n 3 picture"),
    ("describe", "swb describe mcp__github__create_issue\nswb describe github/create_issue --json"),
    (
        "call",
        "swb call mcp__github__search_issues query='is:open label:bug'\n\
         swb call mcp__files__write_file path=a.txt content=@draft.txt\n\
         swb call mcp__db__query '{\"sql\": \"select 1\"}' --json",
    ),
    ("result", "swb result ID\nswb result ID --lines 201-400"),
    ("resources", "swb resources\nswb resources github --json"),
    ("read", "swb read demo note://1"),
    ("subscribe", "swb subscribe demo note://1\nswb subscribe demo note://1 --once --read"),
    ("prompts", "swb prompts\nswb prompts github"),
    ("prompt", "swb prompt demo write_about topic=tea tone=funny"),
    (
        "complete",
        "swb complete demo --prompt write_about tone f\n\
         swb complete demo --template 'note://{id}' id",
    ),
    ("permissions", "swb permissions\nswb permissions explain mcp__github__create_issue"),
    ("permissions list", "swb permissions list\nswb permissions list --json"),
    (
        "permissions explain",
        "swb permissions explain mcp__github__create_issue\n\
         swb permissions explain mcp__files__read_file path=/etc/passwd --permission-mode plan\n\
         swb permissions explain mcp__slack__post --after mcp__crm__get_customer",
    ),
    (
        "permissions add",
        "swb permissions add allow mcp__github__search_issues\n\
         swb permissions add deny 'mcp__files__write_file(path=/etc/*)' --scope user",
    ),
    ("permissions remove", "swb permissions remove mcp__github__search_issues"),
    ("permissions accept", "swb permissions accept mcp__github__create_issue"),
    (
        "permissions simulate",
        "swb permissions simulate --since 7d\nswb permissions simulate --rules stricter.json",
    ),
    ("approvals", "swb approvals\nswb approvals --watch\nswb approvals allow 3"),
    ("approvals allow", "swb approvals allow 3\nswb approvals allow 3 --session"),
    ("approvals deny", "swb approvals deny 3 --reason 'use the staging server'"),
    ("approve", "swb approve github\nswb approve --all\nswb approve github --hash 3f9a2b1c"),
    ("reject", "swb reject github\nswb reject --all"),
    ("reset-project-choices", "swb reset-project-choices"),
    ("policy", "swb policy\nswb policy why github"),
    ("policy why", "swb policy why github\nswb policy why github --json"),
    ("audit", "swb audit\nswb audit --server github --outcome denied\nswb audit -n 0 --json"),
    ("audit verify", "swb audit verify\nswb audit verify --file copy/audit.jsonl --key KEY"),
    ("audit key", "swb audit key > audit.pub"),
    (
        "login",
        "swb login github\nswb login github --no-browser\nswb login github --scopes repo,read:org",
    ),
    ("logout", "swb logout github"),
    ("auth", "swb auth\nswb auth status\nswb auth client-metadata"),
    ("auth status", "swb auth status\nswb auth status --json"),
    (
        "auth client-metadata",
        "swb auth client-metadata\nswb auth client-metadata https://example.com/switchboard.json > switchboard.json",
    ),
    ("idp", "swb idp login\nswb idp status"),
    ("idp login", "swb idp login\nswb idp login --device"),
    ("idp status", "swb idp status"),
    ("idp logout", "swb idp logout"),
    (
        "serve",
        "swb serve --root ~/project\n\
         swb serve --pool\n\
         swb serve --pool --http 127.0.0.1:8808 --token-file tokens.txt\n\
         swb serve --config gateway.jsonc --check",
    ),
    (
        "principals",
        "swb principals\nswb principals --json\nswb principals --audit\nswb principals revoke ci",
    ),
    ("principals revoke", "swb principals revoke ci\nswb principals revoke --token-id 5f2a"),
    ("principals restore", "swb principals restore ci"),
    ("ui", "swb ui\nswb ui --no-browser"),
    ("acp", "swb acp\nswb acp --model anthropic/claude-sonnet-4-5 --mode acceptEdits"),
    ("config", "swb config check\nswb config explain github"),
    ("config explain", "swb config explain\nswb config explain github"),
    ("config check", "swb config check\nswb config check --secrets"),
    ("paths", "swb paths\nswb paths --json"),
    ("completions", "swb completions bash > ~/.local/share/bash-completion/completions/swb"),
    ("man", "swb man | man -l -\nswb man call > swb-call.1"),
    ("version", "swb version\nswb version --json"),
];

/// The command table with groups and examples.
pub fn command() -> Command {
    let mut root = with_examples(Cli::command(), "");
    // Adds clap's own `help`, which is hidden with the others.
    root.build();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{{all-args}}{{after-help}}",
        group_text(&root)
    );
    // The template lists the commands, so they are hidden in the list that clap makes.
    for name in names(&root) {
        root = root.mut_subcommand(name, |it| it.hide(true));
    }
    root.override_usage("swb [OPTIONS] [COMMAND]").help_template(template)
}

/// The command table with examples, in the order of the groups.
pub fn reference_command() -> Command {
    with_examples(Cli::command(), "")
}

/// The examples of a command, by its words after `swb`.
pub fn examples(path: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(name, _)| *name == path).map(|(_, lines)| *lines)
}

fn names(command: &Command) -> Vec<String> {
    command.get_subcommands().map(|it| it.get_name().to_owned()).collect()
}

/// Adds the examples to a command and its subcommands. `path` is the command's words after `swb`.
fn with_examples(mut command: Command, path: &str) -> Command {
    for name in names(&command) {
        let inner = match (path, name.as_str()) {
            ("", name) => name.to_owned(),
            // `swb mcp NAME` is `swb NAME`.
            ("mcp", name) => name.to_owned(),
            (path, name) => format!("{path} {name}"),
        };
        command = command.mut_subcommand(name, |it| with_examples(it, &inner));
    }
    match examples(path) {
        Some(lines) => {
            let mut text = String::from("Examples:");
            for line in lines.lines() {
                let _infallible = write!(text, "\n  {line}");
            }
            command.after_long_help(text)
        }
        None => command,
    }
}

/// The commands with their descriptions, under the headings of the groups.
fn group_text(root: &Command) -> String {
    let styles = root.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let all = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let width = all.map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _infallible = writeln!(text, "{header}{title}:{header:#}");
        for name in names {
            let about = root.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let room = " ".repeat(width - name.len());
            let _infallible = writeln!(text, "  {literal}{name}{literal:#}{room}  {about}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn paths(command: &Command, path: &str) -> Vec<String> {
        let inner = command.get_subcommands().flat_map(|it| {
            let inner = format!("{path} {}", it.get_name()).trim().to_owned();
            paths(it, &inner)
        });
        std::iter::once(path.to_owned()).chain(inner).collect()
    }

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let unique: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(unique.len(), grouped.len());
        let commands = names(&Cli::command());
        let expected: Vec<&str> =
            commands.iter().map(String::as_str).filter(|it| *it != "mcp").collect();
        assert_eq!(grouped, expected, "the groups and the table have the same order");
    }

    #[test]
    fn every_command_has_examples_that_can_be_parsed() {
        let all = paths(&Cli::command(), "");
        for path in all.iter().filter(|it| !it.is_empty() && !it.starts_with("mcp")) {
            let lines = examples(path).unwrap_or_else(|| panic!("`swb {path}` has no examples"));
            for line in lines.lines() {
                assert!(line.starts_with(&format!("swb {}", first_word(path))), "{path}: {line}");
                let command = line.split(['|', '>', '<']).next().unwrap_or_default();
                let parsed = Cli::command().try_get_matches_from(shell_words(command));
                assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("it is an error"));
            }
        }
        assert_eq!(EXAMPLES.len() + 1, all.iter().filter(|it| !it.starts_with("mcp")).count());
    }

    fn first_word(path: &str) -> &str {
        path.split(' ').next().unwrap_or_default()
    }

    /// Splits a line as a shell would; the examples use single quotes only.
    fn shell_words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word = String::new();
        let mut is_quoted = false;
        for c in line.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.extend(Some(std::mem::take(&mut word))),
                c => word.push(c),
            }
        }
        words.push(word);
        words.into_iter().filter(|it| !it.is_empty()).collect()
    }
}
