//! One tool: what it is, what the rules say about it, and a form to call it.

use maud::{Markup, html};
use serde_json::{Value as Json, json};
use switchboard::pool::Tool;
use switchboard_config::entry::server::sha256;

use super::policy::{Verdict, verdict};
use super::tools::effects;
use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::{Form, link};
use crate::dashboard::page::{NavItem, RenderScope, Section, View};
use crate::dashboard::parts::{
    Tone, badge, command, compact_json, hidden, lines, name, pretty_json, prose, shell_word, shown,
};
use crate::dashboard::runs::CALLER;
use crate::dashboard::tool_form::{self, Field, FieldKind, input_name};

/// The longest schema that a page shows, in characters.
const MAX_SCHEMA_CHARS: usize = 40_000;

/// What the query of the screen says, or what was entered before.
pub(crate) struct ToolScreen {
    pub(crate) exposed_name: String,
    /// Whether the arguments are entered as JSON.
    pub(crate) is_raw: bool,
    pub(crate) entered: Option<FormInput>,
}

/// What was entered in a form that could not be used.
pub(crate) struct FormInput(pub(crate) Form);

impl ToolScreen {
    pub(super) fn parse(query: &Form) -> ToolScreen {
        let is_raw = query.text("form") == "json";
        ToolScreen { exposed_name: query.text("name").to_owned(), is_raw, entered: None }
    }

    pub(super) fn render(&self, context: ScreenContext<'_>, scope: RenderScope) -> View {
        let pool = context.parts.gateway.relay.host.pool();
        let Some(tool) = pool.find(&self.exposed_name) else {
            let what = format!("There is no tool {}.", shown(&self.exposed_name, 120));
            return View::missing(NavItem::Tools, &what);
        };
        if scope == RenderScope::Live {
            return View::new(&shown(&tool.name, 80), NavItem::Tools, Vec::new());
        }
        let schema = tool.input_schema.decode::<Json>().unwrap_or_default();
        let sections = vec![
            Section::Static(head(tool)),
            Section::Static(rules(&context, tool)),
            Section::Static(self.call_form(&context, tool, &schema)),
            Section::Static(definition(tool, &schema)),
        ];
        View::new(&shown(&tool.name, 80), NavItem::Tools, sections)
    }

    fn call_form(&self, context: &ScreenContext<'_>, tool: &Tool, schema: &Json) -> Markup {
        let fields = tool_form::fields(schema);
        let is_raw = self.is_raw || fields.is_none();
        let entered = |name: &str| self.entered.as_ref().and_then(|it| it.0.get(name));
        let mode = if is_raw { "json" } else { "form" };
        let digest = definition_digest(tool);
        let tab = |label: &str, form: &str| {
            let to = link("/ui/tool", &[("name", &tool.exposed_name), ("form", form)]);
            let is_current = form == mode;
            html! { a.tab href=(to) aria-current=[is_current.then_some("true")] { (label) } }
        };
        html! {
            section.panel aria-labelledby="call-heading" {
                div.panel-head {
                    h2 #call-heading { "Try it" }
                    div.tabs role="group" aria-label="How to enter the arguments" {
                        @if fields.is_some() { (tab("Form", "form")) }
                        (tab("JSON", "json"))
                    }
                }
                form.fields method="post" action="/ui/tool/call" {
                    (hidden(&[
                        ("page-token", context.page_token),
                        ("tool", &tool.exposed_name),
                        ("definition", &digest),
                        ("mode", mode),
                    ]))
                    @if is_raw {
                        @let example = pretty_json(&tool_form::example(schema));
                        div.field {
                            label for="arguments" { "Arguments" }
                            textarea #arguments name="arguments" rows="10" spellcheck="false" autocomplete="off" {
                                "\n" (entered("arguments").unwrap_or(&example))
                            }
                            p.hint { "A JSON object." }
                        }
                    } @else {
                        @let fields = fields.unwrap_or_default();
                        @if fields.is_empty() { p.quiet { "It takes no arguments." } }
                        @for (position, field) in fields.iter().enumerate() {
                            (field_input(field, &input_name(position), entered(&input_name(position))))
                        }
                    }
                    div.actions { button.button.primary type="submit" { "Call" } }
                }
            }
        }
    }
}

/// Identifies a definition, so that a form is not used for another one.
pub(crate) fn definition_digest(tool: &Tool) -> String {
    sha256(tool.raw.as_bytes()).to_string()
}

fn head(tool: &Tool) -> Markup {
    html! {
        p.crumbs {
            a href="/ui/tools" { "Tools" }
            @if !tool.server.is_empty() {
                " / " a href=(link("/ui/server", &[("name", &tool.server)])) { (name(&tool.server)) }
            }
        }
        h1 { (name(tool.display_name())) }
        p.quiet { code { (shown(&tool.exposed_name, 200)) } " · " (effects(tool)) }
        @for flag in tool.flags() {
            p.notice.warning { "Hidden text: " (flag.to_string()) }
        }
        @if !tool.description.is_empty() { p.description { (lines(&tool.description)) } }
    }
}

