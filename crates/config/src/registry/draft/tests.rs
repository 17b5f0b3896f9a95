//! Tests of drafts: the command line of every package type, questions, answers, and what a publisher cannot do.

use serde_json::{Value as Json, json};

use super::*;
use crate::registry::RegistryServer;

fn server(part: &str, value: Json) -> RegistryServer {
    let server = RegistryServer::read(&json!({"name": "a/b", part: [value]})).expect("a server");
    assert!(server.problems.is_empty(), "{:?}", server.problems);
    server
}

fn draft(part: &str, value: Json) -> EntryDraft {
    let server = server(part, value);
    EntryDraft::new(server.install_options()[0]).expect("it can be used")
}

fn build(draft: &EntryDraft, answers: &[(&str, &str)]) -> Result<NewEntry, Vec<String>> {
    let mut given = Answers::default();
    for (key, value) in answers {
        given.add(key, (*value).to_owned());
    }
    let reference = |key: &str| SecretReference::Keychain(format!("b.{key}"));
    let built = draft.build(&given, &reference);
    built.map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// The command line of a package without questions.
#[track_caller]
fn check_argv(package: Json, expected: &str) {
    let shown = package.to_string();
    let entry = build(&draft("packages", package), &[]).expect("nothing is asked").entry;
    let mut words = vec![entry["command"].as_str().expect("a command")];
    let arguments = entry.get("args").and_then(Json::as_array).into_iter().flatten();
    words.extend(arguments.map(|it| it.as_str().expect("a text")));
    assert_eq!(words.join(" "), expected, "{shown}");
}

fn npm(runtime: Json) -> Json {
    json!({
        "registryType": "npm", "identifier": "@acme/files", "version": "1.2.3", "runtimeHint": "npx",
        "runtimeArguments": runtime,
        "packageArguments": [{"type": "positional", "value": "stdio"}],
    })
}

#[test]
fn each_package_type_has_its_command_line() {
    let arguments = json!([{"type": "positional", "value": "serve"}, {"type": "named", "name": "--port", "value": "80"}]);
    for (kind, identifier, version, expected) in [
        ("npm", "@acme/x", "1.0.0", "npx -y @acme/x@1.0.0 serve --port 80"),
        ("pypi", "acme-x", "1.0.0", "uvx acme-x==1.0.0 serve --port 80"),
        ("oci", "acme/x", "1.0.0", "docker run -i --rm -e A acme/x:1.0.0 serve --port 80"),
        ("nuget", "Acme.X", "1.0.0", "dnx Acme.X@1.0.0 --yes serve --port 80"),
        ("cargo", "acme-x", "1.0.0", "~/.cargo/bin/acme-x serve --port 80"),
    ] {
        check_argv(
            json!({
                "registryType": kind, "identifier": identifier, "version": version,
                "packageArguments": arguments, "environmentVariables": [{"name": "A", "value": "1"}],
            }),
            expected,
        );
    }
}

#[test]
fn runtime_arguments_that_are_there_anyway_are_not_repeated() {
    let plain = "npx -y @acme/files@1.2.3 stdio";
    let word = |text: &str| json!({"type": "positional", "value": text});
    let flag = |text: &str| json!({"type": "named", "name": text});
    for runtime in [
        json!([]),
        json!([word("-y")]),
        json!([flag("-y")]),
        json!([{"type": "named", "name": "-y", "description": "no questions"}]),
        json!([word("-y"), word("-y")]),
        json!([word("-y"), word("@acme/files")]),
        json!([word("@acme/files@1.2.3")]),
        json!([word("@acme/files@latest")]),
        json!([word("npx"), word("-y")]),
    ] {
        check_argv(npm(runtime), plain);
    }
    check_argv(npm(json!([flag("--yes")])), "npx --yes @acme/files@1.2.3 stdio");
    check_argv(npm(json!([flag("--quiet")])), "npx -y --quiet @acme/files@1.2.3 stdio");
    check_argv(
        npm(json!([word("@acme/files-two")])),
        "npx -y @acme/files-two @acme/files@1.2.3 stdio",
    );
    let named = "npx -y --package @acme/files@1.2.3 run-files stdio";
    check_argv(npm(json!([flag("--package"), word("@acme/files"), word("run-files")])), named);
    let value = json!({"type": "named", "name": "--package", "value": "@acme/files@^1"});
    check_argv(npm(json!([value, word("run-files")])), named);
    let joined = json!([word("--package=@acme/files"), word("run-files")]);
    check_argv(npm(joined), "npx -y --package=@acme/files@1.2.3 run-files stdio");
    let pypi = |runtime: Json| json!({"registryType": "pypi", "identifier": "acme", "version": "1", "runtimeArguments": runtime});
    check_argv(pypi(json!([word("uvx"), word("acme==0.9")])), "uvx acme==1");
    check_argv(
        pypi(json!([flag("--from"), word("acme"), word("acme-cli")])),
        "uvx --from acme==1 acme-cli",
    );
    check_argv(
        json!({"registryType": "nuget", "identifier": "A", "version": "1", "runtimeArguments": [word("A@1"), flag("--yes")]}),
        "dnx A@1 --yes",
    );
    check_argv(
        json!({
            "registryType": "oci", "identifier": "host.example:5000/acme/x:1.0",
            "runtimeArguments": [
                word("run"), flag("-i"), flag("--rm"), flag("-it"), word("host.example:5000/acme/x:1.0"),
                {"type": "named", "name": "-e", "value": "B=2"}, {"type": "named", "name": "--network", "value": "host"},
            ],
            "environmentVariables": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        }),
        "docker run -i --rm -e B=2 --network host -e A host.example:5000/acme/x:1.0",
    );
}

#[test]
fn a_version_that_is_not_pinned_is_refused() {
    let digest = "0".repeat(64);
    for (package, expected) in [
        (
            json!({"registryType": "npm", "identifier": "x"}),
            "it names no exact version, but none at all",
        ),
        (
            json!({"registryType": "npm", "identifier": "x", "version": "latest"}),
            "it names no exact version, but `latest`",
        ),
        (
            json!({"registryType": "pypi", "identifier": "x", "version": ">=1"}),
            "it names no exact version, but `>=1`",
        ),
        (
            json!({"registryType": "oci", "identifier": "a/x"}),
            "it names no exact version, but `a/x`",
        ),
        (
            json!({"registryType": "oci", "identifier": "a/x:latest"}),
            "it names no exact version, but `a/x:latest`",
        ),
        (
            json!({"registryType": "npm", "identifier": "--help", "version": "1.0.0"}),
            "`--help` is not the name of one npm package",
        ),
        (
            json!({"registryType": "npm", "identifier": "x", "version": "1.0.0", "transport": {"type": "streamable-http", "url": "http://localhost/"}}),
            "it serves `streamable-http` and does not use stdio, so it has to be started separately",
        ),
        (
            json!({"registryType": "mcpb", "identifier": "https://f.example/x.mcpb"}),
            "it has no SHA-256, so the downloaded file could not be checked",
        ),
        (
            json!({"registryType": "mcpb", "identifier": "x.mcpb", "fileSha256": digest}),
            "`x.mcpb` is not the name of one mcpb package",
        ),
    ] {
        let server = server("packages", package);
        let error = EntryDraft::new(server.install_options()[0]).expect_err("it is refused");
        assert_eq!(error.to_string(), expected);
        assert_eq!(server.packages[0].bundle(), None);
    }
}

#[test]
fn a_bundle_names_its_url_and_its_digest() {
    let package = json!({"registry_type": "mcpb", "identifier": "https://f.example/x.mcpb", "file_sha256": "AB".repeat(32)});
    let bundle = server("packages", package).packages[0].bundle().expect("it can be checked");
    assert_eq!((bundle.url.as_str(), bundle.sha256), ("https://f.example/x.mcpb", "ab".repeat(32)));
}

#[test]
fn what_is_open_is_asked_and_what_is_fixed_is_not() {
    let draft = draft(
        "packages",
        json!({
            "registryType": "npm", "identifier": "x", "version": "1.0.0",
            "packageArguments": [
                {"type": "positional", "valueHint": "folder", "description": "The folder", "isRequired": true, "isRepeated": true, "format": "filepath"},
                {"type": "named", "name": "--port", "default": 8080, "format": "number"},
                {"type": "named", "name": "--verbose", "description": "Print more"},
                {"type": "named", "name": "--mode", "choices": ["fast", "slow"]},
                {"type": "named", "name": "--stdio", "isRequired": true},
                {"type": "named", "name": "--mount", "value": "src={source},dst=/data", "variables": {"source": {"description": "What to mount", "isRequired": true}}},
                {"type": "named", "name": "--label=", "value": "l{other}"},
            ],
            "environmentVariables": [
                {"name": "API_KEY", "isSecret": true, "isRequired": true, "default": "published"},
                {"name": "LEVEL", "value": "info", "isRequired": true},
                {"name": "UNUSED"},
            ],
        }),
    );
    let keys: Vec<&str> = draft.questions().iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, ["folder", "port", "verbose", "mode", "source", "API_KEY", "UNUSED"]);
    let missing = build(&draft, &[]).err().expect("three are required");
    assert_eq!(
        missing,
        ["`folder` needs a value", "`source` needs a value", "`API_KEY` needs a value"]
    );
    let required = [("folder", "/a"), ("folder", "~/b c"), ("source", "/s"), ("API_KEY", "k$y")];
    let built = build(&draft, &required).expect("everything is there");
    let expected = json!({
        "type": "stdio", "command": "npx",
        "args": ["-y", "x@1.0.0", "/a", "${HOME}/b c", "--port", "8080", "--stdio", "--mount", "src=/s,dst=/data", "--label=l{other}"],
        "env": {"API_KEY": "${keychain:b.API_KEY}", "LEVEL": "info"},
    });
    assert_eq!(Json::Object(built.entry), expected);
    let secrets: Vec<_> =
        built.secrets.iter().map(|(it, secret)| (it.to_string(), secret.reveal())).collect();
    assert_eq!(secrets, [("${keychain:b.API_KEY}".to_owned(), "k$y")]);
    let more = [
        ("port", ""),
        ("verbose", "yes"),
        ("mode", "slow"),
        ("UNUSED", "u$A"),
        ("API_KEY", "${MY_KEY}"),
    ];
    let all: Vec<_> = required[..3].iter().chain(&more).copied().collect();
    let built = build(&draft, &all).expect("everything is there");
    assert_eq!(
        built.entry["args"],
        json!([
            "-y",
            "x@1.0.0",
            "/a",
            "${HOME}/b c",
            "--verbose",
            "--mode",
            "slow",
            "--stdio",
            "--mount",
            "src=/s,dst=/data",
            "--label=l{other}"
        ])
    );
    assert_eq!(
        built.entry["env"],
        json!({"API_KEY": "${MY_KEY}", "LEVEL": "info", "UNUSED": "u$$A"})
    );
    assert!(built.secrets.is_empty(), "a reference is not stored");
}

