//! Problems of an entry that only show after its variables are expanded.

use std::collections::BTreeSet;

use crate::entry::{ServerEntry, ServerSpec, is_client_metadata_url, is_https_url, is_valid_url};
use crate::problem::ProblemKind;
use crate::scope::Scope;
use crate::template::TextSegment;

/// Whether an entry may refer to secrets.
#[derive(Debug, Clone, Copy)]
pub(super) enum SecretRule {
    /// As its scope says.
    OfScope(Scope),
    /// That was decided before.
    Checked,
}

/// Returns the problems that only show after expansion, each with its key.
pub(super) fn expansion_problems(
    entry: &ServerEntry,
    spec: &ServerSpec,
    missing: &BTreeSet<String>,
    secrets: SecretRule,
) -> Vec<(Option<String>, ProblemKind)> {
    let mut found: Vec<(Option<String>, ProblemKind)> =
        missing.iter().map(|name| (None, ProblemKind::MissingVariable(name.clone()))).collect();
    if let SecretRule::OfScope(scope) = secrets
        && !scope.may_name_secrets()
        && entry.templates().iter().any(|text| !text.secrets().is_empty())
    {
        found.push((None, ProblemKind::SecretNotAllowed(scope)));
    }
    if let Some(url) = spec.transport.url() {
        let kind = spec.transport.kind();
        let text = url.to_unresolved_string();
        let whole = missing.is_empty() && !is_valid_url(kind, &text);
        if whole || has_secret_host(&url.joined_segments()) {
            let schemes = kind.schemes_text();
            found.push((Some("url".to_owned()), ProblemKind::InvalidUrl { schemes }));
        }
    }
    let metadata = spec.transport.oauth().and_then(|it| it.auth_server_metadata_url.as_ref());
    if metadata.is_some_and(|it| missing.is_empty() && !is_https_url(&it.to_unresolved_string())) {
        let key = "oauth.authServerMetadataUrl".to_owned();
        found.push((Some(key), ProblemKind::InvalidUrl { schemes: "`https://`" }));
    }
    let document = spec.transport.oauth().and_then(|it| it.client_metadata_url.as_ref());
    if document
        .is_some_and(|it| missing.is_empty() && !is_client_metadata_url(&it.to_unresolved_string()))
    {
        let key = "oauth.clientMetadataUrl".to_owned();
        found.push((Some(key), ProblemKind::InvalidClientMetadataUrl));
    }
    found
}

/// A secret may be part of the path or query of a URL, but not of its host: the policy must know where it
/// leads.
fn has_secret_host(pieces: &[TextSegment]) -> bool {
    let is_secret = |piece: &TextSegment| matches!(piece, TextSegment::Secret(_));
    if !pieces.iter().any(is_secret) {
        return false;
    }
    let Some(TextSegment::Plain(front)) = pieces.first() else { return true };
    let Some((_, rest)) = front.split_once("://") else { return true };
    !rest.contains(['/', '?', '#'])
}
