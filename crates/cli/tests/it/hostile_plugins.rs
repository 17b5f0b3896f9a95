//! A hostile marketplace: nothing that it contains runs, leaves its folder, reaches another machine, or stays behind.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use testkit::{CommandOutput, Sandbox};

use crate::plugin::{commit, copy_folder, expect_nothing_left, fixture, git, repository, states};
use crate::support::{json as json_of, scene};

/// No character that a terminal acts on, and no crash.
#[track_caller]
fn expect_harmless(ran: &CommandOutput) {
    let text = ran.to_snapshot();
    let is_bad = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{200b}'..='\u{200f}')
    };
    assert!(!text.contains(is_bad), "{text:?}");
    assert_ne!(ran.code, 101, "{text}");
}

/// Writes a marketplace with these plugins into `lab` of the project.
fn write_marketplace(scene: &Sandbox, plugins: Json) {
    let text = json!({"name": "lab", "owner": {"name": "M"}, "plugins": plugins}).to_string();
    scene.write("lab/.claude-plugin/marketplace.json", &text);
}

fn add(scene: &Sandbox) -> CommandOutput {
    let ran = scene.swb(&["plugin", "marketplace", "add", "./lab"]);
    expect_harmless(&ran);
    ran
}

/// Installs the plugin `p` of the marketplace, which must fail with this message and leave nothing.
#[track_caller]
fn expect_refused(scene: &Sandbox, code: i32, message: &str) {
    let ran = scene.swb(&["plugin", "install", "p@lab", "--yes"]);
    expect_harmless(&ran);
    let text = ran.expect_failure(code);
    assert!(text.contains(message), "expected {message:?} in {text}");
    expect_nothing_left(scene);
    assert_eq!(states(scene, &[]), Vec::<String>::new());
}

/// Adds a marketplace with one plugin of this source, whose installation is refused.
#[track_caller]
fn check_source(source: Json, code: i32, message: &str) {
    let scene = scene();
    write_marketplace(&scene, json!([{"name": "p", "source": source}]));
    add(&scene);
    expect_refused(&scene, code, message);
}

/// A file that hostile texts try to make.
fn canary(scene: &Sandbox) -> PathBuf {
    scene.root().join("canary")
}

#[test]
fn marketplaces_with_hostile_names_and_texts_are_refused() {
    let large = format!("{{\"name\": \"lab\", \"x\": \"{}\"}}", "x".repeat(9_000_000));
    let huge = format!("{{\"name\": \"lab\", \"x\": \"{}\"}}", "x".repeat(20_000_000));
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let named =
        |name: &str| json!({"name": name, "owner": {"name": "M"}, "plugins": []}).to_string();
    for (text, message) in [
        (named("../../x"), "its name cannot be used"),
        (named(".."), "its name cannot be used"),
        (named("l\u{430}b"), "its name cannot be used"),
        (named("lab\u{1b}[2J"), "its name cannot be used"),
        (named("lab\u{202e}"), "its name cannot be used"),
        (named(&"x".repeat(100)), "its name cannot be used"),
        // The values of options of the user's own folders are stored under it.
        (named("inline"), "its name cannot be used"),
        (named("Inline"), "its name cannot be used"),
        (large, "it is larger than 8388608 bytes"),
        (huge, "cannot be read"),
        (deep, "is not valid JSON"),
        ("\u{0}".to_owned(), "is not valid JSON"),
        ("[]".to_owned(), "it is not an object"),
        (
            json!({"name": ["lab"], "owner": {"name": 1}, "plugins": []}).to_string(),
            "`name` is missing or is not text",
        ),
        (
            json!({"name": "lab", "owner": {"name": "M"}, "plugins": {"p": 1}}).to_string(),
            "`plugins` is missing or is not a list",
        ),
    ] {
        let scene = scene();
        scene.write("lab/.claude-plugin/marketplace.json", &text);
        let ran = add(&scene);
        let shown = ran.expect_failure(3);
        assert!(shown.contains(message), "expected {message:?} in {shown}");
        let known = json_of(&scene, &["plugin", "marketplace", "list", "--json"]);
        assert_eq!(known["marketplaces"], json!([]));
    }
}

