//! What a program that was run printed and how it ended.

/// A program's output, with everything taken out that differs from run to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit code; -1 where a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// The whole of it, for snapshots.
    pub fn to_snapshot(&self) -> String {
        let mut text = format!("exit: {}\n", self.code);
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !stream.is_empty() {
                text.push_str(&format!("--- {name}\n{stream}"));
            }
        }
        text
    }

    /// Standard output, where the program ended well.
    #[track_caller]
    pub fn expect_success(&self) -> &str {
        assert_eq!(self.code, 0, "{}", self.to_snapshot());
        &self.stdout
    }

    /// Standard error, where the program ended with this code and printed nothing else.
    #[track_caller]
    pub fn expect_failure(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.to_snapshot());
        &self.stderr
    }
}
