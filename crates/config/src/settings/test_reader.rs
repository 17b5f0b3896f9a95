//! Reads settings for the tests of each section.

use crate::scope::Scope;
use crate::settings::Settings;
use crate::source::{Authority, Source};

/// Reads a user's settings.
pub(super) fn read(text: &str) -> Settings {
    Settings::read(&Source::file(Scope::User, "settings.json"), text, Authority::User)
}

/// The keys of the problems, in order.
pub(super) fn problem_keys(settings: &Settings) -> Vec<String> {
    settings.layer.problems.iter().filter_map(|it| it.key.clone()).collect()
}
