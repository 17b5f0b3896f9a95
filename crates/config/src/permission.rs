//! Which calls may be made: rules of settings and session, modes and trust, decided by a pure function.
//! Who is asked, and what becomes of the answer, is left to the host.

mod decision;
mod glob;
mod possible;
mod predicate;
#[cfg(test)]
mod proofs;
pub(crate) mod reading;
mod request;
mod rule;
mod rules;
mod suggestion;

pub use decision::{
    Because, Considered, Decision, Explanation, decide, explain, hides, hides_server,
};
pub use glob::Glob;
pub use possible::{Subject, possible};
pub use predicate::{Miss, Predicate, Relation};
pub use reading::KEYS;
pub use request::{Claim, Hints, Mode, Request, Trust};
pub use rule::{Concern, Fit, RuleFault, RuleFaultKind, ToolRule};
pub use rules::{Broken, Effect, Listed, Rules};
pub use suggestion::{Breadth, Suggestion, suggestions};
