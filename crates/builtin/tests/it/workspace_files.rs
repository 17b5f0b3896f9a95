//! The workspace server's file tools, as clients of both eras see them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use switchboard_builtin::workspace;
use switchboard_wire::protocol::era::Era;

use crate::test_client::BOTH_ERAS;
use crate::workspace_fixture::{WorkspaceFixture, png};

#[tokio::test]
async fn tools_are_listed_with_hints_and_object_schemas() {
    for era in BOTH_ERAS {
        let workspace = WorkspaceFixture::new(era).await;
        let hints = |tool: &Json| {
            let it = &tool["annotations"];
            let word = |name: &str, word: &str| match it[name] == true {
                true => format!(" {word}"),
                false => String::new(),
            };
            let words = [
                word("readOnlyHint", "reads"),
                word("destructiveHint", "destroys"),
                word("idempotentHint", "idempotent"),
                word("openWorldHint", "world"),
            ];
            format!("{}:{}", tool["name"].as_str().expect("a name"), words.concat())
        };
        let listed: Vec<String> = workspace.tools.iter().map(hints).collect();
        assert_eq!(
            listed,
            [
                "Bash: destroys world",
                "BashOutput: reads",
                "Edit: destroys",
                "Glob: reads",
                "Grep: reads",
                "KillBash: destroys idempotent",
                "LS: reads",
                "MultiEdit: destroys",
                "Read: reads",
                "Write: destroys idempotent",
            ]
        );
        let mut names = workspace::TOOLS;
        names.sort_unstable();
        assert!(listed.iter().map(|it| it.split(':').next().unwrap_or_default()).eq(names));
        for tool in &workspace.tools {
            assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
            assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
            jsonschema::validator_for(&tool["inputSchema"]).expect("a schema");
        }
        let unknown = workspace.request_error("Raed", json!({})).await; // misspelt on purpose
        assert_eq!(unknown.code, -32602);
        workspace.shut_down().await;
    }
}

#[tokio::test]
async fn a_text_is_read_by_lines() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let text: String = (1..=3000).map(|line| format!("line {line}\n")).collect();
    workspace.write("long.txt", &text);
    let read = workspace.call("Read", json!({"file_path": "long.txt"})).await;
    assert_eq!(
        (&read["startLine"], &read["lines"], &read["totalLines"], &read["nextOffset"]),
        (&json!(1), &json!(2000), &json!(3000), &json!(2001))
    );
    let part = json!({"file_path": "long.txt", "offset": 2999, "limit": 5});
    assert_eq!(
        workspace.text("Read", part.clone()).await,
        "  2999\tline 2999\n  3000\tline 3000\n"
    );
    assert_eq!(workspace.call("Read", part).await["content"], "line 2999\nline 3000");
    let beyond =
        workspace.tool_error("Read", json!({"file_path": "long.txt", "offset": 3001})).await;
    assert!(beyond.contains("has 3000 lines"), "{beyond}");
    workspace.write("wide.txt", &"é".repeat(2500));
    let wide = workspace.text("Read", json!({"file_path": "wide.txt"})).await;
    assert!(wide.ends_with("… [500 more characters]\n"), "{wide}");
    workspace.write("empty.txt", "");
    assert_eq!(
        workspace.text("Read", json!({"file_path": "empty.txt"})).await,
        "(the file is empty)\n"
    );
    workspace.write("huge.txt", &"0123456789".repeat(100).repeat(1000).replace("90", "9\n0"));
    let huge = workspace.call("Read", json!({"file_path": "huge.txt", "limit": 100_000})).await;
    assert!(huge["content"].as_str().expect("a text").len() <= 200_000);
    assert!(huge["nextOffset"].is_u64(), "{}", huge["nextOffset"]);
    workspace.shut_down().await;
}

