//! What happens to a call besides being passed on: rules, schemas, limits; and how its tool is found.

use std::hint::black_box;
use std::path::Path;

use serde_json::json;
use switchboard::config::permission::{
    CallRequest, NOTHING_SEEN, PermissionMode, ToolHints, Trust, decide,
};
use switchboard::pool::Pool;
use switchboard::tool_result::{OutputLimits, SpillStore, from_tool_call};
use switchboard_wire::jsonrpc::message::Payload;

use crate::benchmarks::call_pipeline;
use crate::benchmarks::pool;
use crate::failure::Failure;

pub fn hundred_rules(times: usize) -> Result<(), Failure> {
    permission(100, times)
}

pub fn thousand_rules(times: usize) -> Result<(), Failure> {
    permission(1_000, times)
}

fn permission(rules: usize, times: usize) -> Result<(), Failure> {
    let rules = call_pipeline::rules(rules);
    let arguments = call_pipeline::arguments();
    let request = CallRequest {
        server: "linked",
        tool: "echo",
        arguments: &arguments,
        hints: ToolHints::default(),
        trust: Trust::Untrusted,
        seen: &NOTHING_SEEN,
    };
    for _ in 0..times {
        black_box(decide(black_box(&rules), &request, PermissionMode::Default));
    }
    Ok(())
}

pub fn arguments(times: usize) -> Result<(), Failure> {
    let pool = pool::assemble_pool(&Pool::default(), &pool::servers(1));
    let tool = pool.find("mcp__server0__read_file_0");
    let tool = tool.ok_or_else(|| Failure::client("the pool", "it lacks a tool"))?;
    let arguments = json!({"fileId": "a", "limit": 5, "labels": ["x", "y"]});
    for _ in 0..times {
        let faults = black_box(tool).check_arguments(black_box(&arguments));
        faults.map_err(|faults| Failure::client("the check", format!("{faults:?}")))?;
    }
    Ok(())
}

/// All of the result is passed on.
pub fn result_within(times: usize) -> Result<(), Failure> {
    bounded(10_000, times)
}

/// More than is passed on: most of it is kept on disk.
pub fn result_beyond(times: usize) -> Result<(), Failure> {
    bounded(200_000, times)
}

fn bounded(size: usize, times: usize) -> Result<(), Failure> {
    let folder =
        tempfile::tempdir().map_err(|error| Failure::file(Path::new("a folder"), error))?;
    let (keep, limits) = (SpillStore::in_data_folder(folder.path()), OutputLimits::default());
    let text = "one line of a file, as \"text\"\n".repeat(size / 30);
    let answer = json!({"content": [{"type": "text", "text": text}]});
    let answer = Payload::encode(&answer).map_err(Failure::InvalidJson)?;
    for _ in 0..times {
        let yielded = from_tool_call(black_box(&answer), "files", &limits, &keep);
        if yielded.full_text.is_some() != (size > limits.characters) {
            return Err(Failure::client("the limits", "they do not cut where they should"));
        }
    }
    Ok(())
}
