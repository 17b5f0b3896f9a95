//! Manifests of plugins and files of marketplaces: whatever they say, no path leads out, no text is an option of git, and no
//! text of a plugin becomes a reference to a secret.

use std::path::{Component, Path};

use serde_json::Value as Json;
use switchboard_config::plugin::{
    GitSource, Marketplace, MarketplaceEntry, MarketplaceSource, McpServers, PluginId,
    PluginManifest, PluginSource, RelativePath,
};

/// Checks one input as both kinds of files.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(manifest) = PluginManifest::parse(text) {
        check_manifest(&manifest);
        assert!(manifest.name.is_some(), "a manifest has a name");
    }
    if let Ok(marketplace) = Marketplace::parse(text) {
        check_marketplace(&marketplace);
    }
    if let Ok(json) = serde_json::from_str::<Json>(text)
        && let Ok(source) = MarketplaceSource::parse(&json)
    {
        let again = MarketplaceSource::parse(&source.to_json());
        assert_eq!(again.as_ref(), Ok(&source), "a source is read as it is written");
        if let MarketplaceSource::Git(git) = &source {
            check_git(git);
        }
    }
}

fn check_marketplace(marketplace: &Marketplace) {
    for entry in &marketplace.plugins {
        let id = PluginId::new(&entry.name, &marketplace.name).expect("both names were checked");
        assert_eq!(PluginId::parse(&id.to_string()), Some(id.clone()));
        assert_eq!(id.data_folder().components().count(), 2, "{id:?}");
        check_manifest(&entry.about);
        match &entry.source {
            PluginSource::Relative(path) => check_path(path),
            PluginSource::Git(git) => check_git(git),
            PluginSource::Npm(npm) => {
                assert!(!npm.package.contains("..") || !npm.package.contains("/."), "{npm:?}");
                assert!(!npm.package.starts_with(['-', '/', '.']), "{npm:?}");
            }
            PluginSource::Archive(archive) => {
                assert!(!archive.url.contains(char::is_control), "{archive:?}");
            }
            PluginSource::Command => {}
        }
        // An entry is stored when a plugin is installed.
        let again = MarketplaceEntry::from_raw(&entry.raw.0);
        assert_eq!(again.as_ref(), Ok(entry), "an entry is read as it is stored");
    }
    for name in marketplace.renames.keys() {
        let _found = marketplace.renamed(name);
    }
}

fn check_manifest(manifest: &PluginManifest) {
    for servers in &manifest.servers {
        match servers {
            McpServers::File(path) | McpServers::Bundle(path) => check_path(path),
            McpServers::BundleUrl(_) | McpServers::Inline(_) => {}
        }
    }
}

fn check_path(path: &RelativePath) {
    let root = Path::new("/root-of-the-plugin");
    let below = path.below(root);
    let inside = below.strip_prefix(root).expect("it is below the folder");
    assert!(inside.components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir)));
    assert!(!path.to_string().contains(char::is_control), "{path:?}");
}

fn check_git(git: &GitSource) {
    let url = git.origin.clone_url();
    assert!(!url.starts_with('-') && !url.contains("::"), "{url}");
    assert!(!url.contains(|c: char| c.is_control() || c.is_whitespace()), "{url}");
    for text in git.reference.iter().chain(&git.sha) {
        assert!(!text.starts_with('-') && !text.contains([' ', ':', '^', '~']), "{text}");
    }
    if let Some(path) = &git.path {
        check_path(path);
    }
}
