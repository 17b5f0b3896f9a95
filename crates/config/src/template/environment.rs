//! The environment variables that configured text may name.

use std::collections::BTreeMap;
use std::fmt;

/// The variables that a text may use.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Returns the variables with one added or replaced.
    pub fn with(&self, name: &str, value: &str) -> Environment {
        let mut more = self.clone();
        more.0.insert(name.to_owned(), value.to_owned());
        more
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Environment {
        Environment(pairs.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}
