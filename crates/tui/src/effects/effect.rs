//! The effects that an update asks for.

use switchboard::config::permission::PermissionMode;

use crate::slash_command::SlashCommand;
use crate::state::prompt_invocation::PromptInvocation;
use crate::view::overlay::ServerAction;

/// Something to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Say something to the model.
    SendMessage(String),
    /// Take back what was said last and waits.
    WithdrawMessage,
    /// Stop what is under way.
    Interrupt,
    /// Do what a slash command says.
    RunCommand(SlashCommand),
    /// Do something for a panel or a dialog.
    RunServerAction(ServerAction),
    /// Remember what was sent.
    SaveHistory(String),
    /// Let an editor have the text.
    OpenEditor(String),
    /// Stop the program, as a shell does.
    Suspend,
    /// Draw everything anew.
    Repaint,
    /// Make a sound: somebody looks elsewhere and is wanted.
    RingBell,
    /// Ask as much as this from now on.
    SetMode(PermissionMode),
    /// Get a server's prompt.
    GetPrompt(PromptInvocation),
    /// Ask a server what an argument could be.
    CompleteArgument {
        /// The prompt, with what was answered so far.
        prompt: PromptInvocation,
        /// What is typed of the argument.
        typed: String,
    },
}
