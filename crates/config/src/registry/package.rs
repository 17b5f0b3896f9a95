//! Packages and remotes of a server, and whether an entry can be made from them.

use serde_json::Value as Json;
use thiserror::Error;
use url::Url;

use super::error::ListingError;
use super::fields::{Fields, wrong_type};
use super::identifier::{is_identifier, is_pinned_image, is_pinned_version, is_sha256};
use super::input::{Argument, Input, NamedInput, read_variables};
use super::package_type::{PackageType, RemoteType};

/// A package that contains a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Where it is published.
    pub package_type: PackageType,
    /// Its name there; the URL of a bundle.
    pub identifier: String,
    /// Its version.
    pub version: Option<String>,
    /// The registry that the publisher names.
    pub registry_base_url: Option<String>,
    /// The SHA-256 of the file.
    pub sha256: Option<String>,
    /// The program that the publisher suggests to run it with.
    pub runtime_hint: Option<String>,
    /// How the server is reached: `stdio` or an HTTP transport.
    pub transport: String,
    /// The URL at which it listens, unless it uses stdio.
    pub transport_url: Option<String>,
    /// Arguments of the program that runs it.
    pub runtime_arguments: Vec<Argument>,
    /// Arguments of the server.
    pub package_arguments: Vec<Argument>,
    /// Environment variables of the server.
    pub environment: Vec<NamedInput>,
}

/// A URL at which a server can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The transport.
    pub remote_type: RemoteType,
    /// The URL, with its variables.
    pub url: Input,
    /// The headers of every request.
    pub headers: Vec<NamedInput>,
}

/// One of the ways in which a server can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallOption<'s> {
    /// A package.
    Package(&'s Package),
    /// A URL.
    Remote(&'s Remote),
}

impl InstallOption<'_> {
    /// What a user types to choose it.
    pub fn label(self) -> &'static str {
        match self {
            InstallOption::Package(package) => package.package_type.id(),
            InstallOption::Remote(remote) => remote.remote_type.id(),
        }
    }

    /// Why it cannot be used.
    pub fn check(self) -> Result<(), Unusable> {
        match self {
            InstallOption::Package(package) => package.check(),
            InstallOption::Remote(remote) => remote.check(),
        }
    }
}

/// Why a package or a remote cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unusable {
    /// The identifier is not one of its type.
    #[error("`{identifier}` is not the name of one {package_type} package")]
    Identifier {
        /// The identifier.
        identifier: String,
        /// The type.
        package_type: &'static str,
    },
    /// No version, a range, or a tag that moves.
    #[error("it names no exact version, but {found}")]
    NotPinned {
        /// What it names.
        found: String,
    },
    /// A bundle without a digest.
    #[error("it has no SHA-256, so the downloaded file could not be checked")]
    NoDigest,
    /// The package is a web server.
    #[error("it serves `{transport}` and does not use stdio, so it has to be started separately")]
    Transport {
        /// The transport.
        transport: String,
    },
    /// The URL is not one that a server can have.
    #[error("`{url}` is not an http or https URL")]
    Url {
        /// The URL.
        url: String,
    },
}

impl Package {
    pub(super) fn read(value: &Json) -> Result<Package, ListingError> {
        let fields = Fields::open(value, "packages")?;
        let type_name =
            fields.required_text(&["registryType", "registry_type", "registry_name"])?;
        let package_type = PackageType::parse(&type_name).ok_or_else(|| {
            wrong_type("registryType", "one of npm, pypi, oci, nuget, cargo, mcpb")
        })?;
        let transport = match fields.get(&["transport"]) {
            Some(transport) => Some(Fields::open(transport, "transport")?),
            None => None,
        };
        let transport_type = match transport {
            Some(transport) => transport.text(&["type"])?,
            None => None,
        };
        let transport_url = match transport {
            Some(transport) => transport.text(&["url"])?,
            None => None,
        };
        Ok(Package {
            package_type,
            identifier: fields.required_text(&["identifier", "name"])?,
            version: fields.text(&["version"])?.filter(|it| !it.is_empty()),
            registry_base_url: fields.text(&["registryBaseUrl", "registry_base_url"])?,
            sha256: fields.text(&["fileSha256", "file_sha256"])?,
            runtime_hint: fields.text(&["runtimeHint", "runtime_hint"])?,
            transport: transport_type.unwrap_or_else(|| "stdio".to_owned()),
            transport_url,
            runtime_arguments: Argument::read_list(
                fields,
                &["runtimeArguments", "runtime_arguments"],
            )?,
            package_arguments: Argument::read_list(
                fields,
                &["packageArguments", "package_arguments"],
            )?,
            environment: NamedInput::read_environment(fields)?,
        })
    }

