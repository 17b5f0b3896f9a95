//! `swb completions`.

use crate::support::scene;

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = scene().swb(&["completions", shell]);
        for word in ["reset-project-choices", "add-json", "mcp-config"] {
            assert!(ran.ok().contains(word), "{shell} lacks {word}");
        }
    }
    scene().swb(&["completions", "tcsh"]).fails(2);
}

#[test]
fn bash_takes_the_script() {
    let scene = scene();
    scene.write("swb.bash", scene.swb(&["completions", "bash"]).ok());
    let status = std::process::Command::new("bash")
        .args(["-n", "swb.bash"])
        .current_dir(scene.project())
        .status();
    assert!(status.expect("bash can be run").success());
}
