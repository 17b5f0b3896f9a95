//! One version of a server, as a registry lists it. A part that cannot be read is left out, with the reason.

use serde_json::Value as Json;

use super::error::ListingError;
use super::fields::Fields;
use super::identifier::is_server_name;
use super::package::{InstallOption, Package, Remote};

/// The member of `_meta` in which a registry says what it knows of a version.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";

/// What a registry says about a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingStatus {
    /// It may be used.
    Active,
    /// It may be used, but should not be any more.
    Deprecated,
    /// It must not be used.
    Deleted,
}

impl ListingStatus {
    /// The name in the registry's JSON.
    pub fn id(self) -> &'static str {
        match self {
            ListingStatus::Active => "active",
            ListingStatus::Deprecated => "deprecated",
            ListingStatus::Deleted => "deleted",
        }
    }
}

/// One version of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryServer {
    /// The name: a namespace, a slash and a name.
    pub name: String,
    /// The title for people.
    pub title: Option<String>,
    /// The description for people; may be empty.
    pub description: String,
    /// The version; may be empty.
    pub version: String,
    /// The website.
    pub website: Option<String>,
    /// The URL of the source code.
    pub repository: Option<String>,
    /// Whether it may be used.
    pub status: ListingStatus,
    /// Why, in the words of the registry.
    pub status_message: Option<String>,
    /// Whether the registry calls it the latest version.
    pub is_latest: bool,
    /// When it was published.
    pub published_at: Option<String>,
    /// Packages to run.
    pub packages: Vec<Package>,
    /// URLs to connect to.
    pub remotes: Vec<Remote>,
    /// Parts that were left out, and why.
    pub problems: Vec<String>,
}

impl RegistryServer {
    /// Every way in which it can be installed, packages first.
    pub fn install_options(&self) -> Vec<InstallOption<'_>> {
        let packages = self.packages.iter().map(InstallOption::Package);
        packages.chain(self.remotes.iter().map(InstallOption::Remote)).collect()
    }

    /// Reads an element of a list, or a version: `{server, _meta}`, or the server itself.
    pub fn read(row: &Json) -> Result<RegistryServer, ListingError> {
        let outer = Fields::open(row, "servers")?;
        let server = outer.get(&["server"]).unwrap_or(row);
        let fields = Fields::open(server, "server")?;
        let name = fields.required_text(&["name"])?;
        if !is_server_name(&name) {
            return Err(ListingError::Name { key: "name".to_owned(), name });
        }
        let mut problems = Vec::new();
        let packages = read_parts(fields, "packages", Package::read, &mut problems)?;
        let remotes = read_parts(fields, "remotes", Remote::read, &mut problems)?;
        let detail = fields.get(&["version_detail"]).and_then(Json::as_object);
        let old_version = detail.and_then(|it| it.get("version")).and_then(Json::as_str);
        let version = fields.text(&["version"])?.or(old_version.map(str::to_owned));
        let repository = fields.get(&["repository"]).and_then(|it| it.get("url"));
        let official = official(outer).or_else(|| official(fields));
        let (status, status_message) = read_status(fields, official, &mut problems);
        Ok(RegistryServer {
            name,
            title: fields.prose(&["title"]),
            description: fields.prose(&["description"]).unwrap_or_default(),
            version: version.unwrap_or_default(),
            website: fields.prose(&["websiteUrl", "website_url"]),
            repository: repository.and_then(Json::as_str).map(str::to_owned),
            status,
            status_message,
            is_latest: official
                .and_then(|it| it.get(&["isLatest", "is_latest"]))
                .and_then(Json::as_bool)
                .unwrap_or(false),
            published_at: official.and_then(|it| it.prose(&["publishedAt", "published_at"])),
            packages,
            remotes,
            problems,
        })
    }
}

