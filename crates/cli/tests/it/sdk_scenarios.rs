//! Scenarios that hold under both agent SDKs. `sdk_python` and `sdk_typescript` run each of them.

pub mod hooks;
pub mod permissions;
pub mod requests;
pub mod servers;
pub mod sessions;
pub mod turns;

/// Makes a test of every scenario for one SDK.
macro_rules! run_all_with {
    ($sdk:expr; $($module:ident :: { $($scenario:ident),* $(,)? })*) => {
        $(mod $module {
            $(#[test]
            fn $scenario() {
                crate::sdk_scenarios::$module::$scenario($sdk);
            })*
        })*
    };
}
pub(crate) use run_all_with;

/// The scenarios that both SDKs run.
macro_rules! scenarios {
    ($sdk:expr) => {
        crate::sdk_scenarios::run_all_with! {
            $sdk;
            turns::{
                one_prompt_is_answered_and_the_run_ends,
                several_turns_run_in_one_process_and_each_begins_with_init,
                a_stream_of_prompts_is_answered_while_a_server_of_the_sdk_is_used,
                partial_messages_come_before_the_whole_message,
                a_failure_of_the_model_service_is_an_error_result,
                the_turn_limit_ends_the_run_with_an_error_result,
                an_answer_that_matches_the_schema_is_the_structured_output,
                answers_that_never_match_the_schema_are_an_error_result,
                a_limit_without_effect_is_said_to_the_program,
                an_unknown_flag_is_a_warning_on_stderr,
                an_interrupt_ends_a_streaming_answer_and_the_next_turn_runs,
                an_interrupt_ends_a_running_tool,
            }
            hooks::{
                a_denial_of_a_hook_is_the_result_of_the_call,
                a_hook_allows_a_call_that_nothing_else_allows,
                a_hook_that_asks_brings_the_permission_callback,
                a_hook_changes_the_arguments,
                hooks_see_the_prompt_the_call_its_result_and_the_end,
                a_matcher_selects_tools,
                a_hook_after_a_call_adds_context_and_can_stop_the_run,
                a_hook_blocks_a_prompt,
                a_hook_that_fails_does_not_end_the_run,
                hook_events_are_shown_on_request,
                a_hook_denies_a_call_that_is_too_large_for_a_frame,
            }
            permissions::{
                an_allowed_call_runs_with_its_own_arguments,
                an_allowed_call_runs_with_changed_arguments,
                an_allowed_call_that_is_too_large_for_a_frame_runs_whole,
                allowed_updates_hold_for_later_calls,
                a_denied_call_has_exactly_the_message_as_its_result,
                a_denial_with_interrupt_ends_the_turn,
                without_a_callback_a_call_that_would_ask_is_denied,
                allowed_and_disallowed_tools_need_no_callback,
                a_tool_of_a_server_answers_permission_requests,
                an_interrupt_withdraws_an_open_permission_request,
            }
            servers::{
                tools_of_the_sdk_are_called_with_results_errors_and_images,
                twenty_overlapping_calls_with_large_arguments_lose_nothing,
                a_call_that_is_longer_than_the_tool_timeout_fails_and_the_server_stays,
                a_result_larger_than_a_frame_does_not_end_the_session,
                a_call_of_many_small_values_does_not_end_the_session,
                what_a_server_says_for_programs_comes_with_the_result,
            }
            requests::{
                the_state_of_servers_is_reported_and_changed,
                the_model_and_the_permission_mode_are_changed,
                the_answer_to_initialize_describes_the_program,
                files_cannot_be_rewound,
                an_unknown_request_is_an_error_with_a_code,
                every_request_is_answered,
            }
            sessions::{
                a_session_is_resumed_by_its_id,
                the_last_session_is_continued,
                a_forked_session_has_an_id_of_its_own,
            }
        }
    };
}
pub(crate) use scenarios;
