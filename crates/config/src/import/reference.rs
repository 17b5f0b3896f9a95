//! References of another host, translated into our syntax.

/// A text in our syntax.
#[derive(Debug, Default)]
pub(super) struct TranslatedText {
    /// The text.
    pub text: String,
    /// The changes.
    pub notes: Vec<TranslationNote>,
}

/// A translated reference.
pub(super) struct TranslatedReference {
    pub text: String,
    pub notes: Vec<TranslationNote>,
}

/// A change to a text. Contains only references and their names.
#[derive(Debug)]
pub(super) enum TranslationNote {
    /// The variable must be set.
    RequiresVariable(String),
    /// An input became a variable.
    RequiresInput {
        /// The input.
        input: String,
        /// The variable.
        variable: String,
    },
    /// A reference was rewritten.
    Rewritten {
        /// The reference.
        from: String,
        /// The new reference.
        to: String,
    },
    /// The text is read from a file.
    ReadsFile(String),
    /// A dollar sign was doubled.
    DollarEscaped,
    /// A reference without equivalent became plain text.
    UnknownReference,
}

/// Is it a valid variable name in our syntax?
pub(super) fn is_variable_name(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Translates a reference to a variable; `None` if the name is not valid.
pub(super) fn variable(name: &str) -> Option<TranslatedReference> {
    is_variable_name(name).then(|| TranslatedReference {
        text: format!("${{{name}}}"),
        notes: vec![TranslationNote::RequiresVariable(name.to_owned())],
    })
}
