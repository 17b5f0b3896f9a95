//! `swb registry add`: makes an entry of what a registry describes, shows what will run, and writes it after the user
//! agreed. Secrets go to the keychain, or to files that only the user can read.

use serde_json::{Value as Json, json};
use switchboard::config::display::{printable, sanitize_line};
use switchboard::config::merge::ResolvedServer;
use switchboard::config::registry::{
    EntryDraft, InstallOption, ListingStatus, NewEntry, PackageType, RegistryServer, local_name,
};
use switchboard::config::template::{LiteralText, SecretReference};
use switchboard::sources::loader::Configuration;
use switchboard::sources::secrets as secret_store;
use switchboard_packages::registry::RegistryClient;

use super::answers;
use super::ask::{AskMode, ask_line};
use super::bundle_package;
use super::choice::{OptionFilter, choose};
use super::options::{RegistryAddArgs, SecretPlace};
use super::{block_on, source};
use crate::commands::import::secrets::reference_for;
use crate::edit::servers::{self, IfExists, NewServer};
use crate::edit::{file, missing_program};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::style::{TextStyle, paint};
use crate::output::{entry_text, registry_text, server_text};

/// Runs the command.
pub(super) fn run(
    arguments: &RegistryAddArgs,
    given: Option<&str>,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    source::expect_name(&arguments.server)?;
    let client = source::client(invocation, given)?;
    let version = arguments.version.as_deref();
    let server = block_on(source::fetch(invocation, &client, &arguments.server, version))?;
    expect_not_deleted(&server)?;
    let is_interactive = invocation.env.terminal.is_interactive && !invocation.wants_json();
    let mode = match is_interactive && !arguments.yes {
        true => AskMode::Terminal,
        false => AskMode::Never,
    };
    let option = choose(&server, &option_filter(arguments), mode)?;
    let addition =
        Addition { arguments, invocation, configuration: &configuration, server: &server };
    match option {
        InstallOption::Package(package) if package.package_type == PackageType::Mcpb => {
            addition.add_bundle(&client, option)
        }
        InstallOption::Package(_) | InstallOption::Remote(_) => addition.add_entry(option, mode),
    }
}

fn expect_not_deleted(server: &RegistryServer) -> Result<(), Failure> {
    if server.status != ListingStatus::Deleted {
        return Ok(());
    }
    let message = format!("`{}` {} was deleted from the registry", server.name, server.version);
    let failure = Failure::new(Exit::NotFound, &message);
    let failure = match &server.status_message {
        Some(message) => failure.detail(format!("  {}\n", sanitize_line(message))),
        None => failure,
    };
    Err(failure.hint(&format!("swb registry show {} --versions", server.name)))
}

fn option_filter(arguments: &RegistryAddArgs) -> OptionFilter {
    match (arguments.package, arguments.remote) {
        (Some(package), _) => OptionFilter::Package(package),
        (None, Some(remote)) => OptionFilter::Remote(remote),
        (None, None) => OptionFilter::Any,
    }
}

/// One server that is about to be added.
struct Addition<'a> {
    arguments: &'a RegistryAddArgs,
    invocation: &'a Invocation,
    configuration: &'a Configuration,
    server: &'a RegistryServer,
}

