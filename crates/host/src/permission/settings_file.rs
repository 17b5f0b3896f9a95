//! Puts permission rules into settings files and takes them out again. What rules decide is left to
//! `config::permission`; whether a rule is a good idea, to whoever calls.

use std::path::{Path, PathBuf};

use switchboard_config::edit::{self, Edit};
use switchboard_config::permission::{PermissionEffect, ToolRule};

use crate::sources::atomic_file;
use crate::sources::atomic_file::{ChangeOutcome, FileChangeError, Privacy};
use crate::sources::paths::Paths;

/// The key of a settings file that rules stand under.
const PERMISSIONS: &str = "permissions";

/// A file that rules can be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleFile {
    /// One person, one project: outside its tree.
    Local {
        /// The project, as `places::project_root` finds it.
        project_root: PathBuf,
    },
    /// One person, every project.
    User,
    /// Everybody in a project. What such a file allows does not count; what it denies and asks does.
    Project {
        /// The project's file.
        file: PathBuf,
    },
}

impl RuleFile {
    /// Where it is.
    pub fn path(&self, paths: &Paths) -> PathBuf {
        match self {
            RuleFile::Local { project_root } => paths.local_settings(project_root),
            RuleFile::User => paths.user_settings(),
            RuleFile::Project { file } => file.clone(),
        }
    }

    fn privacy(&self) -> Privacy {
        match self {
            RuleFile::Local { .. } | RuleFile::User => Privacy::Owner,
            RuleFile::Project { .. } => Privacy::Shared,
        }
    }

    /// Local settings say which project they belong to, since their folder's name does not.
    fn initial_edits(&self) -> Vec<Edit> {
        match self {
            RuleFile::Local { project_root } => {
                let value = project_root.to_string_lossy().into();
                vec![Edit::SetIfAbsent { key: "project".to_owned(), value }]
            }
            RuleFile::User | RuleFile::Project { .. } => Vec::new(),
        }
    }
}

/// What became of rules that were to be added or taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleChanges {
    /// The file.
    pub file: PathBuf,
    /// The rules that changed it, as they are written there.
    pub changed: Vec<String>,
    /// The rules that stood there already, or did not.
    pub unchanged: Vec<String>,
}

/// Adds rules to a list of a file, in one go. A rule that is there in other words is there.
pub fn add_rules(
    paths: &Paths,
    file: &RuleFile,
    effect: PermissionEffect,
    rules: &[ToolRule],
) -> Result<RuleChanges, FileChangeError> {
    let path = file.path(paths);
    let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
    atomic_file::change(&path, file.privacy(), |text| {
        let mut there = parse_rules(text, effect);
        let mut edits = file.initial_edits();
        for rule in rules {
            match there.contains(rule) {
                true => unchanged.push(rule.to_string()),
                false => {
                    there.push(rule.clone());
                    changed.push(rule.to_string());
                    edits.push(Edit::AddToNestedList {
                        object: PERMISSIONS.to_owned(),
                        key: effect.id().to_owned(),
                        text: rule.to_string(),
                    });
                }
            }
        }
        match changed.is_empty() {
            true => Ok(text.to_owned()),
            false => edit::apply(text, &edits),
        }
    })?;
    Ok(RuleChanges { file: path, changed, unchanged })
}

/// Adds one rule to the local settings of a project: for the answer "always".
pub fn add_rule(
    paths: &Paths,
    project_root: &Path,
    effect: PermissionEffect,
    rule: &ToolRule,
) -> Result<RuleChanges, FileChangeError> {
    let file = RuleFile::Local { project_root: project_root.to_owned() };
    add_rules(paths, &file, effect, std::slice::from_ref(rule))
}

