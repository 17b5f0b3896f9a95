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
