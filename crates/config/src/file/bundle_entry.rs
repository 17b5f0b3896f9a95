//! Entries that name an installed bundle: `{"bundle": "sha256:…", "userConfig": {…}}`. `bundle_expansion` makes the entry of a
//! stdio server of them.

use serde_json::{Map, Value as Json};

use super::entry_decoder::{common_options, is_variable_name};
use super::fields::Fields;
use crate::bundle::BundleHash;
use crate::document::{Node, Value};
use crate::entry::{CommonOptions, TransportKind};
use crate::problem::{ProblemKind, Reporter, Severity};
use crate::template::Template;

/// The keys of other kinds of entries, which contradict `bundle`.
const CONFLICTS: [&str; 4] = ["command", "args", "url", "headers"];

/// An entry that names a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleEntry {
    /// The bundle.
    pub hash: BundleHash,
    /// The user's values for its options, which may contain variables and references to secrets.
    pub values: OptionValues,
    /// Environment variables in addition to those of the bundle.
    pub(super) env: Vec<(String, Template)>,
    /// The working folder of the server.
    pub(super) cwd: Option<Template>,
    pub(super) common: CommonOptions,
    pub(super) disabled: bool,
    pub(super) description: Option<String>,
}

/// Values of options as a file has them. They have no `Debug` output, because they may be secrets.
#[derive(Clone, Default, PartialEq)]
pub struct OptionValues(pub Map<String, Json>);

impl std::fmt::Debug for OptionValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OptionValues(…)")
    }
}

/// Does the entry name a bundle?
pub(super) fn names_bundle(node: &Node) -> bool {
    matches!(&node.value, Value::Object(members) if members.iter().any(|it| it.key == "bundle"))
}

/// Decodes an entry that names a bundle. Returns `None` if it contains an error, which is then in the reporter.
pub(super) fn decode_bundle_entry(
    server: &str,
    node: &Node,
    reporter: &mut Reporter<'_>,
) -> Option<BundleEntry> {
    let before = reporter.problems.len();
    let mut fields = Fields::open(server, "", node, reporter)?;
    let hash = hash(&mut fields);
    for key in CONFLICTS {
        if let Some(member) = fields.find(key) {
            fields.report(member.key_span, key, ProblemKind::BesideBundle);
        }
    }
    if let Some(member) = fields.find("type")
        && fields.string("type").is_some_and(|word| word != TransportKind::Stdio.id())
    {
        fields.report(member.key_span, "type", ProblemKind::BesideBundle);
    }
    let values = OptionValues(match fields.find("userConfig").map(|it| &it.node) {
        None => Map::new(),
        Some(node) => match node.to_json() {
            Json::Object(values) => values,
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                fields.report_wrong_type(node, "userConfig", "an object");
                Map::new()
            }
        },
    });
    let env = fields.string_map("env", "a variable", is_variable_name);
    let cwd = fields.string("cwd").map(|text| Template::parse(&text));
    let common = common_options(&mut fields, node);
    let disabled = fields.boolean("disabled");
    let description = fields.string("description");
    let failed = reporter.problems[before..].iter().any(|it| it.severity() == Severity::Error);
    let hash = hash.filter(|_| !failed)?;
    Some(BundleEntry { hash, values, env, cwd, common, disabled, description })
}

fn hash(fields: &mut Fields<'_, '_, '_>) -> Option<BundleHash> {
    let member = fields.find("bundle")?;
    let hash = BundleHash::parse(&fields.string("bundle")?);
    if hash.is_none() {
        fields.report(member.node.span, "bundle", ProblemKind::InvalidBundleHash);
    }
    hash
}
