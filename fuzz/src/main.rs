//! The program of `cargo xtask fuzz`: a libFuzzer binary if it is built for that, with the target's name in an
//! environment variable. In an ordinary build it runs files through a target once, to reproduce a finding.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
mod driven {
    //! Entry points that libFuzzer calls.

    use std::sync::OnceLock;

    use swb_fuzz::Target;

    /// The environment variable that names the target. The command line belongs to libFuzzer.
    const VARIABLE: &str = "SWB_FUZZ_TARGET";

    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

    fn choose() {
        // libFuzzer's own panic hook aborts at every panic, including those that are caught.
        drop(std::panic::take_hook());
        let name = std::env::var(VARIABLE).unwrap_or_default();
        let Some(target) = swb_fuzz::target(&name) else {
            eprintln!("error: {VARIABLE} is `{name}`, which is no target");
            std::process::exit(2);
        };
        CHOSEN.get_or_init(|| target);
    }

    libfuzzer_sys::fuzz_target!(init: choose(), |bytes: &[u8]| {
        let target = CHOSEN.get().expect("libFuzzer begins with `init`");
        (target.check)(bytes);
    });
}

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    let files: Vec<std::path::PathBuf> = arguments.map(Into::into).collect();
    let (Some(target), false) = (swb_fuzz::target(&name.to_string_lossy()), files.is_empty())
    else {
        let names: Vec<&str> = swb_fuzz::TARGETS.iter().map(|target| target.name).collect();
        eprintln!("usage: swb-fuzz TARGET FILE...\ntargets: {}", names.join(", "));
        return std::process::ExitCode::from(2);
    };
    for file in files {
        match std::fs::read(&file) {
            Ok(bytes) => (target.check)(&bytes),
            Err(error) => {
                eprintln!("error: could not read `{}`\n  caused by: {error}", file.display());
                return std::process::ExitCode::FAILURE;
            }
        }
        println!("{}: {} holds", file.display(), target.name);
    }
    std::process::ExitCode::SUCCESS
}
