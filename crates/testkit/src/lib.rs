//! Temp homes, project trees and a runner for Switchboard's own tests.

mod ran;
pub mod real;
mod scene;

pub use ran::Ran;
pub use scene::{MANAGED, Scene};
