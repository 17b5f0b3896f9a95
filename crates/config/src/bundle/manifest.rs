//! The manifest of a bundle, read loosely: unknown keys are kept out with a warning, and only what is needed to run the
//! server is an error.

use serde_json::{Map, Value as Json};

use super::problem::{ManifestError, ManifestWarning};
use crate::user_config::UserConfig;

/// The versions of the format.
const VERSIONS: [&str; 4] = ["0.1", "0.2", "0.3", "0.4"];

/// The keys of all versions.
const KEYS: &[&str] = &[
    "$schema",
    "_meta",
    "author",
    "compatibility",
    "description",
    "display_name",
    "documentation",
    "dxt_version",
    "homepage",
    "icon",
    "icons",
    "keywords",
    "license",
    "localization",
    "long_description",
    "manifest_version",
    "name",
    "privacy_policies",
    "prompts",
    "prompts_generated",
    "repository",
    "screenshots",
    "server",
    "support",
    "tools",
    "tools_generated",
    "user_config",
    "version",
];

/// The manifest of a bundle. All texts are untrusted.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleManifest {
    /// The version of the format.
    pub manifest_version: &'static str,
    /// The name for programs.
    pub name: String,
    /// The name for users.
    pub display_name: Option<String>,
    /// The version of the bundle.
    pub version: String,
    /// A short description.
    pub description: String,
    /// The name of its author.
    pub author: String,
    /// Its licence.
    pub license: Option<String>,
    /// The server.
    pub server: BundleServer,
    /// The options for the user.
    pub user_config: UserConfig,
    /// Where it runs.
    pub compatibility: Compatibility,
    /// The names of the tools that it announces. The server may have others.
    pub tools: Vec<String>,
    /// Privacy policies of services that it uses.
    pub privacy_policies: Vec<String>,
}

/// The server of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleServer {
    /// How it is made.
    pub kind: BundleServerKind,
    /// The file that starts it, inside the bundle.
    pub entry_point: String,
    /// The command, with references.
    pub command: BundleCommand,
    /// What replaces parts of the command on a platform, by the name of the platform.
    pub overrides: Vec<(String, CommandOverride)>,
}

/// How a bundle's server is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleServerKind {
    /// A program for Node.js.
    Node,
    /// A Python program with its packages in the bundle.
    Python,
    /// A program for one platform.
    Binary,
    /// A Python program whose packages `uv` installs when it starts.
    Uv,
}

impl BundleServerKind {
    /// Every kind and its name in `type`.
    pub const NAMES: [(&'static str, BundleServerKind); 4] = [
        ("node", BundleServerKind::Node),
        ("python", BundleServerKind::Python),
        ("binary", BundleServerKind::Binary),
        ("uv", BundleServerKind::Uv),
    ];

    /// The value of `type`.
    pub fn id(self) -> &'static str {
        match self {
            BundleServerKind::Node => "node",
            BundleServerKind::Python => "python",
            BundleServerKind::Binary => "binary",
            BundleServerKind::Uv => "uv",
        }
    }
}

/// A command with references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleCommand {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment variables.
    pub env: Vec<(String, String)>,
}

/// What replaces parts of a command. Each part that is there replaces the whole part of the command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOverride {
    /// The program.
    pub command: Option<String>,
    /// The arguments.
    pub args: Option<Vec<String>>,
    /// The environment variables.
    pub env: Option<Vec<(String, String)>>,
}

/// Where a bundle runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compatibility {
    /// The platforms; all if empty.
    pub platforms: Vec<String>,
    /// The runtimes and their versions: `node`, `>=18`.
    pub runtimes: Vec<(String, String)>,
    /// The client programs and their versions.
    pub clients: Vec<(String, String)>,
}

