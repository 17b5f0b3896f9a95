//! Tool calls: resolve the tool, check the arguments, obtain a permit, execute, bound the result, record.
//! Permission is decided in `permission`; requests are sent by `request`.

pub(crate) mod context;
pub(crate) mod executor;
pub(crate) mod pipeline;
pub(crate) mod relay;
pub(crate) mod services;
pub(crate) mod tool_call;
pub(crate) mod unambiguous_json;