/// What the rules say about a call without arguments.
fn rules(context: &ScreenContext<'_>, tool: &Tool) -> Markup {
    let Verdict { effect, reason, .. } = verdict(context, tool, CALLER, &json!({}), None);
    let explain = [("tool", tool.exposed_name.as_str()), ("principal", CALLER)];
    html! {
        p.rules {
            (badge(Tone::of_effect(effect), effect)) " "
            (prose(&reason, 300)) ". "
            a href=(link("/ui/policy", &explain)) { "Explain" }
        }
    }
}

fn definition(tool: &Tool, schema: &Json) -> Markup {
    let text = pretty_json(schema);
    let output = tool.output_schema.as_ref().and_then(|it| it.decode::<Json>().ok());
    let line = command_line(&tool.exposed_name, &tool_form::example(schema));
    html! {
        section aria-labelledby="definition-heading" {
            h2 #definition-heading { "Definition" }
            h3 { "As a command" }
            (command("command-line", &line))
            details open[text.len() < 3000] {
                summary { "Input schema" }
                pre tabindex="0" { (clipped(&text)) }
            }
            @if let Some(output) = output {
                details {
                    summary { "Output schema" }
                    pre tabindex="0" { (clipped(&pretty_json(&output))) }
                }
            }
        }
    }
}

fn clipped(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_SCHEMA_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The same call in a terminal.
pub(super) fn command_line(exposed_name: &str, arguments: &Json) -> String {
    let tool = shell_word(exposed_name);
    match arguments.as_object().is_none_or(serde_json::Map::is_empty) {
        true => format!("swb call {tool}"),
        false => format!("swb call {tool} {}", shell_word(&compact_json(arguments))),
    }
}

fn field_input(field: &Field, id: &str, entered: Option<&str>) -> Markup {
    let default = field.default.as_ref();
    let text = |it: &Json| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    let value = entered.map(str::to_owned).or_else(|| default.map(text)).unwrap_or_default();
    let hint = format!("{id}-hint");
    let has_hint = !field.description.is_empty();
    let described = has_hint.then_some(hint.as_str());
    // An empty text is a value.
    let is_needed = field.is_required && !matches!(field.kind, FieldKind::Line | FieldKind::Text);
    html! {
        div.field {
            label for=(id) {
                (name(&field.name))
                @if field.is_required { span.required { " required" } }
            }
            @match &field.kind {
                FieldKind::Line => {
                    input type="text" id=(id) name=(id) value=(value) aria-describedby=[described] autocomplete="off";
                },
                FieldKind::Text => {
                    textarea id=(id) name=(id) rows="2" aria-describedby=[described] autocomplete="off" { "\n" (value) }
                },
                FieldKind::Number => {
                    input type="text" inputmode="decimal" id=(id) name=(id) value=(value) aria-describedby=[described]
                        autocomplete="off" required[is_needed];
                },
                FieldKind::Boolean => {
                    select id=(id) name=(id) aria-describedby=[described] required[is_needed] {
                        @if !field.is_required { option value="" { "not set" } }
                        @for choice in ["true", "false"] {
                            option value=(choice) selected[value == choice] { (choice) }
                        }
                    }
                },
                FieldKind::Choice(choices) => {
                    select id=(id) name=(id) aria-describedby=[described] required[is_needed] {
                        @if !field.is_required { option value="" { "not set" } }
                        @for (position, choice) in choices.iter().enumerate() {
                            @let is_chosen = match entered {
                                Some(entered) => entered == position.to_string(),
                                None => default == Some(choice),
                            };
                            option value=(position) selected[is_chosen] { (shown(&text(choice), 120)) }
                        }
                    }
                },
                FieldKind::Json => {
                    textarea id=(id) name=(id) rows="3" spellcheck="false" aria-describedby=[described]
                        autocomplete="off" required[is_needed] { "\n" (value) }
                },
            }
            @if has_hint || field.kind == FieldKind::Json {
                p.hint id=(hint) {
                    (shown(&field.description, 600))
                    @if field.kind == FieldKind::Json { " (JSON)" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_survives_the_shell() {
        let line = command_line("mcp__a__b", &json!({"text": "it's $HOME `x`\u{202e}"}));
        assert_eq!(line, r#"swb call mcp__a__b '{"text":"it'\''s $HOME `x`\u202e"}'"#);
        assert_eq!(command_line("mcp__a__b", &json!({})), "swb call mcp__a__b");
    }

    #[test]
    fn hostile_names_stay_text() {
        let field = Field {
            name: "\"><img src=x onerror=alert(1)>".to_owned(),
            description: "</p><script>alert(1)</script>".to_owned(),
            is_required: false,
            kind: FieldKind::Choice(vec!["</option><b>".into()]),
            default: None,
        };
        let html = field_input(&field, "argument-0", None).into_string();
        assert!(
            !html.contains("<img") && !html.contains("<script") && !html.contains("<b>"),
            "{html}"
        );
    }
}