impl BundleManifest {
    /// Reads a manifest.
    pub fn parse(text: &str) -> Result<(BundleManifest, Vec<ManifestWarning>), ManifestError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let json: Json = serde_json::from_str(text).map_err(|error| ManifestError::Syntax {
            line: error.line(),
            column: error.column(),
        })?;
        let Json::Object(members) = &json else { return Err(ManifestError::NotAnObject) };
        let mut reader = Reader { warnings: Vec::new() };
        let unknown = members.keys().filter(|key| !KEYS.contains(&key.as_str()));
        reader.warnings.extend(unknown.map(|key| ManifestWarning::UnknownKey(key.clone())));
        let (user_config, problems) =
            UserConfig::parse(members.get("user_config").unwrap_or(&Json::Null));
        reader.warnings.extend(problems.into_iter().map(ManifestWarning::from));
        let author = match members.get("author") {
            Some(Json::Object(author)) => required(author, "name", "author.name")?,
            Some(_) => return Err(wrong_type("author", "an object")),
            None => return Err(ManifestError::Missing("author")),
        };
        let manifest = BundleManifest {
            manifest_version: version(members)?,
            name: required(members, "name", "name")?,
            display_name: reader.text(members, "display_name"),
            version: required(members, "version", "version")?,
            description: required(members, "description", "description")?,
            author,
            license: reader.text(members, "license"),
            server: server(members, &mut reader)?,
            user_config,
            compatibility: reader.compatibility(members),
            tools: reader.tools(members),
            privacy_policies: reader.texts(members, "privacy_policies"),
        };
        Ok((manifest, reader.warnings))
    }

    /// The name for users.
    pub fn title(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }
}

fn wrong_type(key: &'static str, expected: &'static str) -> ManifestError {
    ManifestError::WrongType { key, expected }
}

fn version(members: &Map<String, Json>) -> Result<&'static str, ManifestError> {
    let version = members.get("manifest_version").or_else(|| members.get("dxt_version"));
    let version = match version {
        Some(Json::String(version)) => version,
        Some(_) => return Err(wrong_type("manifest_version", "text")),
        None => return Err(ManifestError::Missing("manifest_version")),
    };
    let known = VERSIONS.into_iter().find(|known| known == version);
    known.ok_or_else(|| ManifestError::UnknownVersion(version.clone()))
}

fn required(
    members: &Map<String, Json>,
    key: &str,
    path: &'static str,
) -> Result<String, ManifestError> {
    match members.get(key) {
        Some(Json::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
        Some(Json::String(_) | Json::Null) | None => Err(ManifestError::Missing(path)),
        Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
            Err(wrong_type(path, "text"))
        }
    }
}

fn server(members: &Map<String, Json>, reader: &mut Reader) -> Result<BundleServer, ManifestError> {
    let server = match members.get("server") {
        Some(Json::Object(server)) => server,
        Some(_) => return Err(wrong_type("server", "an object")),
        None => return Err(ManifestError::Missing("server")),
    };
    let word = required(server, "type", "server.type")?;
    let kind = BundleServerKind::NAMES.into_iter().find(|(name, _)| *name == word);
    let Some((_, kind)) = kind else { return Err(ManifestError::UnknownServerType(word)) };
    let entry_point = required(server, "entry_point", "server.entry_point")?;
    if !is_inside(&entry_point) {
        return Err(ManifestError::OutsidePath("server.entry_point"));
    }
    let config = match (server.get("mcp_config"), kind) {
        (Some(Json::Object(config)), _) => config,
        (None | Some(Json::Null), BundleServerKind::Uv) => {
            let command = uv_command(&entry_point);
            return Ok(BundleServer { kind, entry_point, command, overrides: Vec::new() });
        }
        (None | Some(Json::Null), _) => return Err(ManifestError::Missing("server.mcp_config")),
        (Some(_), _) => return Err(wrong_type("server.mcp_config", "an object")),
    };
    let command = BundleCommand {
        command: required(config, "command", "server.mcp_config.command")?,
        args: arguments(config)?.unwrap_or_default(),
        env: environment(config)?.unwrap_or_default(),
    };
    let overrides = reader.overrides(config)?;
    Ok(BundleServer { kind, entry_point, command, overrides })
}

