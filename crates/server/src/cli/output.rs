//! Standard output: text, tables and JSON, in one place so that a closed pipe is handled once.

use std::io::{self, Write};

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

/// Standard output.
pub struct Output {
    color: bool,
}

impl Output {
    /// Standard output, with or without colours.
    pub fn new(color: bool) -> Output {
        Output { color }
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(bytes).and_then(|()| out.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => ClosedPipe.into(),
            _ => error.into(),
        })
    }

    /// Writes text and ends the line.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.bytes(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
    }

    /// Writes a value as indented JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        self.line(&serde_json::to_string_pretty(value)?)
    }

    /// Writes columns without lines around them, so that it can be read by eye and by `awk`.
    pub fn table(&mut self, head: &[&str], rows: Vec<Vec<String>>) -> Result<()> {
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(head.to_vec());
        table.add_rows(rows);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        self.line(&lines.join("\n"))
    }

    /// The text in an ANSI colour, if colours are wanted.
    pub fn paint(&self, code: u8, text: &str) -> String {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The reader of our output has gone away (`parlor keys list | head`), which is its right.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the output has gone away")]
pub struct ClosedPipe;

/// An error with its causes, each said once: some errors already repeat their cause in their own text.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
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