#[tokio::test]
async fn encodings_are_detected_and_preserved() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let path = workspace.path("wide.txt");
    let bytes = |text: &str| {
        let units = text.encode_utf16().flat_map(u16::to_le_bytes);
        [0xff, 0xfe].into_iter().chain(units).collect::<Vec<u8>>()
    };
    fs::write(&path, bytes("año\r\nzwei\r\n")).expect("it is written");
    let read = workspace.call("Read", json!({"file_path": "wide.txt"})).await;
    assert_eq!(
        (&read["encoding"], &read["lineEnds"], &read["content"]),
        (&json!("utf-16le"), &json!("crlf"), &json!("año\nzwei"))
    );
    let edit = json!({"file_path": "wide.txt", "old_string": "o\nzw", "new_string": "o\n€\nzw"});
    workspace.call("Edit", edit).await;
    assert_eq!(fs::read(&path).expect("it is there"), bytes("año\r\n€\r\nzwei\r\n"));
    workspace.call("Write", json!({"file_path": "wide.txt", "content": "neu\nalt\n"})).await;
    assert_eq!(fs::read(&path).expect("it is there"), bytes("neu\r\nalt\r\n"));

    fs::write(workspace.path("latin.txt"), b"cup\xe9\n").expect("it is written");
    let latin = workspace.call("Read", json!({"file_path": "latin.txt"})).await;
    assert_eq!((&latin["encoding"], &latin["content"]), (&json!("unknown"), &json!("cup\u{fffd}")));
    let edit = json!({"file_path": "latin.txt", "old_string": "cup", "new_string": "x"});
    assert!(workspace.tool_error("Edit", edit).await.contains("not valid UTF-8"));
    assert_eq!(fs::read(workspace.path("latin.txt")).expect("it is there"), b"cup\xe9\n");
    fs::write(workspace.path("binary"), b"\x7fELF\0\0").expect("it is written");
    let binary = workspace.tool_error("Read", json!({"file_path": "binary"})).await;
    assert!(binary.contains("it is binary (6 bytes)"), "{binary}");
    workspace.shut_down().await;
}

/// The most memory that this process has used so far, in MB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

#[tokio::test]
async fn many_large_pictures_at_once_share_one_memory_budget() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    // Decoded they take 75 MB each, 1200 MB together.
    fs::write(workspace.path("large.png"), png(5000, 5000)).expect("it is written");
    let before = peak_memory();
    let reads = (0..16).map(|_| workspace.call("Read", json!({"file_path": "large.png"})));
    let results = futures_util::future::join_all(reads).await;
    assert!(results.iter().all(|it| it["width"] == 1568), "{results:?}");
    let grown = peak_memory() - before;
    assert!(grown < 600, "{grown} MB");
    workspace.shut_down().await;
}

#[tokio::test]
async fn pictures_and_notebooks_are_shown() {
    let workspace = WorkspaceFixture::new(Era::Legacy).await;
    let picture = png(40, 30);
    // The content decides the format, not the name.
    fs::write(workspace.path("picture.txt"), &picture).expect("it is written");
    let result = workspace.result("Read", json!({"file_path": "picture.txt"})).await;
    assert_eq!(result["structuredContent"]["width"], 40, "{result}");
    assert_eq!(result["content"][1]["mimeType"], "image/png");
    let encoded = result["content"][1]["data"].as_str().expect("data").to_owned();
    let notebook = json!({
        "metadata": {"language_info": {"name": "python"}},
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "words"]},
            {"cell_type": "code", "source": "1 + 1", "outputs": [
                {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
                {"output_type": "display_data", "data": {"image/png": encoded}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no"},
            ]},
        ],
    });
    workspace.write("it.ipynb", &notebook.to_string());
    let result = workspace.result("Read", json!({"file_path": "it.ipynb"})).await;
    assert_eq!(
        result["content"][0]["text"],
        "[cell 1, markdown]\n# Title\nwords\n[cell 2, python]\n1 + 1\n[output]\n2\n[picture 1]\n[output]\nValueError: no\n"
    );
    assert_eq!(result["content"][1]["type"], "image");
    workspace.write("broken.ipynb", "{ not JSON");
    let broken = workspace.call("Read", json!({"file_path": "broken.ipynb"})).await;
    assert_eq!((&broken["kind"], &broken["content"]), (&json!("text"), &json!("{ not JSON")));
    workspace.shut_down().await;
}

