//! The programs that run packages and scripts of others, and how a user gets one that is missing.

/// How a program that runs packages or scripts is installed; `None` for others.
pub fn installation_hint(command: &str) -> Option<&'static str> {
    match command {
        "node" => Some("install Node.js"),
        "npx" => Some("install Node.js, which contains npx"),
        "python" => {
            Some("install Python 3 under the name python (Debian: package python-is-python3)")
        }
        "python3" => Some("install Python 3"),
        "uv" => Some("install uv: pip install uv"),
        "uvx" => Some("install uv, which contains uvx: pip install uv"),
        "docker" => Some("install Docker, or a program that is called docker and does the same"),
        "dnx" => Some("install the .NET SDK 10 or newer, which contains dnx"),
        "bun" | "bunx" => Some("install Bun"),
        "deno" => Some("install Deno"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_that_everybody_gets_the_same_way_have_a_hint() {
        assert_eq!(installation_hint("uv"), Some("install uv: pip install uv"));
        for other in ["", "server", "./node", "/usr/bin/node"] {
            assert_eq!(installation_hint(other), None, "{other}");
        }
    }
}
