//! A server as the lists see it: its name, its command and its URL.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use url::Url;

use super::lists::{Matcher, MatcherKind, PolicyRule};
use super::{CommandDoubt, PolicyContext};
use crate::entry::{ServerSpec, StartFolder, TransportConfig, all_proxied_urls, argv};
use crate::pattern::MatchMode;
use crate::program::ProgramQuery;
use crate::scope::Scope;
use crate::source::Authority;
use crate::template::{ExpandedText, Template};

pub(super) struct PolicySubject<'a> {
    name: &'a str,
    argv: Option<Vec<String>>,
    /// Everything in the entry that makes the command run something else than its words say.
    doubt: Option<CommandDoubt>,
    url: Option<Url>,
    has_url: bool,
    /// The URL contains a secret, so its full text is not known yet.
    is_partly_secret: bool,
    context: &'a PolicyContext<'a>,
    /// The folders in which an administrator's rules find programs.
    command_path: &'a str,
}

/// Whether an allow rule covers a server.
pub(super) enum AllowMatch {
    /// It does.
    Allowed,
    /// It names the command, but the entry makes it run something else.
    Doubtful(CommandDoubt),
    /// It is about another server.
    Other,
}

impl<'a> PolicySubject<'a> {
    pub(super) fn new(
        spec: &'a ServerSpec,
        context: &'a PolicyContext<'a>,
        command_path: &'a str,
    ) -> PolicySubject<'a> {
        let url = spec.transport.url();
        PolicySubject {
            name: spec.name.as_str(),
            argv: argv(&spec.transport),
            doubt: entry_doubt(spec),
            url: url.and_then(|text| Url::parse(&text.to_unresolved_string()).ok()),
            has_url: url.is_some(),
            is_partly_secret: url.is_some_and(ExpandedText::has_secrets),
            context,
            command_path,
        }
    }

    pub(super) fn required_kind<'r>(
        &self,
        mut rules: impl Iterator<Item = &'r PolicyRule>,
    ) -> MatcherKind {
        let is_program = self.argv.is_some();
        let required = rules.find_map(|rule| match &rule.matcher {
            Matcher::Command(_) if is_program => Some(MatcherKind::Command),
            Matcher::Url(_) if self.has_url => Some(MatcherKind::Url),
            Matcher::Invalid(kinds) if is_program && kinds.contains(&MatcherKind::Command) => {
                Some(MatcherKind::Command)
            }
            Matcher::Invalid(kinds) if self.has_url && kinds.contains(&MatcherKind::Url) => {
                Some(MatcherKind::Url)
            }
            Matcher::Name(_) | Matcher::Command(_) | Matcher::Url(_) | Matcher::Invalid(_) => None,
        });
        required.unwrap_or(MatcherKind::Any)
    }

    pub(super) fn is_allowed_by(
        &self,
        matcher: &Matcher,
        required: MatcherKind,
        authority: Authority,
    ) -> AllowMatch {
        let is_allowed = match (matcher, required) {
            (Matcher::Name(name), MatcherKind::Any) => name == self.name,
            (Matcher::Command(argv), MatcherKind::Any | MatcherKind::Command) => {
                return self.is_command_allowed(argv, authority);
            }
            (Matcher::Url(pattern), MatcherKind::Any | MatcherKind::Url) => {
                let is_whole = !self.is_partly_secret;
                is_whole
                    && self.url.as_ref().is_some_and(|url| pattern.matches(url, MatchMode::Strict))
            }
            (Matcher::Name(_), MatcherKind::Command | MatcherKind::Url)
            | (Matcher::Command(_), MatcherKind::Url)
            | (Matcher::Url(_), MatcherKind::Command)
            | (Matcher::Invalid(_), _) => false,
        };
        if is_allowed { AllowMatch::Allowed } else { AllowMatch::Other }
    }

    /// A rule for a command means a program, not only its name: that program must run, as it is. The entries of an
    /// administrator's own server file need no such check. A program that is not there yet cannot be compared; the
    /// entry is bound to that, see [`super::Policy::binds_programs`].
    fn is_command_allowed(&self, rule: &[Template], authority: Authority) -> AllowMatch {
        let Some(own) = self.argv.as_ref().filter(|own| self.words_match(own, rule)) else {
            return AllowMatch::Other;
        };
        if self.context.scope == Scope::Enterprise {
            return AllowMatch::Allowed;
        }
        if let Some(doubt) = &self.doubt {
            return AllowMatch::Doubtful(doubt.clone());
        }
        let expected = self.program_of_rule(&own[0], authority);
        match self.context.program {
            Some(runs) if Some(runs) != expected.as_deref() => {
                let runs = runs.to_owned();
                AllowMatch::Doubtful(CommandDoubt::OtherProgram { runs, expected })
            }
            Some(_) | None => AllowMatch::Allowed,
        }
    }

    /// A proxied connector is denied by its own URL and by the vendor's URL inside it.
    pub(super) fn is_denied_by(&self, matcher: &Matcher) -> bool {
        match matcher {
            Matcher::Name(name) => name == self.name,
            Matcher::Command(argv) => self.is_command_denied(argv),
            Matcher::Url(pattern) => self.url.as_ref().is_some_and(|url| {
                pattern.matches(url, MatchMode::Broad)
                    || (self.is_partly_secret && pattern.origin_matches(url, MatchMode::Broad))
                    || all_proxied_urls(url)
                        .iter()
                        .any(|inner| pattern.matches(inner, MatchMode::Broad))
            }),
            Matcher::Invalid(_) => false,
        }
    }

    /// A denied command is denied under every spelling of its program.
    fn is_command_denied(&self, rule: &[Template]) -> bool {
        let (Some(own), Some(rule_command)) = (&self.argv, rule.first()) else { return false };
        if !self.words_match(&own[1..], &rule[1..]) {
            return false;
        }
        let command = self.expand(rule_command);
        let is_same_program = |authority| {
            self.context.program.is_some()
                && self.program_of_rule(&command, authority).as_deref() == self.context.program
        };
        own[0] == command
            || is_same_program(Authority::Administrator)
            || is_same_program(Authority::User)
    }

    /// The file that a rule's command means: an absolute path, or a name that is searched for where the rule's author
    /// has a say.
    fn program_of_rule(&self, command: &str, authority: Authority) -> Option<PathBuf> {
        let search_path = match authority {
            Authority::Administrator => self.command_path,
            Authority::User => self.context.environment.get("PATH").unwrap_or_default(),
        };
        if is_path(command) && !Path::new(command).is_absolute() {
            return None;
        }
        let start_folder = StartFolder::default();
        let query =
            ProgramQuery { command, search_path, base_folder: None, cwd: None, start_folder };
        self.context.programs?.find(&query)
    }

    fn words_match(&self, own: &[String], rule: &[Template]) -> bool {
        own.len() == rule.len()
            && own.iter().zip(rule).all(|(own, part)| match part.as_literal() {
                Some(text) => own == text,
                None => *own == self.expand(part),
            })
    }

    fn expand(&self, part: &Template) -> String {
        part.expand(self.context.environment, &mut BTreeSet::new()).to_unresolved_string()
    }
}

/// A setting in an entry that makes its command run another program than its words name.
fn entry_doubt(spec: &ServerSpec) -> Option<CommandDoubt> {
    let TransportConfig::Stdio(stdio) = &spec.transport else { return None };
    let variables = spec.transport.loading_variables();
    let command = stdio.command.to_unresolved_string();
    if !variables.is_empty() {
        let names = variables.into_iter().map(str::to_owned).collect();
        Some(CommandDoubt::LoadingVariables(names))
    } else if stdio.cwd.is_some() {
        Some(CommandDoubt::WorkingFolder)
    } else if is_path(&command) && !Path::new(&command).is_absolute() {
        Some(CommandDoubt::RelativePath)
    } else {
        None
    }
}

fn is_path(command: &str) -> bool {
    command.contains('/') || (cfg!(windows) && command.contains('\\'))
}
