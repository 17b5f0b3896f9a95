//! The name that a server of a registry gets in the configuration.

use crate::entry::name::{ReservedNames, ServerName};

/// Longer names leave too little room for the names of tools.
const MAX_LENGTH: usize = 40;

/// The part after the slash, changed where it is not a valid name, and with a number where it is taken.
pub fn local_name(registry_name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let last = registry_name.rsplit('/').next().unwrap_or(registry_name);
    let short: String = last.chars().take(MAX_LENGTH).collect();
    let name = ["", "mcp-"].into_iter().find_map(|before| {
        ServerName::suggestion(&format!("{before}{short}")).map(|it| it.as_str().to_owned())
    });
    let name = name.unwrap_or_else(|| "server".to_owned());
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let is_free =
        |name: &String| !is_taken(name) && ServerName::parse(name, ReservedNames::Refused).is_ok();
    std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_valid_free_and_close_to_the_published_one() {
        let taken = ["files", "files-2"];
        for (published, expected) in [
            ("io.github.acme/weather", "weather"),
            ("io.github.acme/my.server_v2", "my-server_v2"),
            ("acme/a__b", "a_b"),
            ("acme/browser", "mcp-browser"),
            ("acme/plugin_x", "mcp-plugin_x"),
            ("acme/...", "mcp"),
            ("acme/files", "files-3"),
        ] {
            let name = local_name(published, |name| taken.contains(&name));
            assert_eq!(name, expected, "{published}");
        }
        let long = local_name(&format!("acme/{}", "x".repeat(150)), |_| false);
        assert_eq!(long.len(), MAX_LENGTH);
    }
}