/// How a server of type `uv` starts unless the manifest says.
fn uv_command(entry_point: &str) -> BundleCommand {
    let args = ["run", "--directory", "${__dirname}", entry_point];
    BundleCommand {
        command: "uv".to_owned(),
        args: args.map(str::to_owned).to_vec(),
        env: Vec::new(),
    }
}

fn arguments(config: &Map<String, Json>) -> Result<Option<Vec<String>>, ManifestError> {
    let fail = || wrong_type("server.mcp_config.args", "an array of strings");
    match config.get("args") {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Array(items)) => {
            let text = |item: &Json| item.as_str().map(str::to_owned).ok_or_else(fail);
            items.iter().map(text).collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(fail()),
    }
}

fn environment(config: &Map<String, Json>) -> Result<Option<Vec<(String, String)>>, ManifestError> {
    let fail = || wrong_type("server.mcp_config.env", "an object of strings");
    match config.get("env") {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Object(pairs)) => {
            let text = |(name, value): (&String, &Json)| {
                let is_name = !name.is_empty() && !name.contains(['=', '\0']);
                let value = value.as_str().filter(|_| is_name).ok_or_else(fail)?;
                Ok((name.clone(), value.to_owned()))
            };
            pairs.iter().map(text).collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(fail()),
    }
}

/// Is the path relative, and does it stay below where it starts?
fn is_inside(path: &str) -> bool {
    let path = path.strip_prefix("./").unwrap_or(path);
    let is_absolute = path.starts_with(['/', '\\']) || path.as_bytes().get(1) == Some(&b':');
    !is_absolute && !path.contains('\0') && !path.split(['/', '\\']).any(|part| part == "..")
}

/// Reads the parts of a manifest that a server runs without.
struct Reader {
    warnings: Vec<ManifestWarning>,
}

impl Reader {
    fn wrong_type(&mut self, key: &'static str) {
        self.warnings.push(ManifestWarning::WrongType(key));
    }

    fn text(&mut self, members: &Map<String, Json>, key: &'static str) -> Option<String> {
        let member = members.get(key).filter(|it| !it.is_null())?;
        let text = member.as_str();
        if text.is_none() {
            self.wrong_type(key);
        }
        text.filter(|it| !it.trim().is_empty()).map(str::to_owned)
    }