#[test]
fn entries_with_hostile_names_are_left_out_and_shown_harmlessly() {
    let scene = scene();
    let source = "./p";
    write_marketplace(
        &scene,
        json!([
            {"name": "../../etc", "source": source},
            {"name": "dem\u{43e}", "source": source},
            {"name": "p\u{1b}[2Jx", "source": source},
            {"name": "p\u{202e}x", "source": source},
            {"name": "plugin:x:y", "source": source},
            {"name": "a__b", "source": source},
            {"name": "good", "source": source, "description": "\u{1b}]0;title\u{7}\u{202e}x", "author": {"name": "\u{1b}[31m"}},
        ]),
    );
    let added = add(&scene);
    assert_eq!(
        added.expect_success().lines().next(),
        Some("Added the marketplace `lab` with 1 plugin from lab")
    );
    assert_eq!(
        added.stderr.matches("is left out: its name cannot be used").count(),
        6,
        "{}",
        added.stderr
    );
    for arguments in [
        &["plugin", "list", "--available"][..],
        &["plugin", "details", "good@lab"],
        &["plugin", "install", "../../etc@lab"],
    ] {
        expect_harmless(&scene.swb(arguments));
    }
    expect_nothing_left(&scene);
}

#[test]
fn paths_lead_out_of_neither_the_marketplace_nor_the_plugin() {
    for path in ["../outside", "./a/../../outside", "/etc", "./..", "./x\\..\\y", "./C:/x"] {
        check_source(json!(path), 3, "its path cannot be used");
    }
    check_source(json!("./nothing"), 3, "does not exist");
    // A link instead of a folder.
    let linked = scene();
    fs::create_dir_all(linked.path("~/outside/.claude-plugin")).expect("a folder");
    fs::write(linked.path("~/outside/.claude-plugin/plugin.json"), r#"{"name": "p"}"#)
        .expect("a file");
    write_marketplace(&linked, json!([{"name": "p", "source": "./p"}]));
    symlink(linked.path("~/outside"), linked.path("lab/p")).expect("a link");
    add(&linked);
    expect_refused(&linked, 3, "`./p` is a link that leads out");
    // Links in the plugin, to files that are read.
    for (manifest, message) in [
        (None, "`./.claude-plugin/plugin.json` is a link that leads out of the plugin"),
        (Some(json!("./servers.json")), "`./servers.json` is a link that leads out of the plugin"),
        (Some(json!("./x.mcpb")), "`./x.mcpb` is a link that leads out"),
        (Some(json!("../x.json")), "it contains `..`"),
        (Some(json!("/etc/x.json")), "it does not begin with `./`"),
        (Some(json!("./missing.json")), "there is no file `./missing.json`"),
        (Some(json!(7)), "`mcpServers` is not a path"),
        (Some(json!(["./servers.json", ["./x"]])), "`mcpServers` is not a path"),
    ] {
        let scene = scene();
        write_marketplace(&scene, json!([{"name": "p", "source": "./p"}]));
        scene.write("~/secret.json", r#"{"name": "p", "mcpServers": {"s": {"command": "x"}}}"#);
        fs::create_dir_all(scene.path("lab/p/.claude-plugin")).expect("a folder");
        let at = |name: &str| scene.path(&format!("lab/p/{name}"));
        match manifest {
            None => symlink(scene.path("~/secret.json"), at(".claude-plugin/plugin.json"))
                .expect("a link"),
            Some(servers) => {
                let text = json!({"name": "p", "mcpServers": servers}).to_string();
                fs::write(at(".claude-plugin/plugin.json"), text).expect("a file");
                for name in ["servers.json", "x.mcpb"] {
                    symlink(scene.path("~/secret.json"), at(name)).expect("a link");
                }
            }
        }
        add(&scene);
        expect_refused(&scene, 3, message);
    }
    // A link that appears after the installation.
    let later = scene();
    write_marketplace(&later, json!([{"name": "p", "source": "./p"}]));
    later.write("lab/p/.mcp.json", r#"{"s": {"command": "x"}}"#).write("~/secret.json", "{}");
    add(&later);
    later.swb(&["plugin", "install", "p@lab", "--yes"]).expect_success();
    fs::remove_file(later.path("lab/p/.mcp.json")).expect("it is removed");
    symlink(later.path("~/secret.json"), later.path("lab/p/.mcp.json")).expect("a link");
    assert_eq!(states(&later, &[]), Vec::<String>::new());
    let listed = later.swb(&["list"]);
    assert!(
        listed.stderr.contains("`./.mcp.json` is a link that leads out of the plugin"),
        "{}",
        listed.to_snapshot()
    );
}

#[test]
fn no_text_of_a_marketplace_is_an_option_of_git_or_runs_a_command() {
    let scene = scene();
    let touch = format!("touch {}", canary(&scene).display());
    let refused = "its source cannot be used";
    for source in [
        json!({"source": "github", "repo": "a/b", "ref": format!("--upload-pack={touch}")}),
        json!({"source": "github", "repo": "--upload-pack=x/y"}),
        json!({"source": "url", "url": format!("ext::sh -c {touch}")}),
        json!({"source": "url", "url": format!("--upload-pack={touch}")}),
        json!({"source": "url", "url": format!("ssh://-oProxyCommand={touch}/x")}),
        json!({"source": "url", "url": "git@-oProxyCommand=x:y"}),
        json!({"source": "url", "url": "https://h/r.git", "ref": "a\nb"}),
        json!({"source": "url", "url": "https://h/r.git", "sha": "--exec=x"}),
        json!({"source": "git-subdir", "url": "https://h/r.git", "path": "../../x"}),
        json!({"source": "npm", "package": "../../x"}),
        json!({"source": "npm", "package": "x", "registry": "file:///etc"}),
        json!({"source": "archive", "url": "file:///etc/passwd"}),
        json!({"source": "archive", "url": "http://h/x.zip"}),
        json!({"source": "gopher", "url": "x"}),
        json!([]),
    ] {
        check_source(source, 3, refused);
    }
    check_source(json!({"source": "command", "command": touch}), 4, "its source is a command");
    // The same, typed by a user who was told to.
    for text in [
        format!("ext::sh -c {touch}"),
        "--upload-pack=x".to_owned(),
        "git@-oProxyCommand=x:y".to_owned(),
    ] {
        let ran = scene.swb(&["plugin", "marketplace", "add", "--", &text]);
        expect_harmless(&ran);
        ran.expect_failure(2);
    }
    assert!(!canary(&scene).exists());
}

#[test]
fn addresses_of_this_machine_and_of_private_networks_are_not_reached() {
    let (server, _) = FileServer::start(BTreeMap::new());
    for url in [
        format!("http://127.0.0.1:{}/x.zip", server.port),
        format!("https://127.0.0.1:{}/x.zip", server.port),
        "https://localhost/x.zip".to_owned(),
        "https://169.254.169.254/latest".to_owned(),
        "https://10.0.0.1/x.zip".to_owned(),
        "https://[::1]/x.zip".to_owned(),
    ] {
        check_source(json!({"source": "archive", "url": url}), 4, "it points to a private address");
    }
    // A marketplace in a folder is trusted with repositories of this machine, and with no others of the network.
    for url in [
        "https://10.0.0.1/r.git",
        "git@192.168.1.1:r.git",
        "ssh://git@169.254.169.254/r.git",
        "ssh://git@[fd00::1]/r.git",
    ] {
        let source = json!({"source": "url", "url": url});
        check_source(source, 4, "it points to a private address");
    }
    // One from elsewhere is not even trusted with those.
    for url in ["https://127.0.0.1:9/r.git", "ssh://git@[::1]/r.git", "file:///etc"] {
        let (scene, server) = at_url(BTreeMap::new(), &json!({"source": "url", "url": url}));
        expect_refused(&scene, 4, "may not name a repository of this machine");
        assert_eq!(server.requests(), ["/marketplace.json"], "{url}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn a_repository_brings_no_hook_no_filter_no_submodule_and_no_link_out() {
    let scene = scene();
    let touch = format!("#!/bin/sh\ntouch '{}'\ncat\n", canary(&scene).display());
    let script = scene.path("~/evil.sh");
    fs::write(&script, &touch).expect("a file");
    assert!(Command::new("chmod").arg("+x").arg(&script).status().expect("chmod starts").success());
    // The user's own settings of git, which a repository could use.
    fs::create_dir_all(scene.path("~/hooks")).expect("a folder");
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        fs::copy(&script, scene.path(&format!("~/hooks/{hook}"))).expect("a hook");
    }
    let inner = scene.path("~/inner");
    fs::create_dir_all(&inner).expect("a folder");
    let inner_url = repository(&scene, &inner);
    let repo = scene.path("~/repo");
    copy_folder(&fixture().join("plugins/clock"), &repo);
    fs::write(repo.join(".gitattributes"), "* filter=evil\n").expect("a file");
    let modules = format!("[submodule \"m\"]\n\tpath = m\n\turl = {inner_url}\n");
    fs::write(repo.join(".gitmodules"), modules).expect("a file");
    let url = repository(&scene, &repo);
    let head = git(&scene, &inner, &["rev-parse", "HEAD"]);
    git(&scene, &repo, &["update-index", "--add", "--cacheinfo", &format!("160000,{head},m")]);
    git(&scene, &repo, &["commit", "--quiet", "--message=submodule"]);
    let settings = format!(
        "[core]\n\thooksPath = {0}/hooks\n\tfsmonitor = {0}/evil.sh\n[filter \"evil\"]\n\tsmudge = {0}/evil.sh\n\tprocess = {0}/evil.sh\n\trequired = true\n[submodule]\n\trecurse = true\n[protocol \"file\"]\n\tallow = always\n",
        scene.home().display()
    );
    fs::write(scene.path("~/.gitconfig"), settings).expect("a file");
    write_marketplace(&scene, json!([{"name": "clock", "source": {"source": "url", "url": url}}]));
    add(&scene);
    scene.swb(&["plugin", "install", "clock@lab"]).expect_success();
    assert!(!canary(&scene).exists(), "a command of the repository ran");
    let root = scene.path("~/.local/share/switchboard/installed-plugins/cache/lab/clock/0.3.0");
    assert!(root.join(".claude-plugin/plugin.json").exists());
    assert!(!root.join(".git").exists() && !root.join("m/.git").exists());
    scene.swb(&["plugin", "uninstall", "clock@lab"]).expect_success();
    fs::remove_file(scene.path("~/.gitconfig")).expect("it is removed");
    // Links that lead out, to a file and to a folder.
    for to in ["/etc/passwd", "../../../../etc"] {
        let link = repo.join("link");
        symlink(to, &link).expect("a link");
        commit(&scene, &repo);
        let failed = scene.swb(&["plugin", "install", "clock@lab"]);
        assert!(
            failed.expect_failure(3).contains("`link` is a link that leads out of the plugin"),
            "{}",
            failed.stderr
        );
        expect_nothing_left(&scene);
        fs::remove_file(link).expect("it is removed");
    }
}

/// Commits a tree whose folders all have ten times the same content, so that a few objects are a million files.
fn commit_bomb(scene: &Sandbox, repo: &Path, leaf: &str) {
    fs::write(repo.join("list"), leaf).expect("a file");
    let mut tree = git_with_list(scene, repo);
    for _ in 0..6 {
        let list: String = (0..10).map(|n| format!("040000 tree {tree}\t{n}\n")).collect();
        fs::write(repo.join("list"), list).expect("a file");
        tree = git_with_list(scene, repo);
    }
    let commit = git(scene, repo, &["commit-tree", "-m", "bomb", &tree]);
    git(scene, repo, &["update-ref", "refs/heads/main", &commit]);
}

/// Makes a tree of the file `list`.
fn git_with_list(scene: &Sandbox, repo: &Path) -> String {
    let made = Command::new("git")
        .arg("mktree")
        .current_dir(repo)
        .env("HOME", scene.home())
        .stdin(fs::File::open(repo.join("list")).expect("a file"))
        .output()
        .expect("git starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8_lossy(&made.stdout).trim().to_owned()
}

#[test]
fn a_repository_whose_few_objects_are_countless_or_huge_files_is_not_written() {
    let scene = scene();
    let repo = scene.path("~/repo");
    copy_folder(&fixture().join("plugins/clock"), &repo);
    let url = repository(&scene, &repo);
    write_marketplace(&scene, json!([{"name": "p", "source": {"source": "url", "url": url}}]));
    add(&scene);
    let empty_tree = "040000 tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\tx\n";
    fs::write(repo.join("list"), "").expect("a file");
    git_with_list(&scene, &repo);
    let blob = |name: &str, size: u64| {
        let file = fs::File::create(repo.join(name)).expect("a file");
        file.set_len(size).expect("it grows");
        let id = git(&scene, &repo, &["hash-object", "-w", name]);
        fs::remove_file(repo.join(name)).expect("it is there");
        id
    };
    let small = format!("100644 blob {}\tx\n", blob("small", 1));
    let huge = format!("100644 blob {}\tx\n", blob("huge", 100_000_000));
    for (leaf, message) in [
        (small.as_str(), "there are more than 50000 files"),
        (empty_tree, "there are more than 50000 files"),
        (&huge, "the files have more than 2147483648 bytes together"),
    ] {
        commit_bomb(&scene, &repo, leaf);
        expect_refused(&scene, 3, message);
    }
}

#[test]
fn a_commit_that_is_not_the_announced_one_is_refused() {
    let scene = scene();
    let repo = scene.path("~/repo");
    copy_folder(&fixture().join("plugins/clock"), &repo);
    let url = repository(&scene, &repo);
    let source =
        json!({"source": "url", "url": url, "sha": "0123456789012345678901234567890123456789"});
    write_marketplace(&scene, json!([{"name": "p", "source": source}]));
    add(&scene);
    expect_refused(&scene, 10, "git checkout failed");
}

/// A host of files on this machine, which notes what is requested.
struct FileServer {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

/// What a path answers.
enum Answer {
    Bytes(Vec<u8>),
    Redirect(String),
}

impl FileServer {
    fn start(answers: BTreeMap<String, Answer>) -> (FileServer, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &answers, &noted);
            }
        });
        (FileServer { port, requests }, format!("http://127.0.0.1:{port}"))
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no thread panicked").clone()
    }
}

fn answer(mut stream: TcpStream, answers: &BTreeMap<String, Answer>, noted: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
    let Some(Ok(first)) = lines.next() else { return };
    for line in lines.by_ref() {
        if line.is_ok_and(|it| it.is_empty()) {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    noted.lock().expect("no thread panicked").push(path.clone());
    let (head, body): (String, &[u8]) = match answers.get(&path) {
        Some(Answer::Bytes(bytes)) => ("200 OK".to_owned(), bytes),
        Some(Answer::Redirect(to)) => (format!("302 Found\r\nlocation: {to}"), b""),
        None => ("404 Not Found".to_owned(), b""),
    };
    let head =
        format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _reader_left = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Packs an archive with Python, whose libraries write what a careful packer would not.
fn packed(kind: &str, members: &str) -> Vec<u8> {
    let script = format!(
        "import io, sys, tarfile, zipfile\nout = io.BytesIO()\n\
         M = b'{{\"name\": \"p\", \"mcpServers\": {{\"s\": {{\"command\": \"x\"}}}}}}'\n\
         def z(members):\n    with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as f:\n        [f.writestr(n, d) for n, d in members]\n\
         def link(name, to):\n    i = tarfile.TarInfo(name); i.type = tarfile.SYMTYPE; i.linkname = to; return i\n\
         def extension(kind, size):\n    i = tarfile.TarInfo('x'); i.type = kind; return (i, bytes(size))\n\
         def t(members):\n    with tarfile.open(fileobj=out, mode='w:gz') as f:\n        for n, d in members:\n            i = n if isinstance(n, tarfile.TarInfo) else tarfile.TarInfo(n)\n            i.size = len(d); f.addfile(i, io.BytesIO(d))\n\
         {kind}({members})\nsys.stdout.buffer.write(out.getvalue())\n"
    );
    let ran = Command::new("python3").args(["-c", &script]).output().expect("python starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

fn sha256(bytes: &[u8]) -> String {
    switchboard::config::entry::sha256(bytes)
}

/// A sandbox whose marketplace is at a URL of this machine, with the plugin `p` of this source. `HOST` stands for the host.
fn at_url(mut answers: BTreeMap<String, Answer>, source: &Json) -> (Sandbox, FileServer) {
    let reserved = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = reserved.local_addr().expect("an address").port();
    let base = format!("http://127.0.0.1:{port}");
    let text = json!({"name": "lab", "owner": {"name": "M"}, "plugins": [{"name": "p", "source": source}]});
    let text = text.to_string().replace("HOST", &base);
    answers.insert("/marketplace.json".to_owned(), Answer::Bytes(text.into_bytes()));
    for answer in answers.values_mut() {
        if let Answer::Bytes(bytes) = answer
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            *bytes = text.replace("HOST", &base).into_bytes();
        }
    }
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = requests.clone();
    std::thread::spawn(move || {
        for stream in reserved.incoming().flatten() {
            answer(stream, &answers, &noted);
        }
    });
    let scene = scene();
    let added = scene.swb(&["plugin", "marketplace", "add", &format!("{base}/marketplace.json")]);
    added.expect_success();
    (scene, FileServer { port, requests })
}

fn archive_source(bytes: &[u8]) -> Json {
    json!({"source": "archive", "url": "HOST/p.zip", "sha256": sha256(bytes)})
}

fn with_archive(bytes: Vec<u8>) -> BTreeMap<String, Answer> {
    BTreeMap::from([("/p.zip".to_owned(), Answer::Bytes(bytes))])
}

#[test]
fn an_archive_must_be_the_announced_one_and_safe() {
    let good = packed("z", "[('p/.claude-plugin/plugin.json', M)]");
    let (scene, _server) = at_url(with_archive(good.clone()), &archive_source(&good));
    scene.swb(&["plugin", "install", "p@lab", "--yes"]).expect_success();
    assert_eq!(states(&scene, &[]), ["plugin:p:s plugin ready"]);
    let wrong = json!({"source": "archive", "url": "HOST/p.zip", "sha256": "0".repeat(64)});
    let (scene, _server) = at_url(with_archive(good), &wrong);
    expect_refused(&scene, 6, "the file is not the one that was announced: expected 0000");
    for (kind, members, message) in [
        ("z", "[('../../x', b'1')]", "the name `../../x` has a part `.` or `..`"),
        ("z", "[('/etc/x', b'1')]", "the name `/etc/x` is absolute"),
        ("z", "[('a\\x1b[2J', b'1')]", "has a backslash, a colon or a control character"),
        ("z", "[('bomb', bytes(200_000_000))]", "times as large as the archive"),
        ("t", "[('../x', b'1')]", "the name `../x` has a part `.` or `..`"),
        ("t", "[(link('p/l', '/etc/passwd'), b'')]", "`p/l` is a link or a special file"),
        ("t", "[('bomb', bytes(200_000_000))]", "times as large as the archive"),
        // What is in front of an entry is read, but it is no file.
        ("t", "[extension(b'L', 1_500_000)]", "the attributes of an entry are too long"),
        ("t", "[extension(b'x', 1_500_000)]", "the attributes of an entry are too long"),
        ("t", "[extension(b'g', 40_000_000)]", "times as large as the archive"),
        ("z", "[('.claude-plugin/plugin.json', b'{')]", "is not valid JSON"),
        (
            "z",
            "[('.claude-plugin/plugin.json', b'{\"name\": \"../x\"}')]",
            "its name cannot be used",
        ),
    ] {
        let bytes = packed(kind, members);
        let (scene, _server) = at_url(with_archive(bytes.clone()), &archive_source(&bytes));
        expect_refused(&scene, 3, message);
    }
}

#[test]
fn redirects_lead_to_no_private_address() {
    for to in ["http://169.254.169.254/latest", "http://10.0.0.1/x", "file:///etc/passwd"] {
        let answers = BTreeMap::from([("/p.zip".to_owned(), Answer::Redirect(to.to_owned()))]);
        let (scene, _server) = at_url(answers, &json!({"source": "archive", "url": "HOST/p.zip"}));
        expect_refused(&scene, 10, "redirects to a URL that is refused");
    }
}

#[test]
fn a_marketplace_from_elsewhere_names_no_repository_and_no_folder_of_this_machine() {
    let (scene, _server) = at_url(BTreeMap::new(), &json!({"source": "url", "url": "file:///etc"}));
    expect_refused(&scene, 4, "may not name a repository of this machine");
    let (scene, _server) = at_url(BTreeMap::new(), &json!("./p"));
    expect_refused(&scene, 3, "its source is a folder of the marketplace, which is a single file");
}

/// A registry with one package, whose file has these members.
fn registry(members: &str, integrity: Option<&str>) -> (BTreeMap<String, Answer>, Vec<u8>) {
    let file = packed("t", members);
    let computed = Command::new("python3")
        .args(["-c", "import base64, hashlib, sys; print(base64.b64encode(hashlib.sha512(sys.stdin.buffer.read()).digest()).decode())"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            child.stdin.take().expect("an input").write_all(&file)?;
            child.wait_with_output()
        })
        .expect("python starts");
    let computed = format!("sha512-{}", String::from_utf8_lossy(&computed.stdout).trim());
    let integrity = integrity.map_or(computed, str::to_owned);
    let about = json!({
        "name": "@acme/p",
        "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": {"dist": {"tarball": "HOST/p.tgz", "integrity": integrity}}},
    });
    let answers = BTreeMap::from([
        ("/@acme%2Fp".to_owned(), Answer::Bytes(about.to_string().into_bytes())),
        ("/p.tgz".to_owned(), Answer::Bytes(file.clone())),
    ]);
    (answers, file)
}

/// The sandbox of a marketplace whose plugin is the package, and whose registry is the same host.
fn with_registry(members: &str, integrity: Option<&str>) -> (Sandbox, FileServer) {
    let (answers, _) = registry(members, integrity);
    let source = json!({"source": "npm", "package": "@acme/p", "version": "^1.0.0"});
    let (mut scene, server) = at_url(answers, &source);
    scene.set_env("NPM_CONFIG_REGISTRY", &format!("http://127.0.0.1:{}/", server.port));
    (scene, server)
}

#[test]
fn an_npm_package_runs_no_script_and_must_be_the_announced_one() {
    let manifest = "('package/.claude-plugin/plugin.json', M)";
    let scripts = "('package/package.json', b'{\"scripts\": {\"preinstall\": \"touch /canary\", \"postinstall\": \"touch canary\"}}')";
    let (scene, server) = with_registry(&format!("[{manifest}, {scripts}]"), None);
    scene.swb(&["plugin", "install", "p@lab", "--yes"]).expect_success();
    assert_eq!(states(&scene, &[]), ["plugin:p:s plugin ready"]);
    assert_eq!(server.requests()[1..], ["/@acme%2Fp", "/p.tgz"]);
    let root = scene.path("~/.local/share/switchboard/installed-plugins/cache/lab/p/1.0.0");
    assert!(root.join("package.json").exists() && !root.join("canary").exists());
    let wrong = format!("sha512-{}==", "A".repeat(86));
    for (members, integrity, message) in [
        (manifest, Some(wrong.as_str()), "not the one that the registry announced"),
        (manifest, Some("sha1-x"), "announces no SHA-512"),
        ("('package/../../x', b'1')", None, "the name `package/../../x` has a part `.` or `..`"),
        ("(link('package/l', '/etc/passwd'), b'')", None, "is a link or a special file"),
    ] {
        let (scene, _server) = with_registry(&format!("[{members}]"), integrity);
        expect_refused(&scene, 3, message);
    }
}

#[test]
fn hostile_servers_of_a_plugin_are_shown_harmlessly_and_never_resolve_a_secret() {
    let scene = scene();
    scene.write("~/secret", "hunter2");
    write_marketplace(&scene, json!([{"name": "p", "source": "./p"}]));
    let servers = json!({
        "s\u{1b}[2J": {"command": "x"},
        "plugin_x_y": {"command": "x"},
        "a__b": {"command": "x"},
        "secret": {"command": "x", "args": ["${file:~/secret}"]},
        "shell": {"command": "x", "env": {"LD_PRELOAD": "y", "T": "${cmd:touch canary}"}},
        "helper": {"type": "http", "url": "https://h/", "headersHelper": "echo ${user_config.k}"},
        "typed": {"command": ["x"]},
        "sdk": {"type": "sdk", "name": "x"},
        "fine": {"command": "x", "args": ["\u{1b}[2J", "\u{202e}txt"], "description": "\u{1b}]0;x\u{7}"},
        // An installed bundle, with variables that the author of the plugin wrote.
        "bundle": {"bundle": format!("sha256:{}", "0".repeat(64)), "env": {"T": "${file:~/secret}", "U": "${cmd:touch canary}"}},
    });
    let text = json!({"name": "p", "mcpServers": servers, "userConfig": {"k": {"type": "string", "title": "\u{1b}[2J", "description": "d"}}});
    scene.write("lab/p/.claude-plugin/plugin.json", &text.to_string());
    add(&scene);
    let installed = scene.swb(&["plugin", "install", "p@lab"]);
    expect_harmless(&installed);
    installed.expect_success();
    for arguments in [
        &["list"][..],
        &["list", "--all", "--json"],
        &["get", "plugin:p:fine"],
        &["get", "plugin:p:shell"],
        &["doctor"],
        &["plugin", "details", "p@lab"],
        &["plugin", "list"],
        &["plugin", "configure", "p@lab"],
        &["plugin", "validate", "lab/p"],
        &["approve", "--all"],
    ] {
        let ran = scene.swb(arguments);
        expect_harmless(&ran);
        assert!(!ran.to_snapshot().contains("hunter2"), "{arguments:?}");
    }
    let states = states(&scene, &[]);
    let invalid = states.iter().filter(|it| it.ends_with("invalid")).count();
    assert_eq!(invalid, states.len() - 2, "{states:?}");
    assert!(states.contains(&"plugin:p:fine plugin ready".to_owned()), "{states:?}");
    assert!(!Path::new("canary").exists() && !scene.path("canary").exists());
}
