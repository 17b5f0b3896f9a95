//! Reads `registry` of a settings file: where `swb registry` looks for servers. It is not read from a project's file.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::REGISTRY_KEYS;
use crate::source::Origin;

/// The key of the section.
pub(crate) const KEY: &str = "registry";

/// The registry to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrySettings {
    /// The base URL, without the version of the API.
    pub url: String,
    /// The position of the section.
    pub origin: Origin,
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Option<RegistrySettings> {
    let mut section = Section::open(members, KEY, REGISTRY_KEYS, reporter)?;
    let url = section.required_https_url("url");
    Some(RegistrySettings { url: url?, origin: section.origin() })
}

#[cfg(test)]
mod tests {
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn a_registry_is_read_and_invalid_values_are_reported() {
        let good = read(r#"{"registry": {"url": "https://registry.example/"}}"#);
        assert!(good.layer.problems.is_empty(), "{:?}", good.layer.problems);
        assert_eq!(good.registry.expect("it is there").url, "https://registry.example/");
        assert!(read(r#"{"registry": {"url": "http://127.0.0.1:1"}}"#).registry.is_some());
        for (text, key) in [
            (r#"{"registry": "https://registry.example/"}"#, "registry"),
            (r#"{"registry": {}}"#, "registry.url"),
            (r#"{"registry": {"url": "http://registry.example/"}}"#, "registry.url"),
            (r#"{"registry": {"url": "file:///x"}}"#, "registry.url"),
        ] {
            let bad = read(text);
            assert_eq!((problem_keys(&bad), bad.registry), (vec![key.to_owned()], None), "{text}");
        }
    }
}
