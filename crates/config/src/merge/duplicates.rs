//! Finds definitions of the same server under different names.

use std::collections::BTreeMap;

use super::effective::{ResolvedServer, ServerState};
use crate::entry::Signature;
use crate::scope::Scope;
use crate::source::Origin;

/// Marks servers with the same signature: one that a user configured takes precedence over one of a plugin or
/// an account.
pub(super) fn mark_duplicates(servers: &mut [ResolvedServer]) {
    let mut manual: BTreeMap<Signature, (String, Origin)> = BTreeMap::new();
    let mut plugins: BTreeMap<Signature, (String, Origin)> = BTreeMap::new();
    let ready = |server: &ResolvedServer| matches!(server.state, ServerState::Ready);
    for server in servers.iter().filter(|it| ready(it) && it.scope().is_manual()) {
        if let Some(signature) = &server.signature {
            let first = (server.name.clone(), server.origin.clone());
            manual.entry(signature.clone()).or_insert(first);
        }
    }
    for server in servers.iter_mut().filter(|it| ready(it) && !it.scope().is_manual()) {
        let Some(signature) = server.signature.clone() else { continue };
        let original = manual
            .get(&signature)
            .or_else(|| plugins.get(&signature).filter(|_| server.scope() == Scope::Plugin));
        if let Some((of, by)) = original {
            server.state = ServerState::Duplicate { of: of.clone(), by: by.clone() };
        } else if server.scope() == Scope::Plugin {
            plugins.insert(signature, (server.name.clone(), server.origin.clone()));
        }
    }
}
