//! The permission rules that a program changes while its session runs: they hold at once, and those for a settings file are
//! written to it.

use std::collections::HashMap;
use std::path::PathBuf;

use switchboard::config::permission::{PermissionEffect, ToolRule};
use switchboard::permission::ActiveRules;
use switchboard::permission::settings_file;
use switchboard::permission::settings_file::RuleFile;
use switchboard::wire::shared::Shared;
use switchboard_chat::control::permission_update::{Destination, RuleUpdate};

use crate::env::ProcessEnv;
use crate::sdk_session::rule_notation;

/// What happens to rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleChange {
    Add,
    Replace,
    Remove,
}

/// Whether the configuration has to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleStorage {
    /// It need not.
    Unchanged,
    /// Rules were removed from a file.
    RulesRemoved,
}

/// The rules of a session.
pub(super) struct SessionRules {
    active: ActiveRules,
    /// The rules that the program added, by where it wants them to be stored. Requests overlap.
    added: Shared<HashMap<(PermissionEffect, Destination), Vec<ToolRule>>>,
}

impl SessionRules {
    pub(super) fn new(active: ActiveRules) -> SessionRules {
        SessionRules { active, added: Shared::default() }
    }

    pub(super) fn active(&self) -> &ActiveRules {
        &self.active
    }

    /// Changes rules as the program says.
    pub(super) async fn change(
        &self,
        env: &ProcessEnv,
        project_root: PathBuf,
        update: RuleUpdate,
        change: RuleChange,
    ) -> Result<RuleStorage, String> {
        let RuleUpdate { rules, behavior, destination } = update;
        let mut parsed: Vec<ToolRule> = Vec::new();
        for rule in &rules {
            parsed.extend(rule_notation::parse(rule, behavior, env)?);
        }
        let rules = parsed;
        self.change_for_session(&rules, (behavior, destination), change);
        let Some(file) = rule_file(destination, project_root) else {
            return Ok(RuleStorage::Unchanged);
        };
        let paths = env.paths.clone();
        let writing = tokio::task::spawn_blocking(move || match change {
            RuleChange::Add => settings_file::add_rules(&paths, &file, behavior, &rules).map(drop),
            RuleChange::Replace => settings_file::replace_rules(&paths, &file, behavior, &rules),
            RuleChange::Remove => rules.iter().try_for_each(|rule| {
                settings_file::remove_rule(&paths, &file, &[behavior], rule).map(drop)
            }),
        });
        match (writing.await, change) {
            (Ok(Ok(())), RuleChange::Add) => Ok(RuleStorage::Unchanged),
            (Ok(Ok(())), RuleChange::Replace | RuleChange::Remove) => Ok(RuleStorage::RulesRemoved),
            (Ok(Err(error)), _) => Err(format!("they hold for this session only: {error}")),
            (Err(error), _) => Err(error.to_string()),
        }
    }

    /// Lets changed rules hold at once. Those for a file hold for this session too, until its configuration is read
    /// again.
    fn change_for_session(
        &self,
        rules: &[ToolRule],
        (behavior, destination): (PermissionEffect, Destination),
        change: RuleChange,
    ) {
        let before = self.added.update(|it| {
            let known = it.entry((behavior, destination)).or_default();
            match change {
                RuleChange::Add => {
                    known.extend_from_slice(rules);
                    Vec::new()
                }
                RuleChange::Replace => std::mem::replace(known, rules.to_vec()),
                RuleChange::Remove => {
                    known.retain(|it| !rules.contains(it));
                    rules.to_vec()
                }
            }
        });
        self.active.remove_for_session(behavior, &before);
        match change {
            RuleChange::Add | RuleChange::Replace => {
                for rule in rules {
                    self.active.add_for_session(behavior, rule.clone());
                }
            }
            RuleChange::Remove => {}
        }
    }
}

fn rule_file(destination: Destination, project_root: PathBuf) -> Option<RuleFile> {
    match destination {
        Destination::Session => None,
        Destination::LocalSettings => Some(RuleFile::Local { project_root }),
        Destination::UserSettings => Some(RuleFile::User),
        Destination::ProjectSettings => {
            let file = project_root.join(switchboard::sources::PROJECT_FILE);
            Some(RuleFile::Project { file })
        }
    }
}
