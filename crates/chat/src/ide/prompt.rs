//! Asks about an edit in the IDE and wherever else the user is asked, at the same time. The first answer counts.

use std::sync::Arc;

use serde_json::json;
use switchboard::ide::{DiffOutcome, IdeTool};
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};

use super::edits::{PlannedEdit, is_edit};
use super::session::IdeSession;

/// Who permits a call that was accepted in the IDE, for the audit log.
const DECIDED_BY: &str = "you accepted the change in your editor";

/// A permission prompt that shows edits in the IDE besides.
pub struct IdePrompt {
    inner: Arc<dyn PermissionPrompt>,
    session: Arc<IdeSession>,
}

impl IdePrompt {
    /// The same prompt with the IDE beside it.
    pub fn new(inner: Arc<dyn PermissionPrompt>, session: Arc<IdeSession>) -> IdePrompt {
        IdePrompt { inner, session }
    }

    /// The edit that the request is about, if the IDE can show all that matters for the decision.
    async fn planned_edit(&self, request: &PermissionRequest<'_>) -> Option<PlannedEdit> {
        let is_shown = request.definition_diff.is_none()
            && self.session.is_connected()
            && is_edit(self.session.host(), request.tool, request.arguments);
        if !is_shown {
            return None;
        }
        let planner = self.session.planner().clone();
        let (tool, arguments) = (request.tool.name.clone(), request.arguments.clone());
        tokio::task::spawn_blocking(move || planner.plan(&tool, &arguments)).await.ok()?
    }

    async fn decision(
        &self,
        request: &PermissionRequest<'_>,
        edit: PlannedEdit,
        outcome: DiffOutcome,
    ) -> PermissionDecision {
        let contents = match outcome {
            DiffOutcome::Rejected => return PermissionDecision::DeniedByUser,
            DiffOutcome::Saved { contents } => contents,
        };
        if is_same_text(&contents, &edit.new_text) {
            return PermissionDecision::Allow {
                decided_by: DECIDED_BY.to_owned(),
                scope: GrantScope::Once,
            };
        }
        if edit.old_text.as_deref().is_some_and(|old| is_same_text(&contents, old)) {
            return PermissionDecision::DeniedByUser;
        }
        let planner = self.session.planner().clone();
        let (tool, arguments) = (request.tool.name.clone(), request.arguments.clone());
        let changed = tokio::task::spawn_blocking(move || {
            planner.arguments_for(&tool, &arguments, &edit, &contents)
        });
        match changed.await.ok().flatten() {
            Some(arguments) => {
                let decided_by = format!("{DECIDED_BY}, after you edited it");
                PermissionDecision::AllowChanged { decided_by, arguments }
            }
            None => PermissionDecision::Deny(
                "the contents from your editor cannot be written".to_owned(),
            ),
        }
    }

    /// Notes the problems of the file, so that those which the edit causes are known as new.
    async fn note_problems_before(&self, uri: &str) {
        if let Some(result) = self.session.call(IdeTool::GetDiagnostics, json!({"uri": uri})).await
        {
            self.session.state_diagnostics(|it| it.set_baseline(uri, &result));
        }
    }
}

impl PermissionPrompt for IdePrompt {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async move {
            let Some(edit) = self.planned_edit(request).await else {
                return self.inner.decide(request).await;
            };
            let uri = file_uri(&edit);
            let decision = {
                // Dropping either withdraws it: the dialog closes, and so does the tab.
                let asked_here = self.inner.decide(request);
                let asked_in_ide = self.session.show_diff(&edit);
                tokio::select! {
                    biased;
                    decision = asked_here => Err(decision),
                    outcome = asked_in_ide => Ok(outcome),
                }
            };
            let decision = match decision {
                Err(decision) => decision,
                Ok(outcome) => self.decision(request, edit, outcome).await,
            };
            let is_allowed = match &decision {
                PermissionDecision::Allow { .. } | PermissionDecision::AllowChanged { .. } => true,
                PermissionDecision::Deny(_)
                | PermissionDecision::DeniedByUser
                | PermissionDecision::NoAnswer => false,
            };
            if let (true, Some(uri)) = (is_allowed, uri) {
                self.note_problems_before(&uri).await;
            }
            decision
        })
    }

    fn warn(&self, text: &str) {
        self.inner.warn(text);
    }
}

pub(super) fn file_uri(edit: &PlannedEdit) -> Option<String> {
    url::Url::from_file_path(&edit.path).ok().map(|it| it.to_string())
}

/// Editors end the last line of what they save.
fn is_same_text(saved: &str, text: &str) -> bool {
    let plain = |text: &str| text.replace("\r\n", "\n");
    let (saved, text) = (plain(saved), plain(text));
    saved == text || saved.strip_suffix('\n') == Some(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_end_that_an_editor_adds_is_no_change() {
        assert!(is_same_text("a\n", "a"));
        assert!(is_same_text("a\n", "a\r\n"));
        assert!(!is_same_text("a", "a\n"));
        assert!(!is_same_text("a\n\n", "a"));
    }
}
