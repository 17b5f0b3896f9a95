//! No token, code or secret of a login is in any output, log or file other than the login files, nor in the output of
//! `ps`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use testkit::authorization_server::AuthorizationConfig;
use testkit::{AuthorizationServer, CommandOutput, Script};

use crate::login_support::{logins, setup_with};

/// The secrets that the authorization server received.
#[derive(Debug)]
pub struct Secrets {
    pub access: BTreeSet<String>,
    pub refresh: BTreeSet<String>,
    pub others: BTreeSet<String>,
}

/// Every token, code and verifier that the authorization server received.
pub fn secrets_seen(authority: &AuthorizationServer) -> Secrets {
    let mut secrets =
        Secrets { access: BTreeSet::new(), refresh: BTreeSet::new(), others: BTreeSet::new() };
    for seen in authority.requests() {
        let bearer = seen.header("authorization").and_then(|it| it.split_once(' '));
        match bearer {
            Some(("Bearer" | "DPoP", token)) => drop(secrets.access.insert(token.to_owned())),
            Some((_, credentials)) => drop(secrets.others.insert(credentials.to_owned())),
            None => {}
        }
        let field = |name: &str| Some(seen.field(name).to_owned()).filter(|it| !it.is_empty());
        secrets.refresh.extend(field("refresh_token"));
        secrets
            .others
            .extend(["code", "code_verifier", "client_secret"].into_iter().filter_map(field));
    }
    secrets
}

/// Every file in a folder, except the login files.
fn files(folder: &Path, but: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|it| it.path()).filter(|it| it != but) {
        match path.is_dir() {
            true => found.extend(files(&path, but)),
            false => found.push(path),
        }
    }
    found
}

/// The command lines and environments of all descendants of a process.
fn process_texts(of: u32) -> Vec<String> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers: Vec<u32> =
        numbers.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect();
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
    };
    let descends = |pid: u32| {
        let mut next = Some(pid);
        std::iter::from_fn(|| {
            let this = next?;
            next = parent(this).filter(|it| *it > 1);
            Some(this)
        })
        .any(|it| it == of)
    };
    let texts = numbers.into_iter().filter(|pid| descends(*pid)).flat_map(|pid| {
        ["cmdline", "environ"]
            .map(|what| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default())
    });
    texts.map(|it| String::from_utf8_lossy(&it).into_owned()).collect()
}

#[test]
fn no_secret_of_a_login_is_printed_or_logged() {
    let oauth = r#"{"clientId": "me", "clientSecret": "${file:~/secret}"}"#;
    let charter = AuthorizationConfig {
        script: Script::modern(),
        ..AuthorizationConfig::compliant().client("me", Some("client-canary-5dd1"))
    };
    let (authority, mut scene) = setup_with(charter, oauth);
    scene.write("~/secret", "client-canary-5dd1");
    scene.set_env("SWB_LOG", "trace");
    let mut seen: Vec<(String, String)> = Vec::new();
    // Polls `/proc` while the login runs.
    let mut login = scene.command(&scene.project(), &["login", "web"]);
    let child = login.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let pid = child.id();
    while testkit::processes::is_alive(pid) {
        seen.extend(process_texts(pid).into_iter().map(|it| ("ps".to_owned(), it)));
    }
    let output = child.wait_with_output().expect("it ends");
    let ran = scene.normalized_output(output.status.code(), &output.stdout, &output.stderr);
    ran.expect_success();
    seen.push(("login".to_owned(), ran.to_snapshot()));
    authority.revoke_access_tokens();
    let commands: [&[&str]; 9] = [
        &["status", "web"],
        &["status", "web", "--json"],
        &["auth", "status"],
        &["auth", "status", "--json"],
        &["get", "web", "--json"],
        &["call", "mcp__web__echo", "text=x", "--mode", "bypass"],
        &["doctor", "web"],
        &["login", "web", "--again", "--json"],
        &["audit", "--json"],
    ];
    let mut run = |arguments: &[&str]| -> CommandOutput {
        let ran = scene.swb(arguments);
        seen.push((arguments.join(" "), ran.to_snapshot()));
        ran
    };
    for arguments in commands {
        run(arguments);
    }
    authority.end_all_logins();
    run(&["status", "web"]);
    run(&["call", "mcp__web__echo", "text=x", "--mode", "bypass"]);
    run(&["logs", "web"]);
    run(&["logout", "web", "--json"]);
    for path in files(&scene.home(), &logins(&scene)) {
        // The secret file of the entry contains the secret by design.
        if path == scene.path("~/secret") {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
        seen.push((path.display().to_string(), text));
    }
    for expected in [
        "login started",
        "login: waiting for the browser",
        "login completed",
        "credentials rejected",
        "tokens refreshed",
        "the login has ended",
        "login removed",
    ] {
        let is_logged = |(_, text): &(String, String)| text.contains(expected);
        assert!(seen.iter().any(is_logged), "{expected} is not logged");
    }
    let Secrets { access, refresh, others } = secrets_seen(&authority);
    assert!(access.len() >= 2 && !refresh.is_empty() && others.len() >= 4);
    let all: Vec<&String> = access.iter().chain(&refresh).chain(&others).collect();
    for (place, text) in &seen {
        for secret in &all {
            assert!(!text.contains(secret.as_str()), "{secret} is in {place}: {text}");
        }
    }
}

#[test]
fn only_the_owner_can_read_stored_logins() {
    use std::os::unix::fs::PermissionsExt;
    let (_authority, scene) = setup_with(AuthorizationConfig::compliant(), "{}");
    crate::login_support::log_in(&scene);
    let folder = logins(&scene);
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let kept = files(&folder, Path::new(""));
    assert!(!kept.is_empty() && kept.iter().all(|it| mode(it) == 0o600), "{kept:?}");
}
