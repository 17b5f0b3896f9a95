//! Validates arguments against a tool's input schema before the call and describes each fault. The schema comes from a
//! server, so the work of a check is limited: whatever schema and arguments, it ends soon.

mod compiled_schema;
mod evaluation;
mod explanation;
mod fault;
mod instance;
mod pattern;
mod work;

#[cfg(test)]
mod tests;

use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::Payload;

use compiled_schema::CompiledSchema;
use evaluation::{CacheScope, Evaluation};
use explanation::explain;
use instance::Instance;
use work::{MAX_STEPS, Work, WorkLimitError};

pub use fault::{ArgumentFault, ArgumentFaultKind};

/// A compiled schema.
#[derive(Debug)]
pub(super) struct ArgumentChecker {
    /// `None` if the schema cannot be compiled, for example because of an unsupported pattern. Then nothing is
    /// checked: the server validates the arguments again.
    schema: Option<CompiledSchema>,
}

impl ArgumentChecker {
    pub(super) fn new(schema: &Payload) -> ArgumentChecker {
        let schema: Json = schema.decode().unwrap_or_default();
        ArgumentChecker::of(&schema)
    }

    pub(super) fn of(schema: &Json) -> ArgumentChecker {
        ArgumentChecker { schema: CompiledSchema::compile(schema) }
    }

    /// The faults of arguments. Takes up to some seconds for a hostile schema, and no noticeable time otherwise.
    pub(super) fn faults(&self, arguments: &Json) -> Vec<ArgumentFault> {
        let work = || Work::limited_to(MAX_STEPS);
        self.faults_within(work, arguments).unwrap_or_else(|WorkLimitError| {
            let kind = ArgumentFaultKind::TooMuchWork { max_steps: MAX_STEPS };
            vec![ArgumentFault { at: String::new(), kind }]
        })
    }

    /// The faults of arguments, or `None` if finding them may take a noticeable time.
    pub(super) fn quick_faults(&self, arguments: &Json) -> Option<Vec<ArgumentFault>> {
        self.faults_within(Work::quick, arguments).ok()
    }

    fn faults_within(
        &self,
        work: impl Fn() -> Work,
        arguments: &Json,
    ) -> Result<Vec<ArgumentFault>, WorkLimitError> {
        let Some(schema) = &self.schema else { return Ok(Vec::new()) };
        let arguments = Instance::Value(arguments);
        let mut evaluation = Evaluation::new(schema, CacheScope::SharedNodes, work());
        if evaluation.is_valid(CompiledSchema::ROOT, arguments)? {
            return Ok(Vec::new());
        }
        let mut faults = explain(Evaluation::new(schema, CacheScope::AllNodes, work()), arguments)?;
        if faults.is_empty() {
            // References in a circle, of which none comes to a value, can contradict themselves.
            let expected = "do not match the schema of the tool".to_owned();
            let kind = ArgumentFaultKind::Invalid { expected };
            faults.push(ArgumentFault { at: String::new(), kind });
        }
        Ok(faults)
    }
}