#[tokio::test]
async fn a_file_is_edited_only_as_it_was_read() {
    for era in BOTH_ERAS {
        let workspace = WorkspaceFixture::new(era).await;
        workspace.write("a.txt", "one\ntwo\nthree\n");
        let edit = |old: &str, new: &str| json!({"file_path": "a.txt", "old_string": old, "new_string": new});
        let unread = workspace.tool_error("Edit", edit("two", "2")).await;
        assert!(unread.contains("Read it first"), "{unread}");
        workspace.call("Read", json!({"file_path": "a.txt"})).await;
        let edited = workspace.call("Edit", edit("two", "2")).await;
        assert_eq!((&edited["replacements"], &edited["line"]), (&json!(1), &json!(2)));
        assert_eq!(edited["snippet"], "     1\tone\n     2\t2\n     3\tthree\n");
        // Our own changes are known.
        workspace.call("Edit", edit("2", "zwei")).await;
        // Changes by others are detected, even with the same time and size.
        let before =
            fs::metadata(workspace.path("a.txt")).expect("it is there").modified().expect("a time");
        workspace.write("a.txt", "one\nzwei\nthrEE\n");
        let file = fs::File::options().write(true).open(workspace.path("a.txt")).expect("it opens");
        file.set_modified(before).expect("it can be set");
        let changed = workspace.tool_error("Edit", edit("zwei", "2")).await;
        assert!(changed.contains("has changed since it was read"), "{changed}");
        let write = json!({"file_path": "a.txt", "content": "mine"});
        assert!(
            workspace.tool_error("Write", write).await.contains("has changed since it was read")
        );
        assert_eq!(workspace.read("a.txt"), "one\nzwei\nthrEE\n");
        // A changed modification time alone does not matter.
        workspace.call("Read", json!({"file_path": "a.txt"})).await;
        file.set_modified(std::time::SystemTime::now()).expect("it can be set");
        workspace.call("Edit", edit("zwei", "2")).await;
        assert_eq!(workspace.read("a.txt"), "one\n2\nthrEE\n");
        workspace.shut_down().await;
    }
}

#[tokio::test]
async fn a_failed_edit_says_what_to_do() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    workspace.write("a.rs", "fn main() {\n    go();\n    go();\n}\n");
    workspace.call("Read", json!({"file_path": "a.rs"})).await;
    let edit =
        |old: &str, new: &str| json!({"file_path": "a.rs", "old_string": old, "new_string": new});
    let twice = workspace.tool_error("Edit", edit("go();", "stop();")).await;
    assert!(twice.contains("found 2 times (lines 2, 3)"), "{twice}");
    let absent = workspace.tool_error("Edit", edit("fn mian() {", "x")).await; // misspelt on purpose
    assert!(absent.contains("line 1 is like it:\nfn main() {"), "{absent}");
    let blanks = workspace.tool_error("Edit", edit("\tgo();\n\tgo();", "x")).await;
    assert!(blanks.contains("line 2 differs only in whitespace"), "{blanks}");
    let missing = json!({"file_path": "b.rs", "old_string": "a", "new_string": "b"});
    let missing = workspace.tool_error("Edit", missing).await;
    assert!(missing.contains("is not there; did you mean `a.rs`"), "{missing}");
    let mut all = edit("go();", "stop();");
    all["replace_all"] = json!(true);
    assert_eq!(workspace.call("Edit", all).await["replacements"], 2);
    assert_eq!(workspace.read("a.rs"), "fn main() {\n    stop();\n    stop();\n}\n");
    workspace.shut_down().await;
}

#[tokio::test]
async fn many_edits_are_made_all_or_not_at_all() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    workspace.write("a.txt", "one\ntwo\n");
    workspace.call("Read", json!({"file_path": "a.txt"})).await;
    let edits = |second: &str| {
        json!({"file_path": "a.txt", "edits": [
            {"old_string": "one", "new_string": "first"},
            {"old_string": second, "new_string": "1st"},
        ]})
    };
    let failed = workspace.tool_error("MultiEdit", edits("one")).await;
    assert!(failed.contains("is unchanged: edit 2 of 2"), "{failed}");
    assert_eq!(workspace.read("a.txt"), "one\ntwo\n");
    let done = workspace.call("MultiEdit", edits("first")).await;
    assert_eq!(
        done["edits"],
        json!([{"replacements": 1, "line": 1}, {"replacements": 1, "line": 1}])
    );
    assert_eq!(workspace.read("a.txt"), "1st\ntwo\n");
    workspace.shut_down().await;
}