    /// What is run or downloaded: the identifier with its version.
    pub fn pinned(&self) -> String {
        let version = self.version.as_deref().unwrap_or_default();
        match self.package_type {
            PackageType::Npm | PackageType::Nuget | PackageType::Cargo => {
                format!("{}@{version}", self.identifier)
            }
            PackageType::Pypi => format!("{}=={version}", self.identifier),
            PackageType::Oci => self.image(),
            PackageType::Mcpb => self.identifier.clone(),
        }
    }

    /// The host of the package registry that the publisher names, if it is not the usual one. An image names its host
    /// itself.
    pub(super) fn foreign_registry(&self) -> Option<String> {
        let base = Url::parse(self.registry_base_url.as_deref()?).ok()?;
        let host = base.host_str().filter(|it| !self.package_type.is_usual_host(it))?;
        let has_host = self.package_type == PackageType::Oci && self.image_host().is_some();
        (!has_host).then(|| host.to_owned())
    }

    /// The host in the name of an image.
    fn image_host(&self) -> Option<&str> {
        let (first, _) = self.identifier.split_once('/')?;
        (first.contains(['.', ':']) || first == "localhost").then_some(first)
    }

    /// The image, with the version as its tag where it has none.
    fn image(&self) -> String {
        let has_tag = self.identifier.contains('@')
            || super::identifier::image_tag(&self.identifier).is_some();
        match &self.version {
            Some(version) if !has_tag => format!("{}:{version}", self.identifier),
            Some(_) | None => self.identifier.clone(),
        }
    }

    fn check(&self) -> Result<(), Unusable> {
        if !is_identifier(&self.identifier, self.package_type) {
            return Err(Unusable::Identifier {
                identifier: self.identifier.clone(),
                package_type: self.package_type.id(),
            });
        }
        match self.package_type {
            PackageType::Npm | PackageType::Pypi | PackageType::Nuget | PackageType::Cargo => {
                if !self.version.as_deref().is_some_and(is_pinned_version) {
                    let found = match &self.version {
                        Some(version) => format!("`{version}`"),
                        None => "none at all".to_owned(),
                    };
                    return Err(Unusable::NotPinned { found });
                }
            }
            PackageType::Oci => {
                let image = self.image();
                if !is_identifier(&image, PackageType::Oci) || !is_pinned_image(&image) {
                    return Err(Unusable::NotPinned { found: format!("`{image}`") });
                }
            }
            PackageType::Mcpb => {
                if !self.sha256.as_deref().is_some_and(is_sha256) {
                    return Err(Unusable::NoDigest);
                }
            }
        }
        match self.transport.as_str() {
            "stdio" => Ok(()),
            other => Err(Unusable::Transport { transport: other.to_owned() }),
        }
    }

    /// What has to be downloaded, for a bundle that can be checked.
    pub fn bundle(&self) -> Option<BundleSource> {
        let is_bundle = self.package_type == PackageType::Mcpb && self.check().is_ok();
        let sha256 = self.sha256.as_ref().filter(|_| is_bundle)?;
        Some(BundleSource { url: self.identifier.clone(), sha256: sha256.to_lowercase() })
    }
}

/// A bundle to download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleSource {
    /// Its URL, which the registry named.
    pub url: String,
    /// Its SHA-256, in lower-case hexadecimal digits.
    pub sha256: String,
}

impl Remote {
    pub(super) fn read(value: &Json) -> Result<Remote, ListingError> {
        let fields = Fields::open(value, "remotes")?;
        let type_name = fields.required_text(&["type", "transportType", "transport_type"])?;
        let remote_type = RemoteType::parse(&type_name)
            .ok_or_else(|| wrong_type("type", "`streamable-http` or `sse`"))?;
        let url = fields.required_text(&["url"])?;
        Ok(Remote {
            remote_type,
            url: Input::fixed(&url, read_variables(fields)?),
            headers: NamedInput::read_headers(fields)?,
        })
    }

    /// The URL as the publisher wrote it.
    pub fn url_text(&self) -> &str {
        self.url.value.as_deref().unwrap_or_default()
    }

    fn check(&self) -> Result<(), Unusable> {
        let url = self.url_text();
        let unusable = || Unusable::Url { url: url.to_owned() };
        // Variables may be in every part of a URL, so that it is not one before they are replaced.
        let plain: String = url.chars().filter(|c| !matches!(c, '{' | '}')).collect();
        let parsed = match url.starts_with('{') && !self.url.variables.is_empty() {
            true => return Ok(()),
            false => Url::parse(&plain).map_err(|_| unusable())?,
        };
        let is_web = matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
        let has_user = !parsed.username().is_empty() || parsed.password().is_some();
        if is_web && !has_user { Ok(()) } else { Err(unusable()) }
    }
}