impl Addition<'_> {
    fn scope(&self) -> WritableScope {
        self.arguments.scope.unwrap_or(WritableScope::Local)
    }

    fn existing(&self) -> IfExists {
        if self.arguments.overwrite { IfExists::Overwrite } else { IfExists::Fail }
    }

    /// The name that the user chose, or a free one.
    fn local_name(&self) -> Result<String, Failure> {
        let Some(name) = &self.arguments.name else {
            let servers = &self.configuration.effective.servers;
            let is_taken = |name: &str| {
                self.existing() == IfExists::Fail && servers.iter().any(|it| it.name == name)
            };
            return Ok(local_name(&self.server.name, is_taken));
        };
        servers::check_name(name)?;
        if self.existing() == IfExists::Fail {
            servers::expect_new(self.invocation, self.configuration, self.scope(), name)?;
        }
        Ok(name.clone())
    }

    fn add_entry(
        &self,
        option: InstallOption<'_>,
        mode: AskMode,
    ) -> Result<CommandOutput, Failure> {
        let draft = EntryDraft::new(option).map_err(|why| {
            let message = format!("`{}` cannot be added", self.server.name);
            Failure::new(Exit::Configuration, &message).caused_by(why)
        })?;
        let name = self.local_name()?;
        let mut answers = answers::from_options(&self.arguments.set)?;
        answers::complete(&draft, &mut answers, mode)?;
        let storage = self.arguments.secrets.storage();
        let reference = |key: &str| {
            reference_for(self.invocation, storage, (self.scope(), &name), key)
                .unwrap_or_else(|| SecretReference::Keychain(key.to_owned()))
        };
        let NewEntry { entry, secrets, mut warnings } =
            draft.build(&answers, &reference).map_err(|errors| unanswered(&draft, &errors))?;
        let new = NewServer { name, entry };
        let scope = self.scope();
        let resolved = servers::check_entry(self.invocation, self.configuration, scope, &new)?;
        warnings.extend(self.warnings(option, &resolved));
        let plan = self.plan_text(option, &resolved, &warnings);
        if !self.confirm(&plan, mode)? {
            return Ok(CommandOutput::text("Nothing was written.\n"));
        }
        for (reference, secret) in &secrets {
            secret_store::store_secret(reference, secret, &self.invocation.env.home).map_err(
                |error| {
                    Failure::new(Exit::Failure, "nothing was added: a secret could not be stored")
                        .caused_by(error)
                        .hint("choose another place: --secrets file or --secrets keychain")
                },
            )?;
        }
        servers::write_servers(
            self.invocation,
            scope,
            std::slice::from_ref(&new),
            self.existing(),
        )?;
        let mut notes = match mode {
            AskMode::Terminal => String::new(),
            AskMode::Never => warning_lines(&warnings) + &loading_lines(&resolved),
        };
        if !secrets.is_empty() {
            let place = match self.arguments.secrets {
                SecretPlace::Keychain => "the keychain",
                SecretPlace::File => "files that only you can read",
            };
            let count = switchboard::config::display::pluralize(secrets.len(), "secret", "secrets");
            notes.push_str(&format!("note: stored {count} in {place}\n"));
        }
        notes.push_str(&servers::added_notes(
            self.invocation,
            self.configuration,
            scope,
            &new,
            &resolved,
        ));
        Ok(self.report(&new, option, &resolved, &warnings).note(notes))
    }

    /// A bundle is downloaded and checked, and installed from the checked file.
    fn add_bundle(
        &self,
        client: &RegistryClient,
        option: InstallOption<'_>,
    ) -> Result<CommandOutput, Failure> {
        let name = self.local_name()?;
        bundle_package::add(self.arguments, self.invocation, (self.server, option), client, name)
    }

    /// What to look at that the entry does not show: the status, and a program that is not installed.
    fn warnings(&self, option: InstallOption<'_>, resolved: &ResolvedServer) -> Vec<String> {
        let mut warnings: Vec<String> =
            bundle_package::deprecation(self.server).into_iter().collect();
        let installation = match option {
            InstallOption::Package(package) => EntryDraft::installation_command(package),
            InstallOption::Remote(_) => None,
        };
        warnings.extend(missing_program::warning(self.invocation, resolved, installation));
        warnings
    }

    /// What will be written, in full: nothing of it comes from the user's own files.
    fn plan_text(
        &self,
        option: InstallOption<'_>,
        resolved: &ResolvedServer,
        warnings: &[String],
    ) -> String {
        let mut text = registry_text::heading(self.server);
        text.push_str(&format!("  From:         {}\n", registry_text::option_text(option)));
        let target = server_text::target_with(resolved, LiteralText::Full).unwrap_or_default();
        let label = match resolved.entry.as_ref().is_some_and(|it| it.transport.url().is_some()) {
            true => "Connects to:",
            false => "Runs:",
        };
        text.push_str(&format!("  {label:<13} {}\n", paint(TextStyle::Bold, target)));
        text.push_str(&entry_text::more_entry_text(
            &self.invocation.env,
            resolved,
            LiteralText::Full,
        ));
        let scope = self.scope();
        let place =
            file::scope_location(self.invocation, scope, &self.invocation.scope_file(scope));
        text.push_str(&format!(
            "  Name:         {}\n  Written to:   {place}\n",
            printable(&resolved.name)
        ));
        text.push_str(&warning_lines(warnings));
        text
    }

    fn confirm(&self, plan: &str, mode: AskMode) -> Result<bool, Failure> {
        if self.arguments.yes {
            return Ok(true);
        }
        if mode == AskMode::Never {
            let message = "nothing was added: confirmation needs a terminal";
            return Err(Failure::new(Exit::Usage, message)
                .detail(plan.to_owned())
                .hint("look at what will run, then add --yes"));
        }
        let answer = ask_line(&format!("\n{plan}\nAdd it? [y/N] "))?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    fn report(
        &self,
        new: &NewServer,
        option: InstallOption<'_>,
        resolved: &ResolvedServer,
        warnings: &[String],
    ) -> CommandOutput {
        let scope = self.scope();
        let file = self.invocation.scope_file(scope);
        let target = server_text::target_with(resolved, LiteralText::Full);
        if self.invocation.wants_json() {
            let names = |key: &str| -> Vec<&String> {
                new.entry
                    .get(key)
                    .and_then(Json::as_object)
                    .into_iter()
                    .flat_map(|it| it.keys())
                    .collect()
            };
            return json_output(&json!({
                "added": new.name,
                "scope": scope.scope().id(),
                "file": file.to_string_lossy(),
                "server": self.server.name,
                "version": self.server.version,
                "option": option.label(),
                "target": target,
                "env": names("env"),
                "headers": names("headers"),
                "warnings": warnings,
            }));
        }
        let mut text = format!(
            "Added `{}` to {}\n",
            printable(&new.name),
            file::scope_location(self.invocation, scope, &file)
        );
        if let Some(target) = target {
            let is_remote = resolved.entry.as_ref().is_some_and(|it| it.transport.url().is_some());
            let verb = if is_remote { "connects to" } else { "runs" };
            text.push_str(&format!("  {verb}: {target}\n"));
        }
        CommandOutput::text(text)
    }
}