#[tokio::test]
async fn a_file_is_written_new_or_after_it_was_read() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let made =
        workspace.call("Write", json!({"file_path": "deep/er/new.sh", "content": "a\nb\n"})).await;
    assert_eq!(
        (&made["created"], &made["lines"], &made["bytes"]),
        (&json!(true), &json!(2), &json!(4))
    );
    workspace.write("old.sh", "old");
    fs::set_permissions(workspace.path("old.sh"), fs::Permissions::from_mode(0o750))
        .expect("it may");
    let write = json!({"file_path": "old.sh", "content": "new"});
    assert!(workspace.tool_error("Write", write.clone()).await.contains("Read it first"));
    workspace.call("Read", json!({"file_path": "old.sh"})).await;
    assert_eq!(workspace.call("Write", write).await["created"], false);
    let mode = fs::metadata(workspace.path("old.sh")).expect("it is there").permissions().mode();
    assert_eq!((workspace.read("old.sh").as_str(), mode & 0o777), ("new", 0o750));
    let folder = workspace.tool_error("Write", json!({"file_path": "deep", "content": "x"})).await;
    assert!(folder.contains("is a folder"), "{folder}");
    workspace.shut_down().await;
}

#[tokio::test]
async fn the_hundred_and_first_file_makes_the_first_one_unread() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    for number in 0..=100 {
        let name = format!("{number}.txt");
        workspace.write(&name, "old");
        workspace.call("Read", json!({"file_path": name})).await;
    }
    let edit = |name: &str| json!({"file_path": name, "old_string": "old", "new_string": "new"});
    assert!(workspace.tool_error("Edit", edit("0.txt")).await.contains("Read it first"));
    workspace.call("Edit", edit("1.txt")).await;
    workspace.shut_down().await;
}

#[tokio::test]
async fn clients_are_isolated() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    workspace.write("a.txt", "old");
    workspace.call("Read", json!({"file_path": "a.txt"})).await;
    let other = workspace.second_client(Era::Legacy).await;
    let edit = json!({"file_path": "a.txt", "old_string": "old", "new_string": "new"});
    assert!(other.tool_error("Edit", edit.clone()).await.contains("Read it first"));
    workspace.call("Edit", edit).await;
    other.shut_down().await;
    workspace.shut_down().await;
}

#[tokio::test]
async fn nothing_outside_is_read_written_listed_or_searched() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let outside = workspace.home().join("outside");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("secret.txt"), "secret").expect("it is written");
    symlink(&outside, workspace.path("way-out")).expect("a link");
    symlink(outside.join("secret.txt"), workspace.path("leak.txt")).expect("a link");
    let absolute = outside.join("secret.txt").display().to_string();
    for path in [&absolute, "../outside/secret.txt", "way-out/secret.txt", "leak.txt"] {
        let read = workspace.tool_error("Read", json!({"file_path": path})).await;
        assert!(read.contains("outside of the allowed folders"), "{read}");
        let write = workspace.tool_error("Write", json!({"file_path": path, "content": "x"})).await;
        assert!(write.contains("outside"), "{write}");
        let edit = json!({"file_path": path, "old_string": "secret", "new_string": "x"});
        assert!(workspace.tool_error("Edit", edit).await.contains("outside"));
        let grep = json!({"pattern": "secret", "path": path});
        assert!(workspace.tool_error("Grep", grep).await.contains("outside"));
    }
    let new = workspace
        .tool_error("Write", json!({"file_path": "way-out/new.txt", "content": "x"}))
        .await;
    assert!(new.contains("outside"), "{new}");
    for path in ["way-out", "..", "/"] {
        assert!(workspace.tool_error("LS", json!({"path": path})).await.contains("outside"));
        let glob = json!({"pattern": "**", "path": path});
        assert!(workspace.tool_error("Glob", glob).await.contains("outside"));
    }
    // Links are listed and not followed.
    assert_eq!(workspace.call("Glob", json!({"pattern": "**/*.txt"})).await["files"], json!([]));
    let grep = workspace.call("Grep", json!({"pattern": "secret"})).await;
    assert_eq!(grep["files"], json!([]));
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 1);
    workspace.shut_down().await;
}

