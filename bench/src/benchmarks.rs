//! The benchmarks, one module each.

pub(crate) mod all;
pub(crate) mod browser;
pub(crate) mod call_pipeline;
pub(crate) mod calls;
pub(crate) mod computer;
pub(crate) mod embedding;
pub(crate) mod fleet;
pub(crate) mod gateway;
pub(crate) mod hot_paths;
pub(crate) mod instructions;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod pool;
pub(crate) mod scale;
pub(crate) mod share;
pub(crate) mod start;
pub(crate) mod ui;
pub(crate) mod wire;