#[test]
fn a_secret_that_is_not_marked_is_known_by_its_name() {
    let environment = json!([{"name": "ACME_API_KEY"}, {"name": "MODE"}, {"name": "AUTH_TOKEN", "default": "none"}]);
    let draft = draft(
        "packages",
        json!({"registryType": "npm", "identifier": "x", "version": "1.0.0", "environmentVariables": environment}),
    );
    let secret: Vec<bool> = draft.questions().iter().map(|it| it.is_secret).collect();
    assert_eq!(secret, [true, false, false]);
}

#[test]
fn answers_are_checked() {
    let draft = draft(
        "packages",
        json!({
            "registryType": "npm", "identifier": "x", "version": "1.0.0",
            "packageArguments": [
                {"type": "named", "name": "--port", "format": "number", "placeholder": "80"},
                {"type": "named", "name": "--on", "format": "boolean"},
                {"type": "named", "name": "--mode", "choices": ["fast", "slow"]},
            ],
        }),
    );
    for (key, value, expected) in [
        ("port", "eighty", "`port` must be a number"),
        ("port", "inf", "`port` must be a number"),
        ("on", "perhaps", "`on` must be `true` or `false`"),
        ("mode", "other", "`mode` must be one of `fast`, `slow`"),
        ("mode", "fast\n", "the value of `mode` contains a control character"),
        ("prot", "80", "there is no value `prot`; there is `port`, `on`, `mode`"),
    ] {
        assert_eq!(build(&draft, &[(key, value)]).err(), Some(vec![expected.to_owned()]));
    }
    let twice = build(&draft, &[("port", "1"), ("port", "2")]).err();
    assert_eq!(twice, Some(vec!["`port` takes one value".to_owned()]));
    let none = build(&draft, &[("on", "no"), ("port", "${PORT}")]).expect("both are accepted");
    assert_eq!(none.entry["args"], json!(["-y", "x@1.0.0", "--port", "${PORT}"]));
}