#[tokio::test]
async fn a_pipe_is_refused_at_once() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let made = std::process::Command::new("mkfifo").arg(workspace.path("pipe")).status();
    assert!(made.expect("mkfifo is there").success());
    let refused = workspace.tool_error("Read", json!({"file_path": "pipe"})).await;
    assert!(refused.contains("a device, a pipe or a socket"), "{refused}");
    workspace.shut_down().await;
}

#[tokio::test]
async fn files_are_found_newest_first_and_without_what_is_ignored() {
    let workspace = WorkspaceFixture::new(Era::Legacy).await;
    for (name, age) in
        [("src/old.rs", 300), ("src/deep/new.rs", 100), ("middle.rs", 200), ("skipped/it.rs", 1)]
    {
        workspace.write(name, "x");
        let file = fs::File::options().write(true).open(workspace.path(name)).expect("it opens");
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        file.set_modified(time).expect("it can be set");
    }
    workspace.write(".gitignore", "skipped\n");
    workspace.write(".git/config.rs", "x");
    workspace.write(".hidden/it.rs", "x");
    let names = |result: &Json, workspace: &WorkspaceFixture| -> Vec<String> {
        let files = result["files"].as_array().expect("files").iter();
        let root = workspace.root();
        let short = |it: &Json| {
            let path = PathBuf::from(it.as_str().expect("a path"));
            path.strip_prefix(&root).expect("inside").display().to_string()
        };
        files.map(short).collect()
    };
    let all = workspace.call("Glob", json!({"pattern": "**/*.rs"})).await;
    assert_eq!(
        names(&all, &workspace),
        [".hidden/it.rs", "src/deep/new.rs", "middle.rs", "src/old.rs"]
    );
    let cut = workspace.call("Glob", json!({"pattern": "**/*.rs", "limit": 1})).await;
    assert_eq!((&cut["total"], &cut["truncated"]), (&json!(4), &json!(true)));
    let here = workspace.call("Glob", json!({"pattern": "*.rs"})).await;
    assert_eq!(names(&here, &workspace), ["middle.rs"]);
    let below = workspace.call("Glob", json!({"pattern": "{deep,other}/*", "path": "src"})).await;
    assert_eq!(names(&below, &workspace), ["src/deep/new.rs"]);
    let absolute = workspace.root().join("src/*.rs").display().to_string();
    assert_eq!(
        names(&workspace.call("Glob", json!({"pattern": absolute})).await, &workspace),
        ["src/old.rs"]
    );
    let ignored =
        workspace.call("Glob", json!({"pattern": "skipped/*", "include_ignored": true})).await;
    assert_eq!(names(&ignored, &workspace), ["skipped/it.rs"]);
    assert!(workspace.tool_error("Glob", json!({"pattern": "{a"})).await.contains("invalid "));
    workspace.shut_down().await;
}

fn relative(text: &str, root: &Path) -> String {
    text.replace(&format!("{}/", root.display()), "")
}

