//! The options that every command has, and the parser of `--mode`, which several have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use switchboard::config::permission::PermissionMode;

use crate::invocation::browser_server::BrowserOptions;

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct GlobalOptions {
    /// Add servers from a file or from inline JSON; may be repeated, the last one wins
    #[arg(long, global = true, value_name = "FILE|JSON", help_heading = "Global options")]
    pub mcp_config: Vec<String>,
    /// Use only the servers of --mcp-config
    #[arg(long, global = true, help_heading = "Global options")]
    pub strict_mcp_config: bool,
    /// Print JSON for programs
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// Use the plugin in a folder or an archive, for this run; may be repeated
    #[arg(long, global = true, value_name = "FOLDER|ZIP", help_heading = "Global options")]
    pub plugin_dir: Vec<PathBuf>,
    /// The same without the plugin's servers; may be repeated
    #[arg(
        long,
        global = true,
        value_name = "FOLDER|ZIP",
        hide_short_help = true,
        help_heading = "Global options"
    )]
    pub plugin_dir_no_mcp: Vec<PathBuf>,
    /// Answer elicitations from a JSON file before asking you
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub answers: Option<String>,
    /// Run servers of this session only, without the shared host [env: SWB_SHARE=off]
    #[arg(long, global = true, help_heading = "Global options")]
    pub no_share: bool,
    /// The browser.
    #[command(flatten)]
    pub browser: BrowserOptions,
    /// Log events to standard error: a level, or levels of parts such as gateway=trace,info [env: SWB_LOG]
    #[arg(long, global = true, value_name = "LEVEL|FILTER", help_heading = "Global options")]
    pub log: Option<String>,
    /// Log to this file instead; the default of the screen is swb.log in the state folder
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub log_file: Option<PathBuf>,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = ColorMode::Auto, value_name = "WHEN", help_heading = "Global options")]
    pub color: ColorMode,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    /// If standard output is a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Parses a permission mode.
pub fn parse_mode(text: &str) -> Result<PermissionMode, String> {
    PermissionMode::parse(text).ok_or_else(|| {
        let words: Vec<&str> = PermissionMode::ALL.iter().map(|mode| mode.id()).collect();
        format!("the modes are {}", words.join(", "))
    })
}
