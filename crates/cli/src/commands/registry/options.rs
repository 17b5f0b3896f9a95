//! The options of `swb registry add`.

use clap::{Args, ValueEnum};
use switchboard::config::registry::{PackageType, RemoteType};

use crate::commands::import::SecretStorage;
use crate::invocation::scope::WritableScope;

/// Arguments of `swb registry add`.
#[derive(Debug, Args)]
pub struct RegistryAddArgs {
    /// The server's name in the registry, such as io.github.user/weather
    pub server: String,
    /// This version instead of the latest one
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,
    /// The name in your configuration [default: the part after the slash]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The scope to write to [default: local]
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// Add a package of this type: npm, pypi, oci, nuget, cargo or mcpb
    #[arg(long, value_name = "TYPE", value_parser = parse_package_type, conflicts_with = "remote")]
    pub package: Option<PackageType>,
    /// Add a URL to connect to, of this type: http or sse
    #[arg(long, value_name = "TYPE", num_args = 0..=1, require_equals = true, value_parser = parse_remote_type)]
    pub remote: Option<Option<RemoteType>>,
    /// Set an argument, variable, header or environment variable; may be repeated
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub set: Vec<String>,
    /// Where secrets go
    #[arg(long, value_enum, value_name = "PLACE", default_value_t = SecretPlace::Keychain)]
    pub secrets: SecretPlace,
    /// Ask nothing: take the defaults, and write
    #[arg(long, short)]
    pub yes: bool,
    /// Replace a server of the same name in the same scope
    #[arg(long)]
    pub overwrite: bool,
}

/// Where the secrets of a new entry go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SecretPlace {
    /// The system's keychain.
    Keychain,
    /// Files that only you can read.
    File,
}

impl SecretPlace {
    /// The same for the functions of `import`.
    pub(super) fn storage(self) -> SecretStorage {
        match self {
            SecretPlace::Keychain => SecretStorage::Keychain,
            SecretPlace::File => SecretStorage::File,
        }
    }
}

fn parse_package_type(text: &str) -> Result<PackageType, String> {
    PackageType::parse(text).ok_or_else(|| {
        format!("the types are {}", PackageType::ALL.map(PackageType::id).join(", "))
    })
}

fn parse_remote_type(text: &str) -> Result<RemoteType, String> {
    RemoteType::parse(text).ok_or_else(|| "the types are http, sse".to_owned())
}
