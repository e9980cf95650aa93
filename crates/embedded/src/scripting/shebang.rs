//! The first line of a Redis 7 script: `#!lua flags=no-writes`.

use crate::commands::args::to_error_text;
use crate::error::CommandError;

/// Content of a `#!` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shebang {
    /// Whether the script declares that it does not write.
    pub no_writes: bool,
}

/// Splits the `#!` line from a script. The code keeps the line end, so line numbers in errors stay correct.
pub(super) fn split_shebang(script: &[u8]) -> Result<(Option<Shebang>, &[u8]), CommandError> {
    if !script.starts_with(b"#!") {
        return Ok((None, script));
    }
    let Some(end) = script.iter().position(|&byte| byte == b'\n') else {
        return Err(CommandError::from_static("ERR Invalid script shebang"));
    };
    let line = to_error_text(&script[..end]);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "#!lua" {
        return Err(CommandError::new(format!(
            "ERR Unexpected engine in script shebang: {engine}"
        )));
    }
    let mut shebang = Shebang { no_writes: false };
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            return Err(CommandError::new(format!(
                "ERR Unknown lua shebang option: {word}"
            )));
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => shebang.no_writes = true,
                "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => {
                    return Err(CommandError::new(format!(
                        "ERR Unexpected flag in script shebang: {flag}"
                    )));
                }
            }
        }
    }
    Ok((Some(shebang), &script[end..]))
}
