//! Neovim with the plugin claudecode.nvim as the IDE. The plugin is in no package registry, so this runs only where
//! `SWB_NEOVIM_PLUGIN` names its folder; `SWB_NEOVIM` names the editor, version 0.10 or newer, if it is not `nvim`. What the
//! plugin does is also what `testkit::TestIde` does, which the other tests use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::model_service::{Reply, ReplyPart};
use testkit::{ModelService, Sandbox};

use crate::ide::{first_message, lock_folder, screen, with_model};
use crate::support::wait_for;

const INIT: &str = "vim.opt.runtimepath:prepend(vim.env.SWB_NEOVIM_PLUGIN)
require('claudecode').setup({ auto_start = true, log_level = 'warn', terminal = { provider = 'none' } })
";

/// A running editor.
struct Neovim {
    child: Child,
    program: OsString,
    socket: PathBuf,
}

impl Neovim {
    fn start(scene: &Sandbox, plugin: &OsString, file: &str) -> Neovim {
        let program = std::env::var_os("SWB_NEOVIM").unwrap_or_else(|| "nvim".into());
        scene.write("~/init.lua", INIT);
        let socket = scene.root().join("nvim.sock");
        let mut command = Command::new(&program);
        command.args(["--headless", "-u"]).arg(scene.path("~/init.lua")).arg("--listen");
        command.arg(&socket).arg(file).current_dir(scene.project());
        command.env("HOME", scene.home()).env("SWB_NEOVIM_PLUGIN", plugin);
        for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            command.env(variable, scene.home());
        }
        command.env_remove("CLAUDE_CONFIG_DIR");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("Neovim starts");
        let neovim = Neovim { child, program, socket };
        wait_for(|| std::fs::read_dir(lock_folder(scene)).is_ok_and(|mut it| it.next().is_some()));
        neovim
    }

    fn remote(&self, option: &str, text: &str) -> String {
        let mut command = Command::new(&self.program);
        command.arg("--server").arg(&self.socket).args([option, text]);
        let output = command.output().expect("Neovim runs");
        // The value of an expression is printed to either stream, depending on the version.
        let both = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&both).into_owned()
    }

    fn send(&self, keys: &str) {
        self.remote("--remote-send", keys);
    }

    /// Waits until the plugin has a client. It announces only changes.
    fn wait_for_client(&self) {
        let count = "luaeval(\"require('claudecode.server.init').get_status().client_count\")";
        wait_for(|| self.remote("--remote-expr", count).trim() == "1");
    }

    /// Waits until the buffer in front is a proposed change.
    fn wait_for_diff(&self) {
        let name = "get(b:, 'claudecode_diff_tab_name', '')";
        wait_for(|| self.remote("--remote-expr", name).contains("[Claude Code]"));
    }

    fn buffer(&self) -> String {
        self.remote("--remote-expr", "bufname()")
    }
}

impl Drop for Neovim {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _code = self.child.wait();
    }
}

fn write(id: &str, path: &str) -> Reply {
    let arguments = json!({"file_path": path, "content": "x = 1\n"});
    Reply::message([ReplyPart::tool_call(id, "mcp__workspace__Write", &arguments)])
}

#[test]
fn neovim_shares_selections_and_mentions_and_decides_about_changes() {
    let Some(plugin) = std::env::var_os("SWB_NEOVIM_PLUGIN") else { return };
    assert!(Path::new(&plugin).join("lua/claudecode").is_dir(), "SWB_NEOVIM_PLUGIN is the plugin");
    let replies = [
        write("1", "accepted.py"),
        Reply::text("First."),
        write("2", "rejected.py"),
        Reply::text("Second."),
        write("3", "answered.py"),
        Reply::text("Third."),
    ];
    let service = ModelService::start(replies).expect("it starts");
    let scene = with_model(&service);
    std::fs::write(scene.project().join("b.py"), "one\ntwo\nthree\n").expect("a file");
    let neovim = Neovim::start(&scene, &plugin, "b.py");
    let mut terminal = screen(&scene, &["--ide"]);
    neovim.wait_for_client();
    neovim.send("ggVj");
    terminal.wait_for_screen("⧉ 2 lines from b.py");
    neovim.send("<Esc>:ClaudeCodeAdd b.py 1 2<CR>");
    terminal.wait_for_screen("@b.py#L1-2");
    terminal.send_keys(" change it\r").wait_for_screen("Yes");
    let sent = first_message(&service.request_body(0));
    assert!(sent.contains("refers to the lines 1 to 2 of"), "{sent}");
    // Changed before it is accepted: what the editor holds is written, and the editor does not write it.
    neovim.wait_for_diff();
    assert!(!scene.project().join("accepted.py").exists());
    neovim.send("<Esc>Gox = 2<Esc>:ClaudeCodeDiffAccept<CR>");
    terminal.wait_for_screen("First.").wait_until_absent("working");
    assert_eq!(scene.read("accepted.py"), "x = 1\nx = 2\n");
    terminal.send_keys("again\r").wait_for_screen("Yes");
    neovim.wait_for_diff();
    neovim.send("<Esc>:ClaudeCodeDiffDeny<CR>");
    terminal.wait_for_screen("Second.").wait_until_absent("working");
    assert!(!scene.project().join("rejected.py").exists());
    // An answer in the terminal closes the diff.
    terminal.send_keys("again\r").wait_for_screen("Yes");
    neovim.wait_for_diff();
    // Keys that come before the question is on the screen do not count.
    wait_for(|| terminal.send_keys("\r").screen().contains("Third."));
    assert_eq!(scene.read("answered.py"), "x = 1\n");
    wait_for(|| !neovim.buffer().contains("[Claude Code]"));
}
