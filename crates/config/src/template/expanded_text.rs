//! Configured text after its variables are expanded.

use std::fmt;

use super::secret_reference::SecretReference;

/// A text after expansion; secrets are still references.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ExpandedText(Vec<TextSegment>);

/// A segment of an [`ExpandedText`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum TextSegment {
    /// Plain text.
    Plain(String),
    /// A secret that is fetched when the text is used.
    Secret(SecretReference),
}

impl ExpandedText {
    /// Creates a text without secrets.
    pub fn plain(text: &str) -> ExpandedText {
        ExpandedText(vec![TextSegment::Plain(text.to_owned())])
    }

    /// Returns the segments in order.
    pub fn segments(&self) -> &[TextSegment] {
        &self.0
    }

    /// Does the text contain secret references?
    pub fn has_secrets(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, TextSegment::Secret(_)))
    }

    /// Returns the secret references.
    pub fn secrets(&self) -> Vec<&SecretReference> {
        self.0
            .iter()
            .filter_map(|piece| match piece {
                TextSegment::Secret(reference) => Some(reference),
                TextSegment::Plain(_) => None,
            })
            .collect()
    }

    /// Returns the whole text, with secrets as references.
    pub fn to_unresolved_string(&self) -> String {
        let piece = |piece: &TextSegment| match piece {
            TextSegment::Plain(text) => text.clone(),
            TextSegment::Secret(reference) => reference.to_string(),
        };
        self.0.iter().map(piece).collect()
    }

    pub(super) fn push_secret(&mut self, reference: SecretReference) {
        self.0.push(TextSegment::Secret(reference));
    }

    pub(super) fn push(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(TextSegment::Plain(last)) => last.push_str(text),
            Some(TextSegment::Secret(_)) | None => self.0.push(TextSegment::Plain(text.to_owned())),
        }
    }
}

/// Does not show the text, because it may be a secret.
impl fmt::Debug for ExpandedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExpandedText(…)")
    }
}
