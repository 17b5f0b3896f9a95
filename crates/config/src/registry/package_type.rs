//! The types of packages and remotes, and their names in `server.json`.

/// Where a package is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageType {
    /// npm, run with `npx`.
    Npm,
    /// PyPI, run with `uvx`.
    Pypi,
    /// A container image, run with `docker`.
    Oci,
    /// NuGet, run with `dnx`.
    Nuget,
    /// A Rust crate, installed with `cargo`.
    Cargo,
    /// An `.mcpb` bundle.
    Mcpb,
}

impl PackageType {
    /// Every type.
    pub const ALL: [PackageType; 6] = [
        PackageType::Npm,
        PackageType::Pypi,
        PackageType::Oci,
        PackageType::Nuget,
        PackageType::Cargo,
        PackageType::Mcpb,
    ];

    /// The name in `server.json`.
    pub fn id(self) -> &'static str {
        match self {
            PackageType::Npm => "npm",
            PackageType::Pypi => "pypi",
            PackageType::Oci => "oci",
            PackageType::Nuget => "nuget",
            PackageType::Cargo => "cargo",
            PackageType::Mcpb => "mcpb",
        }
    }

    /// Whether a host belongs to the registry that the program for this type asks unless it is configured otherwise.
    pub(super) fn is_usual_host(self, host: &str) -> bool {
        let names: &[(&str, &str)] = match self {
            PackageType::Npm => &[("npmjs", "org"), ("npmjs", "com")],
            PackageType::Pypi => &[("pypi", "org")],
            PackageType::Oci => &[("docker", "io"), ("docker", "com")],
            PackageType::Nuget => &[("nuget", "org")],
            PackageType::Cargo => &[("crates", "io")],
            PackageType::Mcpb => &[],
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let mut labels = host.rsplit('.');
        let (last, name) = (labels.next().unwrap_or_default(), labels.next().unwrap_or_default());
        names.contains(&(name, last))
    }

    /// Parses a name, including that of older schemas.
    pub fn parse(text: &str) -> Option<PackageType> {
        match text {
            "docker" => Some(PackageType::Oci),
            _ => PackageType::ALL.into_iter().find(|it| it.id() == text),
        }
    }
}

/// The transport of a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteType {
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events.
    Sse,
}

impl RemoteType {
    /// The `type` of an entry.
    pub fn id(self) -> &'static str {
        match self {
            RemoteType::Http => "http",
            RemoteType::Sse => "sse",
        }
    }

    /// Parses the name of `server.json` or of an entry.
    pub fn parse(text: &str) -> Option<RemoteType> {
        match text {
            "streamable-http" | "streamable" | "http" => Some(RemoteType::Http),
            "sse" => Some(RemoteType::Sse),
            _ => None,
        }
    }
}