/// The warning about variables that change what a program loads. The plan contains it anyway.
fn loading_lines(resolved: &ResolvedServer) -> String {
    let variables = resolved.entry.iter().flat_map(|it| it.transport.loading_variables());
    let variables: Vec<&str> = variables.collect();
    match variables.is_empty() {
        true => String::new(),
        false => format!("warning: {}\n", entry_text::loading_warning(&variables)),
    }
}

fn warning_lines(warnings: &[String]) -> String {
    let line =
        |it: &String| format!("{} {}\n", paint(TextStyle::Warning, "warning:"), printable(it));
    warnings.iter().map(line).collect()
}

/// Values are missing or wrong: says which, with what the publisher says about each.
fn unanswered(
    draft: &EntryDraft,
    errors: &[switchboard::config::registry::AnswerError],
) -> Failure {
    let lines = errors.iter().map(|it| format!("  {}\n", sanitize_line(&it.to_string())));
    let questions = draft.questions().iter().map(registry_text::question_line);
    let detail: String = lines.chain(["It asks for:\n".to_owned()]).chain(questions).collect();
    Failure::new(Exit::Usage, "nothing was added: values are missing or not accepted")
        .detail(detail)
        .hint("set each with --set KEY=VALUE; a secret may be a reference, such as --set KEY='${MY_VARIABLE}'")
}
