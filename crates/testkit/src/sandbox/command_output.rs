//! The output and exit code of a program.

/// A program's normalized output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit code; -1 if a signal killed it.
    pub code: i32,
    /// Stdout.
    pub stdout: String,
    /// Stderr.
    pub stderr: String,
}

impl CommandOutput {
    /// All of it, for snapshots.
    pub fn to_snapshot(&self) -> String {
        let mut text = format!("exit: {}\n", self.code);
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !stream.is_empty() {
                text.push_str(&format!("--- {name}\n{stream}"));
            }
        }
        text
    }

    /// Stdout of a program that succeeded.
    #[track_caller]
    pub fn expect_success(&self) -> &str {
        assert_eq!(self.code, 0, "{}", self.to_snapshot());
        &self.stdout
    }

    /// Stderr of a program that failed with this code and an empty stdout.
    #[track_caller]
    pub fn expect_failure(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.to_snapshot());
        &self.stderr
    }
}
