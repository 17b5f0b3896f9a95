//! Shows configured text to users: variables by name, literals masked where they may be secret.

use super::Template;
use crate::display::{MASK, mask_arguments, masked_url, printable};

/// Returns a value that may be secret: names of variables and authentication schemes are shown, literals are
/// masked.
pub fn masked_template(template: &Template) -> String {
    let literal = |text: &str| match text {
        "Bearer " | "Basic " | "Token " => text.to_owned(),
        _ => MASK.to_owned(),
    };
    printable(&template.masked_with(literal))
}

/// Like [`masked_url`], for text with variables.
pub fn masked_url_template(template: &Template) -> String {
    masked_url(&template.masked_with(str::to_owned))
}

/// Returns the arguments of a command with everything masked that looks like a secret.
pub fn masked_arguments(arguments: &[Template]) -> Vec<String> {
    let texts: Vec<String> = arguments.iter().map(|it| it.masked_with(str::to_owned)).collect();
    mask_arguments(&texts).iter().map(|text| printable(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_url(text: &str, expected: &str) {
        assert_eq!(masked_url_template(&Template::parse(text)), expected);
    }

    #[test]
    fn a_shown_url_has_no_user_no_query_values_and_no_fragment() {
        check_url("https://api.example.com/mcp", "https://api.example.com/mcp");
        check_url(
            "https://u:p@h.example/x?key=canary&b#canary",
            "https://•••@h.example/x?key=•••&•••#•••",
        );
        check_url("https://${HOST}/x?key=${KEY}&t=canary", "https://${HOST}/x?key=${KEY}&t=•••");
        check_url("https://h.example/s/sk-canary1234567/mcp", "https://h.example/s/•••/mcp");
        check_url("https://h.example/x;token=canary/y", "https://h.example/x;•••/y");
        check_url("https:/u:canary@${X}/", "•••");
        check_url("https://h.example/@scope/package", "https://h.example/@scope/package");
        check_url("not a url?canary#canary", "not a url?•••#•••");
        check_url("https://user:canary@${HOST:-canary}/", "https://•••@${HOST:-…}/");
    }

    #[test]
    fn a_mask_never_makes_one_host_look_like_another() {
        check_url(
            "https://u@evil.example/@api.github.com/mcp",
            "https://•••@evil.example/@api.github.com/mcp",
        );
        check_url(
            "https://evil.example${NOPE:-}/@api.github.com/mcp",
            "https://evil.example${NOPE:-…}/@api.github.com/mcp",
        );
        check_url("evil://evil.example/@api.github.com", "evil://•••");
        check_url(
            "https://mcp-server-abcdef-123456.us-central1.run.app/x",
            "https://mcp-server-abcdef-123456.us-central1.run.app/x",
        );
    }
}