fn official(fields: Fields<'_>) -> Option<Fields<'_>> {
    let meta = Fields::open(fields.get(&["_meta"])?, "_meta").ok()?;
    Fields::open(meta.get(&[OFFICIAL])?, OFFICIAL).ok()
}

/// A status that is not known counts as deprecated.
fn read_status(
    server: Fields<'_>,
    official: Option<Fields<'_>>,
    problems: &mut Vec<String>,
) -> (ListingStatus, Option<String>) {
    let message = official.and_then(|it| it.prose(&["statusMessage", "status_message"]));
    let value = official.and_then(|it| it.get(&["status"])).or_else(|| server.get(&["status"]));
    let status = match value {
        None => ListingStatus::Active,
        Some(value) => match value.as_str() {
            Some("active") => ListingStatus::Active,
            Some("deprecated") => ListingStatus::Deprecated,
            Some("deleted") => ListingStatus::Deleted,
            Some(_) | None => {
                problems.push("its status is not known".to_owned());
                ListingStatus::Deprecated
            }
        },
    };
    (status, message)
}

fn read_parts<T>(
    fields: Fields<'_>,
    key: &'static str,
    read: impl Fn(&Json) -> Result<T, ListingError>,
    problems: &mut Vec<String>,
) -> Result<Vec<T>, ListingError> {
    let mut parts = Vec::new();
    for (index, value) in fields.list(&[key])?.iter().enumerate() {
        match read(value) {
            Ok(part) => parts.push(part),
            Err(error) => problems.push(format!("{key}[{index}] is left out: {error}")),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_key_styles_and_both_envelopes_are_read() {
        let new = json!({
            "server": {
                "name": "io.example/weather", "title": "Weather", "description": "Forecasts", "version": "1.2.0",
                "websiteUrl": "https://w.example", "repository": {"url": "https://r.example", "source": "git"},
                "packages": [{
                    "registryType": "npm", "identifier": "@a/w", "version": "1.2.0", "transport": {"type": "stdio"},
                    "environmentVariables": [{"name": "KEY", "isRequired": true, "isSecret": true}],
                }],
                "remotes": [{"type": "streamable-http", "url": "https://w.example/mcp"}],
            },
            "_meta": {OFFICIAL: {"status": "deprecated", "statusMessage": "use x", "isLatest": true, "publishedAt": "2026-01-01T00:00:00Z"}},
        });
        let old = json!({
            "name": "io.example/weather", "title": "Weather", "description": "Forecasts",
            "version_detail": {"version": "1.2.0"},
            "website_url": "https://w.example", "repository": {"url": "https://r.example", "source": "git"},
            "packages": [{
                "registry_name": "npm", "name": "@a/w", "version": "1.2.0",
                "environment_variables": [{"name": "KEY", "is_required": true, "is_secret": true}],
            }],
            "remotes": [{"transport_type": "streamable", "url": "https://w.example/mcp"}],
            "_meta": {OFFICIAL: {"status": "deprecated", "status_message": "use x", "is_latest": true, "published_at": "2026-01-01T00:00:00Z"}},
        });
        let new = RegistryServer::read(&new).expect("it is valid");
        assert_eq!(new, RegistryServer::read(&old).expect("it is valid"));
        assert_eq!(new.status, ListingStatus::Deprecated);
        assert_eq!((new.packages.len(), new.remotes.len(), new.is_latest), (1, 1, true));
        assert!(new.problems.is_empty(), "{:?}", new.problems);
    }

    #[test]
    fn a_part_of_a_wrong_type_is_left_out_with_its_reason() {
        let server = json!({
            "name": "a/b", "version": "1",
            "packages": [
                {"registryType": "npm", "identifier": "x", "version": "1.0.0"},
                {"registryType": "npm", "identifier": ["x"], "version": "1.0.0"},
                {"registryType": "tarball", "identifier": "x", "version": "1.0.0"},
                {"registryType": "npm", "identifier": "x", "version": "1.0.0", "packageArguments": "rm"},
                {"registryType": "npm", "identifier": "x", "version": "1.0.0", "environmentVariables": [{"name": "A=B"}]},
                {"registryType": "npm", "identifier": "x", "version": "1.0.0", "packageArguments": [{"type": "positional", "value": "a\u{1b}[2J"}]},
                7,
            ],
            "remotes": [{"type": "streamable-http"}],
        });
        let read = RegistryServer::read(&server).expect("one package is valid");
        assert_eq!((read.packages.len(), read.remotes.len()), (1, 0));
        let problems: Vec<&str> = read.problems.iter().map(String::as_str).collect();
        assert_eq!(
            problems,
            [
                "packages[1] is left out: `identifier` is not a text",
                "packages[2] is left out: `registryType` is not one of npm, pypi, oci, nuget, cargo, mcpb",
                "packages[3] is left out: `packageArguments` is not a list",
                "packages[4] is left out: `environmentVariables` contains the name `A=B`, which is not valid",
                "packages[5] is left out: `value` contains a control character",
                "packages[6] is left out: `packages` is not an object",
                "remotes[0] is left out: `url` is missing",
            ]
        );
    }

    #[test]
    fn a_server_without_a_valid_name_is_refused() {
        for (row, expected) in [
            (json!([]), "`servers` is not an object"),
            (json!({"server": []}), "`server` is not an object"),
            (json!({"version": "1"}), "`name` is missing"),
            (json!({"name": 7}), "`name` contains the name `7`, which is not valid"),
            (json!({"name": "a/b", "packages": {}}), "`packages` is not a list"),
            (json!({"name": "a/b", "version": {}}), "`version` is not a text"),
            (json!({"name": "a/b", "packages": vec![0; 201]}), "`packages` is too long"),
        ] {
            let error = RegistryServer::read(&row).expect_err("it is not valid");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn an_unknown_status_warns_like_a_deprecated_one() {
        let row = json!({"name": "a/b", "status": "sunset"});
        assert_eq!(RegistryServer::read(&row).expect("valid").status, ListingStatus::Deprecated);
        let row = json!({"name": "a/b", "status": "deleted"});
        assert_eq!(RegistryServer::read(&row).expect("valid").status, ListingStatus::Deleted);
    }
}
