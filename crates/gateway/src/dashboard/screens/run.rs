//! A call that was started in the dashboard: whether it waits for approval, and its result.

use maud::{Markup, html};
use switchboard::ContentBlock;
use switchboard::ToolOutput;
use switchboard_config::display::format_bytes;

use super::approvals::approval_card;
use super::tool::command_line;
use super::tools::state_badge;
use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::link;
use crate::dashboard::page::{NavItem, Section, View};
use crate::dashboard::parts::{
    ButtonKind, button_form, command, millis, moment, name, pretty_json, prose, shown,
    visible_lines,
};
use crate::dashboard::runs::{CALLER, Run, RunFailure, RunState};

/// The largest picture that a page shows, in characters of base64.
const MAX_PICTURE_CHARS: usize = 2 * 1024 * 1024;
/// The most blocks of a result that are shown.
const MAX_BLOCKS: usize = 200;

pub(super) async fn render(id: u64, context: ScreenContext<'_>) -> View {
    let Some(run) = context.parts.runs.get(id).await else {
        let what = "There is no such call, or it is too long ago. The audit log has every call.";
        return View::missing(NavItem::Tools, what);
    };
    let again = link("/ui/tool", &[("name", &run.tool.exposed_name)]);
    let head = html! {
        p.crumbs {
            a href="/ui/tools" { "Tools" } " / "
            a href=(again) { (name(run.tool.display_name())) }
        }
        h1 { "Call " (run.id) }
    };
    let request = html! {
        section aria-labelledby="request-heading" {
            h2 #request-heading { "Request" }
            pre tabindex="0" { (pretty_json(&run.arguments)) }
            (command("command-line", &command_line(&run.tool.exposed_name, &run.arguments)))
        }
    };
    let sections = vec![
        Section::Static(head),
        Section::Live("run", state(&context, &run)),
        Section::Static(request),
    ];
    View::new(&format!("Call {}", run.id), NavItem::Tools, sections)
}

fn state(context: &ScreenContext<'_>, run: &Run) -> Markup {
    let number = run.id.to_string();
    html! {
        section.panel aria-label="Result" role="status" {
            div.panel-head {
                (state_badge(&run.state))
                p.quiet {
                    "Started " (moment(run.started))
                    @if let RunState::Finished { took, .. } = &run.state {
                        ", took " (millis(took.as_secs_f64() * 1000.0))
                    }
                }
                div.actions {
                    @if let RunState::Running = run.state {
                        (button_form(
                            "/ui/run/cancel",
                            context.page_token,
                            &[("id", &number)],
                            (ButtonKind::Danger, "Cancel"),
                        ))
                    } @else {
                        a.button href=(link("/ui/tool", &[("name", &run.tool.exposed_name)])) { "Call again" }
                    }
                }
            }
            @match &run.state {
                RunState::Running => (waiting(context, run, &number)),
                RunState::Cancelled => p { "The server was told that the call is cancelled." },
                RunState::Finished { result, .. } => @match result.as_ref() {
                    Ok(output) => (result_blocks(output)),
                    Err(failure) => (failure_lines(failure)),
                },
            }
        }
    }
}

/// The approvals that the call may wait for.
fn waiting(context: &ScreenContext<'_>, run: &Run, number: &str) -> Markup {
    let pending = context.parts.approvals.pending();
    let own = pending.iter().filter(|it| {
        it.caller == CALLER && it.server == run.tool.server && it.tool == run.tool.name
    });
    html! { @for approval in own { (approval_card(approval, context.page_token, Some(number))) } }
}

fn failure_lines(failure: &RunFailure) -> Markup {
    html! {
        @for (at, line) in failure.lines.iter().enumerate() {
            @if at == 0 { p.cause { (prose(line, 2000)) } } @else { p.remedy { (prose(line, 2000)) } }
        }
    }
}

fn result_blocks(output: &ToolOutput) -> Markup {
    html! {
        @for block in output.blocks.iter().take(MAX_BLOCKS) { (content(block)) }
        @if output.blocks.is_empty() { p.nothing { "The result has no content." } }
        @if let Some(structured) = output.structured.as_ref().and_then(|it| it.decode().ok()) {
            details {
                summary { "Structured content" }
                pre tabindex="0" { (pretty_json(&structured)) }
            }
        }
        @for note in &output.notes { p.remedy { (shown(&note.to_string(), 400)) } }
    }
}

fn content(block: &ContentBlock) -> Markup {
    match block {
        ContentBlock::Text { text, from_uri } => html! {
            @if let Some(uri) = from_uri { p.quiet { code { (shown(uri, 300)) } } }
            pre.result tabindex="0" { (visible_lines(text)) }
        },
        // The type was detected from the bytes; browsers run no scripts in pictures of these types.
        ContentBlock::Image { mime, base64, width, height }
            if base64.len() <= MAX_PICTURE_CHARS =>
        {
            html! {
                img.result src={"data:" (mime) ";base64," (base64)} width=(width) height=(height)
                    alt="Picture in the result";
            }
        }
        ContentBlock::Image { mime, width, height, .. } => html! {
            p.quiet { "A picture (" (mime) ", " (width) " × " (height) ") too large for this page." }
        },
        ContentBlock::Saved { path, mime, bytes, .. } => html! {
            p.quiet {
                (shown(mime.as_deref().unwrap_or("Content"), 80)) ", " (format_bytes(*bytes)) ", saved to "
                code { (shown(&path.display().to_string(), 300)) }
            }
        },
        ContentBlock::NotSaved { mime, .. } => html! {
            p.quiet { (shown(mime.as_deref().unwrap_or("Content"), 80)) " that could not be saved." }
        },
        ContentBlock::Link { uri, name, description, .. } => html! {
            p {
                "Resource " code { (shown(uri, 300)) } " "
                (shown(name.as_deref().unwrap_or_default(), 120)) " "
                (shown(description.as_deref().unwrap_or_default(), 300))
            }
        },
        ContentBlock::Unknown { kind, raw } => html! {
            p.quiet { "Content of the type " code { (shown(kind, 40)) } }
            pre tabindex="0" { (visible_lines(&raw.decode::<serde_json::Value>().map_or_else(|_| String::new(), |it| pretty_json(&it)))) }
        },
    }
}
