//! References of another application, translated into our syntax.

/// A text in our spelling.
#[derive(Debug, Default)]
pub(super) struct TranslatedText {
    /// The text.
    pub text: String,
    /// What happened to it.
    pub notes: Vec<TranslationNote>,
}

/// A reference of a host, translated.
pub(super) struct TranslatedReference {
    pub text: String,
    pub notes: Vec<TranslationNote>,
}

/// What happened to a text. Holds references and their names, nothing else of the text.
#[derive(Debug)]
pub(super) enum TranslationNote {
    /// A variable has to be set.
    RequiresVariable(String),
    /// An input became a variable.
    RequiresInput {
        /// The input.
        input: String,
        /// The variable.
        variable: String,
    },
    /// A reference became something else.
    Rewritten {
        /// The reference.
        from: String,
        /// What it became.
        to: String,
    },
    /// A file is named.
    ReadsFile(String),
    /// A dollar was doubled.
    DollarEscaped,
    /// A reference is unknown and became plain text.
    UnknownReference,
}

/// Is it the name of a variable, as we read them?
pub(super) fn is_variable_name(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// A reference to a variable, if that is a name.
pub(super) fn variable(name: &str) -> Option<TranslatedReference> {
    is_variable_name(name).then(|| TranslatedReference {
        text: format!("${{{name}}}"),
        notes: vec![TranslationNote::RequiresVariable(name.to_owned())],
    })
}
