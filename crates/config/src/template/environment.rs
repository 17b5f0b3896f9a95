//! The variables that configured text may name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The variables that a text may use.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    /// The variables that Switchboard itself defines, such as the folder of a plugin. Their values are no secrets.
    defined_here: BTreeSet<String>,
}

impl Environment {
    /// Returns the variables with one added or replaced that Switchboard itself defines.
    pub fn with(&self, name: &str, value: &str) -> Environment {
        let mut more = self.clone();
        more.variables.insert(name.to_owned(), value.to_owned());
        more.defined_here.insert(name.to_owned());
        more
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Does the value come from the user's environment? Then it may be a secret.
    pub(super) fn is_of_user(&self, name: &str) -> bool {
        !self.defined_here.contains(name)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Environment {
        Environment { variables: pairs.into_iter().collect(), defined_here: BTreeSet::new() }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.variables.len())
    }
}