    fn texts(&mut self, members: &Map<String, Json>, key: &'static str) -> Vec<String> {
        match members.get(key) {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Array(items)) => {
                let texts: Vec<String> =
                    items.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect();
                if texts.len() < items.len() {
                    self.wrong_type(key);
                }
                texts
            }
            Some(_) => {
                self.wrong_type(key);
                Vec::new()
            }
        }
    }

    fn tools(&mut self, members: &Map<String, Json>) -> Vec<String> {
        match members.get("tools") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Array(items)) => {
                let name = |it: &Json| it.get("name")?.as_str().map(str::to_owned);
                items.iter().filter_map(name).collect()
            }
            Some(_) => {
                self.wrong_type("tools");
                Vec::new()
            }
        }
    }

    fn compatibility(&mut self, members: &Map<String, Json>) -> Compatibility {
        let compatibility = match members.get("compatibility") {
            None | Some(Json::Null) => return Compatibility::default(),
            Some(Json::Object(compatibility)) => compatibility,
            Some(_) => {
                self.wrong_type("compatibility");
                return Compatibility::default();
            }
        };
        let pairs = |members: &Map<String, Json>| -> Vec<(String, String)> {
            let text =
                |(name, value): (&String, &Json)| Some((name.clone(), value.as_str()?.to_owned()));
            members.iter().filter_map(text).collect()
        };
        let runtimes = match compatibility.get("runtimes") {
            Some(Json::Object(runtimes)) => pairs(runtimes),
            None | Some(_) => Vec::new(),
        };
        Compatibility {
            platforms: self.texts(compatibility, "platforms"),
            runtimes,
            clients: pairs(compatibility),
        }
    }

    fn overrides(
        &mut self,
        config: &Map<String, Json>,
    ) -> Result<Vec<(String, CommandOverride)>, ManifestError> {
        let platforms = match config.get("platform_overrides") {
            None | Some(Json::Null) => return Ok(Vec::new()),
            Some(Json::Object(platforms)) => platforms,
            Some(_) => {
                return Err(wrong_type("server.mcp_config.platform_overrides", "an object"));
            }
        };
        let mut overrides = Vec::new();
        for (platform, parts) in platforms {
            let Json::Object(parts) = parts else {
                return Err(wrong_type(
                    "server.mcp_config.platform_overrides",
                    "an object of objects",
                ));
            };
            let command = self.text(parts, "command");
            let (args, env) = (arguments(parts)?, environment(parts)?);
            overrides.push((platform.clone(), CommandOverride { command, args, env }));
        }
        Ok(overrides)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest() -> Json {
        json!({
            "manifest_version": "0.3", "name": "files", "version": "1.0.0", "description": "d",
            "author": {"name": "A"},
            "server": {"type": "node", "entry_point": "server/index.js",
                "mcp_config": {"command": "node", "args": ["${__dirname}/server/index.js"]}},
        })
    }

    /// Parses the manifest with `key` (a path of keys) set to `value`, or removed if it is null.
    fn parse_with(
        path: &[&str],
        value: Json,
    ) -> Result<(BundleManifest, Vec<ManifestWarning>), ManifestError> {
        let mut json = manifest();
        let (last, parents) = path.split_last().expect("a key");
        let parent = parents.iter().fold(&mut json, |at, key| &mut at[*key]);
        let members = parent.as_object_mut().expect("an object");
        let _earlier = match value.is_null() {
            true => members.shift_remove(*last),
            false => members.insert((*last).to_owned(), value),
        };
        BundleManifest::parse(&json.to_string())
    }

    #[track_caller]
    fn check_error(path: &[&str], value: Json, expected: &str) {
        let error = parse_with(path, value).expect_err("the manifest is not valid");
        assert_eq!(error.to_string(), expected);
    }

    #[track_caller]
    fn check_warnings(path: &[&str], value: Json, expected: &[&str]) {
        let (_, warnings) = parse_with(path, value).expect("the manifest is valid");
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, expected);
    }

    #[test]
    fn every_version_is_read_under_its_new_and_its_old_key() {
        for version in VERSIONS {
            let (read, _) = parse_with(&["manifest_version"], json!(version)).expect("it is known");
            assert_eq!(read.manifest_version, version);
        }
        let mut old = manifest();
        old["dxt_version"] = json!("0.1");
        old.as_object_mut().expect("an object").shift_remove("manifest_version");
        let (read, warnings) = BundleManifest::parse(&old.to_string()).expect("it is valid");
        assert_eq!((read.manifest_version, warnings), ("0.1", Vec::new()));
        check_error(&["manifest_version"], Json::Null, "`manifest_version` is missing");
        check_error(
            &["manifest_version"],
            json!("0.5"),
            "its version `0.5` is not one of 0.1 to 0.4",
        );
        check_error(&["manifest_version"], json!(0.3), "`manifest_version` is not text");
    }

    #[test]
    fn what_the_server_needs_is_required() {
        for (path, message) in [
            (&["name"][..], "`name` is missing"),
            (&["version"], "`version` is missing"),
            (&["description"], "`description` is missing"),
            (&["author"], "`author` is missing"),
            (&["author", "name"], "`author.name` is missing"),
            (&["server"], "`server` is missing"),
            (&["server", "type"], "`server.type` is missing"),
            (&["server", "entry_point"], "`server.entry_point` is missing"),
            (&["server", "mcp_config"], "`server.mcp_config` is missing"),
            (&["server", "mcp_config", "command"], "`server.mcp_config.command` is missing"),
        ] {
            check_error(path, Json::Null, message);
        }
        check_error(&["name"], json!(1), "`name` is not text");
        check_error(&["author"], json!("A"), "`author` is not an object");
        check_error(&["server"], json!([]), "`server` is not an object");
        check_error(
            &["server", "type"],
            json!("ruby"),
            "the server type `ruby` is not node, python, binary or uv",
        );
        check_error(
            &["server", "mcp_config"],
            json!("node"),
            "`server.mcp_config` is not an object",
        );
        check_error(
            &["server", "mcp_config", "args"],
            json!([1]),
            "`server.mcp_config.args` is not an array of strings",
        );
        check_error(
            &["server", "mcp_config", "args"],
            json!("x"),
            "`server.mcp_config.args` is not an array of strings",
        );
        for env in [json!({"A": 1}), json!({"A=B": "x"}), json!([])] {
            check_error(
                &["server", "mcp_config", "env"],
                env,
                "`server.mcp_config.env` is not an object of strings",
            );
        }
        for overrides in [json!([]), json!({"linux": 1})] {
            let error = parse_with(&["server", "mcp_config", "platform_overrides"], overrides);
            assert!(matches!(error, Err(ManifestError::WrongType { .. })));
        }
        for path in ["/bin/sh", "../x", "a/../../x", "C:\\x", "..\\x", "\\\\host\\x"] {
            check_error(
                &["server", "entry_point"],
                json!(path),
                "`server.entry_point` is not a path inside the bundle",
            );
        }
    }

    #[test]
    fn unknown_keys_and_odd_values_are_warnings() {
        check_warnings(&["futures"], json!(1), &["the key `futures` is unknown"]);
        check_warnings(&["display_name"], json!(1), &["`display_name` has the wrong type"]);
        check_warnings(&["tools"], json!(1), &["`tools` has the wrong type"]);
        check_warnings(&["compatibility"], json!(1), &["`compatibility` has the wrong type"]);
        check_warnings(
            &["privacy_policies"],
            json!([1]),
            &["`privacy_policies` has the wrong type"],
        );
        check_warnings(&["privacy_policies"], json!(1), &["`privacy_policies` has the wrong type"]);
        check_warnings(
            &["user_config"],
            json!({"a": 1}),
            &["option `a`: its definition is not an object"],
        );
        check_warnings(&["icons"], json!([{"src": "x"}]), &[]);
    }

    #[test]
    fn compatibility_and_tools_are_read() {
        let value = json!({"claude_desktop": ">=1", "other": ">=2", "platforms": ["linux"], "runtimes": {"node": ">=18"}});
        let (read, _) = parse_with(&["compatibility"], value).expect("it is valid");
        assert_eq!(read.compatibility.platforms, ["linux"]);
        assert_eq!(read.compatibility.runtimes, [("node".to_owned(), ">=18".to_owned())]);
        assert_eq!(read.compatibility.clients.len(), 2);
        let (read, _) =
            parse_with(&["tools"], json!([{"name": "a"}, {"x": 1}])).expect("it is valid");
        assert_eq!((read.title(), read.tools.clone()), ("files", vec!["a".to_owned()]));
    }

    #[test]
    fn texts_that_are_no_manifest_say_where() {
        let error = |text: &str| BundleManifest::parse(text).expect_err("it is none").to_string();
        assert_eq!(error("{\n \"a\": }"), "line 2, column 7 is not valid JSON");
        assert_eq!(error("[]"), "it is not an object");
        assert_eq!(error(&"[".repeat(5000)), "line 1, column 128 is not valid JSON");
    }
}
