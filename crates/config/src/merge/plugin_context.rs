//! What is different about the servers of a plugin: an approval does not depend on the folder of one version, nor on the
//! project that the user happens to be in.

use std::collections::BTreeSet;
use std::path::Path;

use crate::entry::{Fingerprint, ServerEntry, ServerName};
use crate::plugin::{NEUTRAL_VARIABLES, PLUGIN_ROOT, PluginOrigin};
use crate::source::path_key;
use crate::template::Environment;

/// The plugin of a layer.
pub(super) struct PluginContext<'a> {
    pub(super) origin: &'a PluginOrigin,
    /// The variables, with references to themselves in place of the folders.
    neutral: Environment,
}

impl<'a> PluginContext<'a> {
    pub(super) fn new(origin: &'a PluginOrigin, environment: &Environment) -> PluginContext<'a> {
        let neutral = NEUTRAL_VARIABLES
            .iter()
            .fold(environment.clone(), |known, name| known.with(name, &format!("${{{name}}}")));
        PluginContext { origin, neutral }
    }

    /// The hash that an approval is bound to.
    pub(super) fn fingerprint(&self, entry: &ServerEntry, name: &ServerName) -> Fingerprint {
        entry.expand(name.clone(), &self.neutral, &mut BTreeSet::new()).fingerprint()
    }

    /// The program that an approval is bound to.
    pub(super) fn program_key(&self, program: &Path) -> String {
        match program.strip_prefix(&self.origin.root) {
            Ok(inside) => format!("${{{PLUGIN_ROOT}}}/{}", path_key(inside)),
            Err(_) => path_key(program),
        }
    }
}