#[test]
fn a_remote_asks_for_its_variables_and_secret_headers() {
    let draft = draft(
        "remotes",
        json!({
            "type": "streamable-http", "url": "https://{tenant}.api.example/mcp?x={extra}",
            "variables": {"tenant": {"description": "Your tenant", "isRequired": true}, "extra": {}},
            "headers": [
                {"name": "Authorization", "value": "Bearer {token}", "isSecret": true, "variables": {"token": {"isRequired": true}}},
                {"name": "X-Trace", "value": "{id}", "variables": {"id": {}}},
                {"name": "X-Fixed", "value": "v"},
            ],
        }),
    );
    let secret: Vec<(&str, bool)> =
        draft.questions().iter().map(|it| (it.key.as_str(), it.is_secret)).collect();
    assert_eq!(secret, [("tenant", false), ("extra", false), ("token", true), ("id", false)]);
    let built = build(&draft, &[("tenant", "acme"), ("token", "t0p")]).expect("both are there");
    let expected = json!({
        "type": "http", "url": "https://acme.api.example/mcp?x=",
        "headers": {"Authorization": "Bearer ${keychain:b.token}", "X-Fixed": "v"},
    });
    assert_eq!(Json::Object(built.entry), expected);
    assert_eq!(built.secrets[0].1.reveal(), "t0p");
}

