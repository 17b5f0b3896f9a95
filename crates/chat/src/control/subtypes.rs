//! The names of all control requests and of the frames that a session prints, in one place: code, documentation and tests
//! use these lists.

/// Requests that a program sends, with what they do.
pub const ACCEPTED_REQUESTS: &[(&str, &str)] = &[
    ("initialize", "starts the session: hooks, servers of the program, system prompt"),
    ("interrupt", "stops the running turn"),
    ("set_permission_mode", "changes the permission mode"),
    ("set_model", "changes the model from the next request on"),
    ("set_max_thinking_tokens", "limits how much the model thinks"),
    ("mcp_status", "lists the servers with state, tools and cause"),
    ("mcp_reconnect", "connects to a server again"),
    ("mcp_toggle", "enables or disables a server for this session"),
    ("mcp_set_servers", "replaces the servers that the program added"),
    ("mcp_message", "delivers a message of a server that the program hosts"),
    ("mcp_call", "calls a tool for the program itself"),
    ("mcp_read_resource", "reads a resource for the program itself"),
    ("mcp_authenticate", "starts the login to a server, or says how"),
    ("rewind_files", "is refused: there are no file checkpoints"),
    ("get_context_usage", "says what fills the context"),
    ("list_permission_rules", "lists the permission rules in effect"),
    ("get_settings", "says which model, mode and folder the session has"),
    ("list_models", "lists the models that are configured"),
    ("get_binary_version", "says the version"),
    ("get_session_cost", "says the tokens used so far"),
    ("reload_plugins", "reads the configuration again"),
    ("stop_task", "succeeds: there are no background tasks"),
];

/// Requests that a session sends to the program.
pub const SENT_REQUESTS: &[(&str, &str)] = &[
    ("can_use_tool", "asks for permission"),
    ("hook_callback", "calls a hook"),
    ("mcp_message", "delivers a message to a server that the program hosts"),
    ("elicitation", "asks what a server wants to know from the user"),
];

/// Frames that a session prints: type, and subtype where there is one.
pub const PRINTED_FRAMES: &[(&str, &str)] = &[
    ("system", "init"),
    ("system", "status"),
    ("system", "session_state_changed"),
    ("system", "informational"),
    ("system", "channel_message"),
    ("system", "hook_started"),
    ("system", "hook_response"),
    ("assistant", ""),
    ("user", ""),
    ("stream_event", ""),
    ("result", "success"),
    ("result", "error_during_execution"),
    ("result", "error_max_turns"),
    ("result", "error_max_structured_output_retries"),
    ("control_request", ""),
    ("control_response", ""),
    ("control_cancel_request", ""),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The texts of the first arguments of all calls of a function in the code of this protocol.
    fn first_arguments(function: &str) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control");
        let mut found = BTreeSet::new();
        for file in std::fs::read_dir(folder).expect("the folder exists").flatten() {
            if !file.path().is_file() || file.file_name() == "subtypes.rs" {
                continue;
            }
            let text = std::fs::read_to_string(file.path()).expect("code is text");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for call in code.split(function).skip(1) {
                let argument = call.trim_start().trim_start_matches('(').trim_start();
                if let Some((name, _)) =
                    argument.strip_prefix('"').and_then(|it| it.split_once('"'))
                {
                    found.insert(name.to_owned());
                }
            }
        }
        found
    }

    fn subtypes_of(kind: &str) -> BTreeSet<String> {
        let of_kind = PRINTED_FRAMES.iter().filter(|it| it.0 == kind);
        of_kind.map(|it| it.1.to_owned()).collect()
    }

    #[test]
    fn the_list_names_the_frames_that_are_printed() {
        let mut printed = first_arguments(".system(");
        printed.extend(first_arguments("self.print("));
        assert_eq!(printed, subtypes_of("system"));
        let mut results: BTreeSet<String> =
            first_arguments("error(").into_iter().filter(|it| it.starts_with("error_")).collect();
        results.extend(first_arguments("fail(&mut result, "));
        results.insert("success".to_owned());
        assert_eq!(results, subtypes_of("result"));
        let mut kinds = first_arguments("self.frame(");
        kinds.extend(first_arguments(".frame("));
        kinds.extend(
            ["control_request", "control_response", "control_cancel_request"].map(str::to_owned),
        );
        let listed: BTreeSet<String> = PRINTED_FRAMES.iter().map(|it| it.0.to_owned()).collect();
        assert_eq!(kinds, listed);
    }
}
