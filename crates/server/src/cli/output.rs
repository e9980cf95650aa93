//! Standard output: text, tables and JSON, with one handling of closed pipes.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use serde::Serialize;

use super::text_table;

/// Standard output.
pub struct Output {
    color: bool,
    /// Width of the terminal in columns; `None` if stdout is not a terminal.
    width: Option<usize>,
}

impl Output {
    /// Standard output; colors are used only on a terminal.
    pub fn new(color: bool) -> Output {
        let terminal = io::stdout().is_terminal();
        Output {
            color: color && terminal,
            width: comfy_table::Table::new()
                .width()
                .filter(|_| terminal)
                .map(usize::from),
        }
    }

    /// Writes bytes as they are.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(bytes).and_then(|()| out.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => ClosedPipe.into(),
            _ => error.into(),
        })
    }

    /// Writes text and a line break.
    pub fn write_line(&mut self, text: &str) -> Result<()> {
        self.write_bytes(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
    }

    /// Writes a value as indented JSON.
    pub fn write_json(&mut self, value: &impl Serialize) -> Result<()> {
        self.write_line(&serde_json::to_string_pretty(value)?)
    }

    /// Writes a table.
    pub fn write_table(&mut self, head: &[&str], rows: Vec<Vec<String>>) -> Result<()> {
        self.write_line(&text_table::table_lines(head, rows, self.width).join("\n"))
    }

    /// Wraps a text that starts after a margin of this width; the following lines are indented by the margin.
    pub fn wrap_after_margin(&self, margin: usize, text: &str) -> String {
        match self.width {
            Some(width) if width > margin => {
                let indent = format!("\n{:margin$}", "");
                text_table::wrap(text, width - margin).join(&indent)
            }
            _ => text.to_owned(),
        }
    }

    /// The text in an ANSI color, if colors are enabled.
    pub fn colorize(&self, code: u8, text: &str) -> String {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The reader of the output has closed the pipe, as in `parlor keys list | head`. This is not a failure.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the output closed the pipe")]
pub struct ClosedPipe;

/// An error with its causes. A cause that the text already contains is not repeated.
pub fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
