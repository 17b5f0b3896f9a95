//! One option of a package and the type of its value. `definition` reads it, `value` checks values against it.

use serde_json::Value as Json;

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// Text.
    String,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// The path of a folder.
    Directory,
    /// The path of a file.
    File,
}

impl OptionKind {
    /// Every kind and its name in `type`.
    pub const NAMES: [(&'static str, OptionKind); 5] = [
        ("string", OptionKind::String),
        ("number", OptionKind::Number),
        ("boolean", OptionKind::Boolean),
        ("directory", OptionKind::Directory),
        ("file", OptionKind::File),
    ];

    /// The value of `type`.
    pub fn id(self) -> &'static str {
        match self {
            OptionKind::String => "string",
            OptionKind::Number => "number",
            OptionKind::Boolean => "boolean",
            OptionKind::Directory => "directory",
            OptionKind::File => "file",
        }
    }

    /// Is the value a path?
    pub fn is_path(self) -> bool {
        match self {
            OptionKind::Directory | OptionKind::File => true,
            OptionKind::String | OptionKind::Number | OptionKind::Boolean => false,
        }
    }
}

/// One option. Its texts are untrusted.
#[derive(Debug, Clone, PartialEq)]
pub struct UserOption {
    /// Its name in references: `${user_config.KEY}`.
    pub key: String,
    /// The type of its value.
    pub kind: OptionKind,
    /// Its name for users.
    pub title: String,
    /// Its description for users.
    pub description: String,
    /// The server does not start without a value.
    pub required: bool,
    /// The value that counts if the user gave none.
    pub default: Option<Json>,
    /// The value is a secret.
    pub sensitive: bool,
    /// The value may be a list.
    pub multiple: bool,
    /// The smallest number.
    pub min: Option<f64>,
    /// The largest number.
    pub max: Option<f64>,
}
