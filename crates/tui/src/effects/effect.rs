//! The effects that an update asks for.

use switchboard::config::permission::PermissionMode;

use crate::slash_command::SlashCommand;
use crate::state::prompt_invocation::PromptInvocation;
use crate::view::overlay::ServerAction;

/// Something to do outside the state.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Close the screen.
    Quit,
    /// Send a message to the model.
    SendMessage(String),
    /// Withdraw the last queued message.
    WithdrawMessage,
    /// Interrupt the turn and the user's own calls.
    Interrupt,
    /// Run a slash command.
    RunCommand(SlashCommand),
    /// Run an action of a panel or a dialog.
    RunServerAction(ServerAction),
    /// Add a text to the input history.
    SaveHistory(String),
    /// Open the text in the user's editor.
    OpenEditor(String),
    /// Suspend the process.
    Suspend,
    /// Repaint the whole screen.
    Repaint,
    /// Ring the terminal bell.
    RingBell,
    /// Change the permission mode.
    SetMode(PermissionMode),
    /// Get a prompt from its server.
    GetPrompt(PromptInvocation),
    /// Request completions for the current argument of a prompt.
    CompleteArgument {
        /// The prompt, with the values so far.
        prompt: PromptInvocation,
        /// The text typed for the argument.
        typed: String,
    },
}
