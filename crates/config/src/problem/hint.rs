//! The hint of a problem: what a user can type or change to fix it.

use super::Problem;
use super::kind::ProblemKind;
use super::read_failure::ReadFailure;
use crate::bundle::BundleProblem;
use crate::entry::{NameError, ServerName};
use crate::permission::PermissionMode;
use crate::scope::Scope;
use crate::user_config::{OptionProblem, OptionProblemKind};

impl Problem {
    /// Returns how to fix it, if the message does not say that.
    pub fn hint(&self) -> Option<String> {
        match &self.kind {
            ProblemKind::UnknownTransport { nearest: Some(nearest) }
            | ProblemKind::UnknownMode { nearest: Some(nearest) }
            | ProblemKind::UnknownKey { nearest: Some(nearest) } => {
                Some(format!("did you mean `{nearest}`?"))
            }
            ProblemKind::UnknownMode { nearest: None } => Some(format!(
                "known modes: {}",
                PermissionMode::ALL.map(PermissionMode::id).join(", ")
            )),
            ProblemKind::InvalidPermissionRule { error, .. } => error.hint().map(str::to_owned),
            ProblemKind::InvalidEntryRule(_) => Some(
                "in an entry, write `tool`, `tool(argument=value)` or `*` for every tool"
                    .to_owned(),
            ),
            ProblemKind::UnknownTransport { nearest: None } => {
                Some("known types: stdio, http (or streamable-http), sse, ws".to_owned())
            }
            ProblemKind::UrlWithoutType => {
                Some("add `\"type\": \"http\"` (or `sse`, `ws`) to the entry".to_owned())
            }
            ProblemKind::CommandAndUrl => Some(
                "use `command` for a program to start, or `url` for a remote server".to_owned(),
            ),
            ProblemKind::MissingVariable(name) if name.is_empty() => {
                Some("write `$$` for a literal dollar sign".to_owned())
            }
            ProblemKind::MissingVariable(name) => {
                Some(format!("set {name}, or give it a default: ${{{name}:-value}}"))
            }
            ProblemKind::SecretNotAllowed(_) => {
                Some("move the entry to the user or local scope, or use a variable".to_owned())
            }
            ProblemKind::ForeignFormat { hint: whose, .. } => Some((*whose).to_owned()),
            ProblemKind::InvalidServerName(error) => self.name_hint(error),
            ProblemKind::UserOnly => {
                Some("add it to your own settings: swb permissions add".to_owned())
            }
            ProblemKind::Unreadable(ReadFailure::PermissionDenied) => {
                Some("make the file readable, or remove it".to_owned())
            }
            ProblemKind::CorruptApprovals(_) => {
                Some("run `swb reset-project-choices`, then approve the servers again".to_owned())
            }
            ProblemKind::InvalidBundleHash => {
                Some("the command writes it: swb bundle install FILE".to_owned())
            }
            ProblemKind::Bundle(BundleProblem::NotInstalled { .. }) => {
                Some("install the bundle file: swb bundle install FILE".to_owned())
            }
            ProblemKind::Bundle(BundleProblem::Unreadable | BundleProblem::Manifest(_)) => {
                Some("remove and add the server again: swb remove NAME, swb add FILE".to_owned())
            }
            ProblemKind::BundleOption(problem) => {
                let command = match self.origin.scope() {
                    Scope::Plugin => "plugin",
                    Scope::Enterprise
                    | Scope::Dynamic
                    | Scope::Connectors
                    | Scope::Project
                    | Scope::Local
                    | Scope::User => "bundle",
                };
                option_hint(command, self.server.as_deref()?, problem)
            }
            ProblemKind::Plugin(problem) => problem.hint(),
            ProblemKind::Bundle(
                BundleProblem::Platform(_)
                | BundleProblem::SecretInCommand
                | BundleProblem::EmptyCommand,
            )
            | ProblemKind::BesideBundle
            | ProblemKind::Unreadable(_)
            | ProblemKind::Syntax(_)
            | ProblemKind::WrongType { .. }
            | ProblemKind::MissingKey { .. }
            | ProblemKind::Empty
            | ProblemKind::RuntimeOnlyTransport(_)
            | ProblemKind::UnknownKey { nearest: None }
            | ProblemKind::NoEffect { .. }
            | ProblemKind::SecretInCommand
            | ProblemKind::DuplicateKey
            | ProblemKind::DuplicateManagedKey
            | ProblemKind::AmbiguousRules
            | ProblemKind::OutOfRange { .. }
            | ProblemKind::InvalidUrl { .. }
            | ProblemKind::InvalidClientMetadataUrl
            | ProblemKind::InvalidName { .. }
            | ProblemKind::ControlCharacter
            | ProblemKind::InvalidPolicyEntry(_)
            | ProblemKind::ManagedOnly => None,
        }
    }

    fn name_hint(&self, error: &NameError) -> Option<String> {
        match error {
            NameError::Reserved | NameError::PluginPrefix => Some("choose another name".to_owned()),
            NameError::Empty => None,
            NameError::Character(_) | NameError::Separator => {
                let better = ServerName::suggestion(self.server.as_deref()?)?;
                Some(format!("rename it, for example to `{better}`"))
            }
        }
    }
}

/// The command that sets an option, if its value is the problem.
fn option_hint(command: &str, server: &str, problem: &OptionProblem) -> Option<String> {
    let key = &problem.key;
    match problem.kind {
        OptionProblemKind::UnknownOption => {
            Some(format!("remove it: swb {command} configure {server} --unset {key}"))
        }
        OptionProblemKind::WrongType { .. }
        | OptionProblemKind::OutOfRange(_)
        | OptionProblemKind::OneValue
        | OptionProblemKind::PlainSecret
        | OptionProblemKind::Unset => {
            Some(format!("set it: swb {command} configure {server} {key}=VALUE"))
        }
        OptionProblemKind::NotAnObject
        | OptionProblemKind::TooMany
        | OptionProblemKind::InvalidKey
        | OptionProblemKind::UnknownType
        | OptionProblemKind::MissingText(_)
        | OptionProblemKind::InvalidMember(_)
        | OptionProblemKind::InvalidDefault
        | OptionProblemKind::ListInText => None,
    }
}