/// Takes a rule out of the given lists of a file, however it is written there.
pub fn remove_rule(
    paths: &Paths,
    file: &RuleFile,
    effects: &[PermissionEffect],
    rule: &ToolRule,
) -> Result<Vec<PermissionEffect>, FileChangeError> {
    let path = file.path(paths);
    let mut found = Vec::new();
    // A file that is not there has no rules, and is not made to say so.
    if path.symlink_metadata().is_err() {
        return Ok(found);
    }
    let outcome = atomic_file::change(&path, file.privacy(), |text| {
        let mut edits = Vec::new();
        for effect in effects {
            let written = edit::strings_in_list(text, PERMISSIONS, effect.id());
            for text in written.into_iter().filter(|it| is_same_rule(it, rule)) {
                edits.push(Edit::RemoveFromNestedList {
                    object: PERMISSIONS.to_owned(),
                    key: effect.id().to_owned(),
                    text,
                });
                if !found.contains(effect) {
                    found.push(*effect);
                }
            }
        }
        match edits.is_empty() {
            true => Ok(text.to_owned()),
            false => edit::apply(text, &edits),
        }
    })?;
    debug_assert_eq!(outcome == ChangeOutcome::Written, !found.is_empty());
    Ok(found)
}

fn parse_rules(text: &str, effect: PermissionEffect) -> Vec<ToolRule> {
    let written = edit::strings_in_list(text, PERMISSIONS, effect.id());
    written.iter().filter_map(|it| ToolRule::parse(it).ok()).collect()
}

fn is_same_rule(text: &str, rule: &ToolRule) -> bool {
    ToolRule::parse(text).is_ok_and(|it| it == *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(home: &Path) -> Paths {
        Paths {
            config: home.join("config"),
            data: home.join("data"),
            state: home.join("state"),
            managed: home.join("managed"),
        }
    }

    fn rule(text: &str) -> ToolRule {
        ToolRule::parse(text).expect("it is a rule")
    }

    #[test]
    fn a_rule_is_added_once_to_the_local_settings_and_its_file_is_the_owners_alone() {
        let home = tempfile::tempdir().expect("a temp folder");
        let (paths, root) = (paths(home.path()), home.path().join("app"));
        let first = add_rule(&paths, &root, PermissionEffect::Allow, &rule("mcp__s__t(a=b)"));
        let first = first.expect("written");
        assert_eq!(first.changed, ["mcp__s__t(a=b)"]);
        let text = std::fs::read_to_string(&first.file).expect("it is there");
        let again = add_rule(&paths, &root, PermissionEffect::Allow, &rule("mcp__s__t(a=\"b\")"));
        assert_eq!(again.expect("the same").unchanged, ["mcp__s__t(a=b)"]);
        assert_eq!(std::fs::read_to_string(&first.file).expect("it is there"), text);
        assert!(text.contains("\"project\""), "{text}");
    }

    #[test]
    fn a_rule_is_taken_out_however_it_is_written_and_a_file_is_not_made_for_that() {
        let home = tempfile::tempdir().expect("a temp folder");
        let paths = paths(home.path());
        let all = [PermissionEffect::Allow, PermissionEffect::Ask, PermissionEffect::Deny];
        let gone = rule("mcp__s__t(a=b)");
        assert_eq!(remove_rule(&paths, &RuleFile::User, &all, &gone).expect("nothing"), []);
        assert!(!paths.user_settings().exists());
        std::fs::create_dir_all(&paths.config).expect("a folder");
        let text = "{\"permissions\": {\n  \"allow\": [\"mcp__s__t(a=\\\"b\\\")\", \"mcp__x\"], // two\n  \"deny\": [\"mcp__s__t(a=b)\"]\n}}";
        std::fs::write(paths.user_settings(), text).expect("a file");
        let found = remove_rule(&paths, &RuleFile::User, &[PermissionEffect::Allow], &gone);
        assert_eq!(found.expect("written"), [PermissionEffect::Allow]);
        assert_eq!(
            std::fs::read_to_string(paths.user_settings()).expect("it is there"),
            "{\"permissions\": {\n  \"allow\": [\"mcp__x\"], // two\n  \"deny\": [\"mcp__s__t(a=b)\"]\n}}"
        );
    }
}