#[test]
fn a_url_is_judged_with_its_answers() {
    let private = "its URL leads to this machine or to a private network";
    let remote = |variable: Json| {
        let variables = json!({"host": variable, "a": {"description": "optional"}});
        let url = "https://{host}/mcp?a={a}";
        draft("remotes", json!({"type": "streamable-http", "url": url, "variables": variables}))
    };
    let asked = remote(json!({"isRequired": true}));
    assert_eq!(asked.warnings(), [""; 0]);
    let built = |host: &str| build(&asked, &[("host", host)]).expect("it is there").warnings;
    assert_eq!(built("169.254.169.254"), [private]);
    assert_eq!(built("api.example"), [""; 0]);
    let fixed = remote(json!({"value": "10.0.0.1"}));
    assert_eq!(build(&fixed, &[]).expect("nothing is asked").warnings, [private]);
}

#[test]
fn a_url_that_is_not_on_the_web_is_refused() {
    for url in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "//h/x",
        "https://user:pw@h.example/",
        "not a url",
    ] {
        let server = server("remotes", json!({"type": "sse", "url": url}));
        let error = EntryDraft::new(server.install_options()[0]).expect_err("it is refused");
        assert_eq!(error.to_string(), format!("`{url}` is not an http or https URL"));
    }
}