#[tokio::test]
async fn files_are_searched_as_ripgrep_does() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    workspace.write("a.rs", "fn one() {}\nlet x = 1;\nfn two() {}\n");
    workspace.write("b.py", "def one():\n    pass\r\n");
    workspace.write("skipped.log", "fn log\n");
    workspace.write(".ignore", "*.log\n");
    fs::write(workspace.path("binary.rs"), b"fn \0 binary").expect("it is written");
    let root = workspace.root();
    let grep = async |arguments: Json| relative(&workspace.text("Grep", arguments).await, &root);
    assert_eq!(grep(json!({"pattern": "fn \\w+"})).await, "a.rs\n");
    assert_eq!(
        grep(json!({"pattern": "fn \\w+", "output_mode": "content"})).await,
        "a.rs:1:fn one() {}\na.rs:3:fn two() {}\n"
    );
    assert_eq!(
        grep(json!({"pattern": "two", "output_mode": "content", "before": 1})).await,
        "a.rs-2-let x = 1;\na.rs:3:fn two() {}\n"
    );
    assert_eq!(grep(json!({"pattern": "fn", "output_mode": "count"})).await, "a.rs:2\n");
    assert_eq!(
        grep(json!({"pattern": "ONE", "ignore_case": true, "glob": "*.py"})).await,
        "b.py\n"
    );
    assert_eq!(grep(json!({"pattern": "one", "type": "rust"})).await, "a.rs\n");
    assert_eq!(
        grep(json!({"pattern": "pass$", "output_mode": "content"})).await,
        "b.py:2:    pass\n"
    );
    assert_eq!(
        grep(json!({"pattern": "one.*two", "multiline": true, "output_mode": "content"})).await,
        "a.rs:1:fn one() {}\na.rs:2:let x = 1;\na.rs:3:fn two() {}\n"
    );
    assert_eq!(grep(json!({"pattern": "one.*two"})).await, "no matches\n");
    let cut = workspace
        .call("Grep", json!({"pattern": "fn", "output_mode": "content", "head_limit": 1}))
        .await;
    assert_eq!((cut["lines"].as_array().map(Vec::len), &cut["truncated"]), (Some(1), &json!(true)));
    assert_eq!(
        grep(json!({"pattern": "fn", "include_ignored": true, "glob": "*.log"})).await,
        "skipped.log\n"
    );
    assert_eq!(grep(json!({"pattern": "two", "path": "a.rs"})).await, "a.rs\n");
    let odd = workspace.tool_error("Grep", json!({"pattern": "x", "type": "pyhton"})).await; // misspelt on purpose
    assert!(odd.contains("did you mean `python`"), "{odd}");
    assert!(workspace.tool_error("Grep", json!({"pattern": "("})).await.contains("invalid "));
    workspace.shut_down().await;
}

#[tokio::test]
async fn a_folder_is_listed() {
    let workspace = WorkspaceFixture::new(Era::Legacy).await;
    workspace.write("b.txt", "12345");
    workspace.write("sub/x", "");
    workspace.write("a.log", "");
    symlink("b.txt", workspace.path("link")).expect("a link");
    let listed = workspace.call("LS", json!({"ignore": ["*.log"]})).await;
    assert_eq!(
        listed["entries"],
        json!([
            {"name": "sub", "kind": "folder"},
            {"name": "b.txt", "kind": "file", "size": 5},
            {"name": "link", "kind": "link"},
        ])
    );
    assert!(workspace.tool_error("LS", json!({"path": "b.txt"})).await.contains("is a file"));
    workspace.shut_down().await;
}

#[tokio::test]
async fn the_review_prompt_names_its_target() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let prompt =
        workspace.prompt("review", json!({"target": "main..topic", "focus": "locking"})).await;
    assert!(
        prompt.contains("main..topic") && prompt.contains("Above all, look at: locking"),
        "{prompt}"
    );
    let usual = workspace.prompt("review", json!({})).await;
    assert!(usual.contains("not committed yet"), "{usual}");
    workspace.shut_down().await;
}

#[tokio::test]
async fn the_clients_roots_replace_ours_if_allowed() {
    for era in BOTH_ERAS {
        let workspace = WorkspaceFixture::with_roots(era).await;
        let theirs = workspace.home().join("theirs");
        fs::write(theirs.join("a.txt"), "theirs").expect("it is written");
        workspace.write("a.txt", "ours");
        let read = workspace.call("Read", json!({"file_path": "a.txt"})).await;
        assert_eq!(read["content"], "theirs", "{era:?}");
        let ours = workspace.root().join("a.txt").display().to_string();
        assert!(workspace.tool_error("Read", json!({"file_path": ours})).await.contains("outside"));
        workspace.shut_down().await;
    }
}
