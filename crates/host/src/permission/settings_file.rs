//! Adds permission rules to settings files and removes them. `switchboard_config::permission` decides what a rule
//! means.

use std::path::{Path, PathBuf};

use switchboard_config::edit::{self, Edit};
use switchboard_config::permission::{PermissionEffect, ToolRule};

use crate::sources::atomic_file;
use crate::sources::atomic_file::{ChangeOutcome, FileChangeError, Privacy};
use crate::sources::paths::Paths;

/// The key of the rules in a settings file.
const PERMISSIONS: &str = "permissions";

/// A file that can hold rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleFile {
    /// One user's settings for one project, stored outside its tree.
    Local {
        /// The project, as found by [`project_root`](crate::sources::paths::project_root).
        project_root: PathBuf,
    },
    /// One user's settings for all projects.
    User,
    /// The settings that a project shares. Its `allow` rules are ignored; `deny` and `ask` count.
    Project {
        /// The project file.
        file: PathBuf,
    },
}

impl RuleFile {
    /// The path of the file.
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

    /// Local settings name their project, because their folder's name is only a key.
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

/// The result of adding rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleChanges {
    /// The file.
    pub file: PathBuf,
    /// The rules that were added, as written.
    pub changed: Vec<String>,
    /// The rules that were present already.
    pub unchanged: Vec<String>,
}

/// Adds rules to one list of a file in one write. An equivalent rule in another notation counts as present.
pub fn add_rules(
    paths: &Paths,
    file: &RuleFile,
    effect: PermissionEffect,
    rules: &[ToolRule],
) -> Result<RuleChanges, FileChangeError> {
    let path = file.path(paths);
    let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
    atomic_file::change(&path, file.privacy(), |text| {
        let mut existing = parse_rules(text, effect);
        let mut edits = file.initial_edits();
        for rule in rules {
            match existing.contains(rule) {
                true => unchanged.push(rule.to_string()),
                false => {
                    existing.push(rule.clone());
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

/// Makes one list of a file consist of these rules, in at most two writes. Equivalent rules stay as they are written.
pub fn replace_rules(
    paths: &Paths,
    file: &RuleFile,
    effect: PermissionEffect,
    rules: &[ToolRule],
) -> Result<(), FileChangeError> {
    let edit_of = |text: String| Edit::RemoveFromNestedList {
        object: PERMISSIONS.to_owned(),
        key: effect.id().to_owned(),
        text,
    };
    let path = file.path(paths);
    if path.symlink_metadata().is_ok() {
        atomic_file::change(&path, file.privacy(), |text| {
            let written = edit::strings_in_list(text, PERMISSIONS, effect.id());
            let is_kept = |it: &String| rules.iter().any(|rule| is_same_rule(it, rule));
            let edits: Vec<Edit> =
                written.into_iter().filter(|it| !is_kept(it)).map(edit_of).collect();
            match edits.is_empty() {
                true => Ok(text.to_owned()),
                false => edit::apply(text, &edits),
            }
        })?;
    }
    if !rules.is_empty() {
        add_rules(paths, file, effect, rules)?;
    }
    Ok(())
}

/// Adds one rule to a project's local settings, for the answer "always".
pub fn add_rule(
    paths: &Paths,
    project_root: &Path,
    effect: PermissionEffect,
    rule: &ToolRule,
) -> Result<RuleChanges, FileChangeError> {
    let file = RuleFile::Local { project_root: project_root.to_owned() };
    add_rules(paths, &file, effect, std::slice::from_ref(rule))
}

/// Removes a rule from the given lists of a file, in any notation. Returns the lists that held it.
pub fn remove_rule(
    paths: &Paths,
    file: &RuleFile,
    effects: &[PermissionEffect],
    rule: &ToolRule,
) -> Result<Vec<PermissionEffect>, FileChangeError> {
    let path = file.path(paths);
    let mut found = Vec::new();
    // Do not create a file only to remove a rule.
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
    fn a_rule_is_added_once_to_the_private_local_settings() {
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
    fn a_rule_is_removed_in_any_notation_without_creating_a_file() {
        let home = tempfile::tempdir().expect("a temp folder");
        let paths = paths(home.path());
        let all_effects = [PermissionEffect::Allow, PermissionEffect::Ask, PermissionEffect::Deny];
        let removed = rule("mcp__s__t(a=b)");
        assert_eq!(
            remove_rule(&paths, &RuleFile::User, &all_effects, &removed).expect("nothing"),
            []
        );
        assert!(!paths.user_settings().exists());
        std::fs::create_dir_all(&paths.config).expect("a folder");
        let text = "{\"permissions\": {\n  \"allow\": [\"mcp__s__t(a=\\\"b\\\")\", \"mcp__x\"], // two\n  \"deny\": [\"mcp__s__t(a=b)\"]\n}}";
        std::fs::write(paths.user_settings(), text).expect("a file");
        let found = remove_rule(&paths, &RuleFile::User, &[PermissionEffect::Allow], &removed);
        assert_eq!(found.expect("written"), [PermissionEffect::Allow]);
        assert_eq!(
            std::fs::read_to_string(paths.user_settings()).expect("it is there"),
            "{\"permissions\": {\n  \"allow\": [\"mcp__x\"], // two\n  \"deny\": [\"mcp__s__t(a=b)\"]\n}}"
        );
    }

    #[test]
    fn replacing_a_list_keeps_equal_rules_and_other_lists() {
        let home = tempfile::tempdir().expect("a folder");
        let paths = paths(home.path());
        let rule = |text: &str| ToolRule::parse(text).expect("a rule");
        let (allow, deny) = (PermissionEffect::Allow, PermissionEffect::Deny);
        let old = [rule("mcp__a"), rule("mcp__b")];
        add_rules(&paths, &RuleFile::User, allow, &old).expect("it is written");
        add_rules(&paths, &RuleFile::User, deny, &old).expect("it is written");
        let new = [rule("mcp__b"), rule("mcp__c")];
        replace_rules(&paths, &RuleFile::User, allow, &new).expect("it is written");
        let text = std::fs::read_to_string(paths.user_settings()).expect("the file");
        assert_eq!(parse_rules(&text, allow), new);
        assert_eq!(parse_rules(&text, deny), old);
        replace_rules(&paths, &RuleFile::User, allow, &[]).expect("it is written");
        let text = std::fs::read_to_string(paths.user_settings()).expect("the file");
        assert_eq!(parse_rules(&text, allow), []);
    }
}
