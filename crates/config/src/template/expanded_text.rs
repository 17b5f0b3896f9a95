//! Configured text after its variables are expanded.

use std::fmt;

use super::secret_reference::SecretReference;

/// A text after expansion; secrets are still references. It keeps which parts came from the environment, because
/// those are masked where the text is shown.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ExpandedText(Vec<TextSegment>);

/// A segment of an [`ExpandedText`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum TextSegment {
    /// Text of the entry itself, including the defaults of variables.
    Plain(String),
    /// The value of a variable of the user's environment; the variable as written, if it is not set.
    Variable {
        /// The name of the variable.
        name: String,
        /// Its value.
        value: String,
    },
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
                TextSegment::Plain(_) | TextSegment::Variable { .. } => None,
            })
            .collect()
    }

    /// Returns the whole text, with secrets as references.
    pub fn to_unresolved_string(&self) -> String {
        let piece = |piece: &TextSegment| match piece {
            TextSegment::Plain(text) | TextSegment::Variable { value: text, .. } => text.clone(),
            TextSegment::Secret(reference) => reference.to_string(),
        };
        self.0.iter().map(piece).collect()
    }

    /// Returns the segments without the distinction where their text came from: adjacent plain texts are joined.
    pub(crate) fn joined_segments(&self) -> Vec<TextSegment> {
        let mut joined = ExpandedText::default();
        for segment in &self.0 {
            match segment {
                TextSegment::Plain(text) | TextSegment::Variable { value: text, .. } => {
                    joined.push(text);
                }
                TextSegment::Secret(reference) => joined.push_secret(reference.clone()),
            }
        }
        joined.0
    }

    pub(super) fn push_variable(&mut self, name: &str, value: &str) {
        self.0.push(TextSegment::Variable { name: name.to_owned(), value: value.to_owned() });
    }

    pub(super) fn push_secret(&mut self, reference: SecretReference) {
        self.0.push(TextSegment::Secret(reference));
    }

    pub(super) fn push(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(TextSegment::Plain(last)) => last.push_str(text),
            Some(TextSegment::Secret(_) | TextSegment::Variable { .. }) | None => {
                self.0.push(TextSegment::Plain(text.to_owned()));
            }
        }
    }
}

/// Does not show the text, because it may be a secret.
impl fmt::Debug for ExpandedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExpandedText(…)")
    }
}
