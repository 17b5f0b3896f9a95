//! How a pool's costs grow with the number of tools. Each size is a process of its own, so that none finds memory that
//! another one left.

use std::ffi::OsString;
use std::process::Command;

use serde_json::{Value as Json, json};
use switchboard::pool::Pool;

use super::{Row, TOOLS, assemble_pool, measure_growth, servers};
use crate::child_server::own_program;
use crate::failure::{self, Failure};
use crate::output::plot::{Lines, Role, Series, Tick};
use crate::output::report::Picture;

/// The word that makes this program one pool that is measured: `SERVERS`.
pub const SUBCOMMAND: &str = "__pool";

/// How often what takes milliseconds is done, and what takes microseconds.
const SLOW_ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 501;

/// What a pool of one size costs.
#[derive(Debug)]
pub struct PoolCost {
    tools: usize,
    figures: Json,
}

impl PoolCost {
    /// Has a process measure a pool of so many servers.
    pub fn measure(servers: usize) -> Result<PoolCost, Failure> {
        let tools = servers * TOOLS;
        eprintln!("measuring {tools} tools");
        let mut child = Command::new(own_program()?);
        let said = failure::output(child.args([SUBCOMMAND, &servers.to_string()]))?;
        let figures = serde_json::from_str(&said).map_err(Failure::InvalidJson)?;
        Ok(PoolCost { tools, figures })
    }
}

/// The process that `Size::measured` starts.
pub fn run_in_child(words: &[OsString]) -> Result<(), Failure> {
    let [count] = words else { return Err(Failure::InvalidArguments) };
    let count = count.to_str().and_then(|it| it.parse().ok()).ok_or(Failure::InvalidArguments)?;
    let (catalogues, servers) = measure_growth(|| servers(count));
    let empty = Pool::default();
    let (more, pool) = measure_growth(|| assemble_pool(&empty, &servers));
    let (index, ready) = measure_growth(|| Row::measure("", 1, || pool.search("x", 1)));
    let whole = Row::measure("", SLOW_ROUNDS, || assemble_pool(&empty, &servers));
    let again = Row::measure("", SLOW_ROUNDS, || assemble_pool(&pool, &servers));
    let rare = Row::measure("", QUICK_ROUNDS, || pool.search("read file", 10));
    let common = Row::measure("", QUICK_ROUNDS, || pool.search("the of a what was", 10));
    let milliseconds = |row: &Row| row.percentile(50).as_secs_f64() * 1e3;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let figures = json!({
        "whole": milliseconds(&whole),
        "again": milliseconds(&again),
        "ready": milliseconds(&ready),
        "rare": milliseconds(&rare),
        "common": milliseconds(&common),
        "catalogues": megabytes(catalogues),
        "withPool": megabytes(catalogues + more),
        "withIndex": megabytes(catalogues + more + index),
    });
    println!("{figures}");
    Ok(())
}

/// One picture of times, and one of memory.
pub fn pictures(sizes: &[PoolCost]) -> Vec<Picture> {
    let series = |label: &str, role: Role, key: &str| {
        Series::new(label, role, sizes.iter().map(|it| it.figures[key].as_f64()).collect())
    };
    let stops: Vec<Tick> = sizes.iter().map(|it| Tick::of(it.tools)).collect();
    let title = "Catalogue and search by the number of tools";
    let (across, upwards) = ("tools", "milliseconds");
    let times = Lines {
        title,
        x_axis: across,
        y_axis: upwards,
        ticks: stops.clone(),
        series: vec![
            series("assembled from nothing", Role::Ours, "whole"),
            series("assembled, nothing changed", Role::Other, "again"),
            series("search index built", Role::Other, "ready"),
            series("search of common words", Role::Other, "common"),
            series("search of rarer words", Role::Other, "rare"),
        ],
    };
    let held = "Memory by the number of tools";
    let memory = Lines {
        title: held,
        x_axis: across,
        y_axis: "megabytes that the process grew by",
        ticks: stops,
        series: vec![
            series("with what search needs", Role::Other, "withIndex"),
            series("with the pool", Role::Ours, "withPool"),
            series("the catalogues alone", Role::Baseline, "catalogues"),
        ],
    };
    vec![
        Picture::new("pool", title, times.draw()),
        Picture::new("pool-memory", held, memory.draw()),
    ]
}
