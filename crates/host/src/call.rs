//! Tool calls: resolve the tool, check the arguments, obtain a permit, execute, bound the result, record.
//! Permission is decided in `permission`; requests are sent by `request`.

pub mod context;
pub(crate) mod executor;
pub mod pipeline;
pub mod relay;
pub(crate) mod services;
pub mod tool_call;
