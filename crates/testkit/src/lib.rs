//! Temp homes, project trees and a runner for Switchboard's own tests.

mod ran;
mod scene;

pub use ran::Ran;
pub use scene::{MANAGED, Scene};
