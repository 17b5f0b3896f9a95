//! Configured text after its variables are expanded.

use std::fmt;

use super::secret_reference::SecretReference;

/// A text with its variables put in; named secrets are still names.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ExpandedText(Vec<TextSegment>);

/// A stretch of a [`Text`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum TextSegment {
    /// Characters.
    Plain(String),
    /// A secret to fetch when the text is used.
    Secret(SecretReference),
}

impl ExpandedText {
    /// A text with nothing left to fetch.
    pub fn plain(text: &str) -> ExpandedText {
        ExpandedText(vec![TextSegment::Plain(text.to_owned())])
    }

    /// The stretches in order.
    pub fn segments(&self) -> &[TextSegment] {
        &self.0
    }

    /// Is there anything left to fetch?
    pub fn has_secrets(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, TextSegment::Secret(_)))
    }

    /// The secrets that are left to fetch.
    pub fn secrets(&self) -> Vec<&SecretReference> {
        self.0
            .iter()
            .filter_map(|piece| match piece {
                TextSegment::Secret(reference) => Some(reference),
                TextSegment::Plain(_) => None,
            })
            .collect()
    }

    /// The whole text, secrets written as references.
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

/// Prints nothing of the text: it may be a secret.
impl fmt::Debug for ExpandedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExpandedText(…)")
    }
}
