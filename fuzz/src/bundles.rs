//! Manifests of bundles: whatever a manifest says, nothing in it becomes a variable of the environment, a reference to a
//! secret, or a command without the values that it requires.

use std::path::Path;

use serde_json::{Map, Value as Json};
use switchboard_config::bundle::{
    BundleFolders, BundleInputs, BundleManifest, BundleOutcome, BundlePlatform,
};
use switchboard_config::template::Template;
use switchboard_config::user_config::{UserOption, ValueSyntax};

/// A value that would be dangerous if it were read again.
const HOSTILE: &str = "$PATH ${HOME} ${cmd:x} $& ${user_config.a}";

/// The value of every variable of the environment.
const CANARY: &str = "\u{1}environment\u{1}";

/// Checks one manifest.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok((manifest, _warnings)) = BundleManifest::parse(text) else { return };
    check_values(&manifest, &Map::new());
    let options = manifest.user_config.options.iter();
    let given = options.filter_map(|it| Some((it.key.clone(), hostile_value(it)?))).collect();
    check_values(&manifest, &given);
}

fn hostile_value(option: &UserOption) -> Option<Json> {
    let value = Json::from(HOSTILE);
    option.check(&value).ok().map(|()| value)
}

fn check_values(manifest: &BundleManifest, given: &Map<String, Json>) {
    let folders = BundleFolders::new(Path::new("/bundle"), Path::new("/home"));
    for platform in [BundlePlatform::Darwin, BundlePlatform::Linux, BundlePlatform::Win32] {
        let inputs =
            BundleInputs { folders: &folders, platform, given, syntax: ValueSyntax::Literal };
        let BundleOutcome::Runs(stdio) = manifest.expand(&inputs).outcome else { continue };
        for option in manifest.user_config.options.iter().filter(|it| it.required) {
            let has_value = given.contains_key(&option.key) || option.default.is_some();
            assert!(has_value, "`{}` is required", option.key);
        }
        let texts = std::iter::once(&stdio.command).chain(&stdio.args);
        for text in texts.chain(stdio.env.iter().map(|(_, value)| value)) {
            check_text(text);
        }
    }
}

/// What a text expands to does not depend on the environment, and refers to nothing.
fn check_text(text: &Template) {
    assert!(text.secrets().is_empty(), "a manifest refers to a secret");
    let mut missing = std::collections::BTreeSet::new();
    let environment = [("PATH", CANARY), ("HOME", CANARY)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
    let expanded = text.expand(&environment, &mut missing).to_unresolved_string();
    assert!(missing.is_empty() && !expanded.contains(CANARY), "a manifest reads the environment");
}