#[test]
fn nothing_that_a_publisher_writes_is_expanded() {
    let evil = "${cmd:touch owned} $HOME ${keychain:github} $$";
    let literal = "$${cmd:touch owned} $$HOME $${keychain:github} $$$$";
    let argument = |rest: Json| {
        let mut it = json!({"type": "positional"});
        it.as_object_mut().expect("an object").extend(rest.as_object().expect("one").clone());
        it
    };
    let draft = draft(
        "packages",
        json!({
            "registryType": "npm", "identifier": "x", "version": "1.0.0",
            "packageArguments": [
                argument(json!({"value": evil})),
                argument(json!({"default": evil, "isRequired": true})),
                argument(json!({"valueHint": "c", "choices": [evil]})),
                {"type": "named", "name": "--${cmd:id}"},
            ],
            "environmentVariables": [{"name": "A", "value": evil}],
        }),
    );
    // Even where the user picks what the publisher offers.
    let built = build(&draft, &[("c", evil)]).expect("nothing is missing");
    assert_eq!(
        built.entry["args"],
        json!(["-y", "x@1.0.0", literal, literal, literal, "--$${cmd:id}"])
    );
    assert_eq!(built.entry["env"], json!({"A": literal}));
}

#[test]
fn options_that_reach_beyond_the_package_are_pointed_out() {
    let warnings = |kind: &str, runtime: Json| {
        let package = json!({"registryType": kind, "identifier": "x", "version": "1.0.0", "runtimeArguments": runtime, "runtimeHint": "bun"});
        draft("packages", package).warnings()
    };
    assert_eq!(
        warnings(
            "oci",
            json!([{"type": "named", "name": "--privileged"}, {"type": "positional", "value": "--volume=/:/host"}])
        ),
        [
            "`--privileged` opens the container to this machine",
            "`--volume` opens the container to this machine",
            "its publisher suggests to run it with `bun`, not `docker`",
        ]
    );
    assert_eq!(
        warnings(
            "npm",
            json!([{"type": "named", "name": "--registry", "value": "https://r.example"}])
        )[0],
        "`--registry` changes what npx runs, or where it comes from"
    );
}

/// The warnings about runtime arguments of a package.
#[track_caller]
fn check_warnings(kind: &str, runtime: Json, expected: &[&str]) {
    let package = json!({"registryType": kind, "identifier": "x", "version": "1.0.0", "runtimeArguments": runtime});
    assert_eq!(draft("packages", package).warnings(), expected);
}

#[test]
fn no_spelling_of_an_option_escapes_notice() {
    let value = |text: &str| json!({"type": "positional", "value": text});
    let unusual = |word: &str, program: &str| {
        format!("`{word}` is an unusual option of {program}: find out what it does")
    };
    for word in ["-v/:/host", "-itv/:/host", "-vi", "--sig-proxy", "-P8080"] {
        check_warnings("oci", json!([value(word)]), &[&unusual(word, "docker")]);
    }
    for word in ["--reg=https://r.example", "-yc", "-ps", "--pack=evil"] {
        check_warnings("npm", json!([value(word)]), &[&unusual(word, "npx")]);
    }
    check_warnings("pypi", json!([value("-vv")]), &[&unusual("-vv", "uvx")]);
    let reaches = "`--source` changes what dnx runs, or where it comes from";
    check_warnings("nuget", json!([value("--source:https://r.example")]), &[reaches]);
    let harmless = json!([value("-e"), value("A=1"), value("--init"), {"type": "named", "name": "--name", "value": "n"}]);
    check_warnings("oci", harmless, &[]);
    check_warnings("npm", json!([value("-y"), value("x@1.0.0")]), &[]);
}

