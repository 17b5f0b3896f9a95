//! A server as the lists see it: its name, its command and its URL.

use std::collections::BTreeSet;

use url::Url;

use super::lists::{Matcher, MatcherKind, PolicyRule};
use crate::entry::{ServerSpec, all_proxied_urls, argv};
use crate::pattern::MatchMode;
use crate::template::{Environment, ExpandedText, Template};

pub(super) struct PolicySubject<'a> {
    name: &'a str,
    argv: Option<Vec<String>>,
    url: Option<Url>,
    has_url: bool,
    /// The URL contains a secret, so its full text is not known yet.
    is_partly_secret: bool,
    environment: &'a Environment,
}

impl<'a> PolicySubject<'a> {
    pub(super) fn new(spec: &'a ServerSpec, environment: &'a Environment) -> PolicySubject<'a> {
        let url = spec.transport.url();
        PolicySubject {
            name: spec.name.as_str(),
            argv: argv(&spec.transport),
            url: url.and_then(|text| Url::parse(&text.to_unresolved_string()).ok()),
            has_url: url.is_some(),
            is_partly_secret: url.is_some_and(ExpandedText::has_secrets),
            environment,
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

    pub(super) fn is_allowed_by(&self, matcher: &Matcher, required: MatcherKind) -> bool {
        match (matcher, required) {
            (Matcher::Name(name), MatcherKind::Any) => name == self.name,
            (Matcher::Command(argv), MatcherKind::Any | MatcherKind::Command) => {
                self.matches_command(argv)
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
        }
    }

    /// A proxied connector is denied by its own URL and by the vendor's URL inside it.
    pub(super) fn is_denied_by(&self, matcher: &Matcher) -> bool {
        match matcher {
            Matcher::Name(name) => name == self.name,
            Matcher::Command(argv) => self.matches_command(argv),
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

    fn matches_command(&self, argv: &[Template]) -> bool {
        let same = |own: &str, part: &Template| match part.as_literal() {
            Some(text) => own == text,
            None => {
                let expanded = part.expand(self.environment, &mut BTreeSet::new());
                own == expanded.to_unresolved_string()
            }
        };
        self.argv.as_ref().is_some_and(|own| {
            own.len() == argv.len() && own.iter().zip(argv).all(|(own, part)| same(own, part))
        })
    }
}
