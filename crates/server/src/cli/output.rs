//! Standard output: text, tables and JSON, in one place so that a closed pipe is handled once.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use serde::Serialize;

use super::table;

/// Standard output.
pub struct Output {
    color: bool,
    /// The columns of the terminal; none where it is none.
    width: Option<usize>,
}

impl Output {
    /// Standard output, with or without colours where it is a terminal.
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

    /// Writes text and ends the line.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.write_bytes(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
    }

    /// Writes a value as indented JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        self.line(&serde_json::to_string_pretty(value)?)
    }

    /// Writes columns.
    pub fn write_table(&mut self, head: &[&str], rows: Vec<Vec<String>>) -> Result<()> {
        self.line(&table::lines(head, rows, self.width).join("\n"))
    }

    /// The text behind a margin of this width, in as many lines as the terminal needs.
    pub fn wrap_after_margin(&self, margin: usize, text: &str) -> String {
        match self.width {
            Some(width) if width > margin => {
                let indent = format!("\n{:margin$}", "");
                table::wrap(text, width - margin).join(&indent)
            }
            _ => text.to_owned(),
        }
    }

    /// The text in an ANSI colour, if colours are wanted.
    pub fn colorize(&self, code: u8, text: &str) -> String {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The reader of our output has gone away (`parlor keys list | head`), which is its right.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the output closed the pipe")]
pub struct ClosedPipe;

/// An error with its causes, each said once: some errors already repeat their cause in their own text.
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