#[test]
fn a_package_that_is_published_elsewhere_is_pointed_out() {
    let check = |kind: &str, identifier: &str, base: &str, host: Option<&str>| {
        let package = json!({"registryType": kind, "identifier": identifier, "version": "1.0.0", "registryBaseUrl": base});
        let warnings = draft("packages", package).warnings();
        let expected = host.map(|it| format!("its publisher publishes it at `{it}`, but"));
        let found = warnings.first().map(|it| it.split_inclusive("but").next().unwrap_or(it));
        assert_eq!(found, expected.as_deref(), "{kind} {base}: {warnings:?}");
    };
    check("npm", "x", "https://packages.npmjs.org/", None);
    check("npm", "x", "https://NPMJS.org", None);
    check("npm", "x", "https://npmjs.org.evil.example", Some("npmjs.org.evil.example"));
    check("npm", "x", "https://evilnpmjs.org", Some("evilnpmjs.org"));
    check("pypi", "x", "https://packages.company.example/simple", Some("packages.company.example"));
    check("nuget", "x", "https://api.nuget.org/v3/index.json", None);
    check("oci", "owner/x", "https://images.company.example", Some("images.company.example"));
    check("oci", "images.company.example/owner/x", "https://images.company.example", None);
    check("oci", "owner/x", "https://docker.io", None);
    check("cargo", "x", "https://crates.company.example", Some("crates.company.example"));
    check("npm", "x", "no URL", None);
}

#[test]
fn a_word_that_would_run_in_place_of_the_package_is_pointed_out() {
    let value = |text: &str| json!({"type": "positional", "value": text});
    for (kind, program) in [("npm", "npx"), ("pypi", "uvx"), ("oci", "docker")] {
        let warning =
            format!("`evil` stands in front of the package, so {program} may run it in its place");
        check_warnings(kind, json!([value("evil")]), &[&warning]);
    }
    check_warnings(
        "oci",
        json!([value("--init"), value("evil/image:1")]),
        &["`evil/image:1` stands in front of the package, so docker may run it in its place"],
    );
    // What follows the package is an argument of it.
    check_warnings("nuget", json!([value("evil")]), &[]);
}

#[test]
fn an_answer_that_makes_an_option_is_pointed_out_also_where_it_is_the_default() {
    let opens = "`--privileged` opens the container to this machine";
    check_warnings(
        "oci",
        json!([{"type": "positional", "valueHint": "mode", "default": "--privileged"}]),
        &[opens],
    );
    check_warnings(
        "oci",
        json!([{"type": "positional", "value": "{mode}", "variables": {"mode": {"default": "--privileged"}}}]),
        &[opens],
    );
    check_warnings(
        "oci",
        json!([{"type": "positional", "value": "{a}privileged", "variables": {"a": {"value": "--"}}}]),
        &[opens],
    );
    check_warnings(
        "oci",
        json!([{"type": "positional", "valueHint": "mode", "choices": ["-i", "--privileged"]}]),
        &[opens],
    );
    let asked = json!({"registryType": "oci", "identifier": "x", "version": "1.0.0",
        "runtimeArguments": [{"type": "positional", "valueHint": "mode"}]});
    let draft = draft("packages", asked);
    assert_eq!(draft.warnings(), [""; 0]);
    let built = build(&draft, &[("mode", "--privileged")]).expect("it is answered");
    assert_eq!(built.warnings, [opens]);
    let built = build(&draft, &[("mode", "--init")]).expect("it is answered");
    assert_eq!(built.warnings, [""; 0]);
}

#[test]
fn questions_of_the_same_name_are_told_apart() {
    let draft = draft(
        "packages",
        json!({
            "registryType": "npm", "identifier": "x", "version": "1.0.0",
            "packageArguments": [{"type": "named", "name": "--key", "default": "a"}, {"type": "positional", "valueHint": "key"}],
            "environmentVariables": [
                {"name": "A", "value": "{t}", "variables": {"t": {"description": "T"}}},
                {"name": "B", "value": "{t}", "variables": {"t": {"description": "T"}}},
                {"name": "C", "value": "{t}", "variables": {"t": {"description": "other"}}},
            ],
        }),
    );
    let keys: Vec<&str> = draft.questions().iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, ["key", "key-2", "t", "t-2"]);
}
