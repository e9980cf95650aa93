//! The reference as Markdown.
//!
//! Always true: documented keys come first, by capability; internal ones stand apart so that nobody takes them for a contract.

use std::fmt::Write;

use super::{Row, rows};
use crate::keys::{Settings, SettingsError};
use crate::registry;

/// Every key and channel of the active layouts, in sections by capability.
pub fn markdown(settings: &Settings, cluster: bool) -> Result<String, SettingsError> {
    let rows = rows(settings, cluster)?;
    let mut out = String::new();
    for capability in registry::CAPABILITIES {
        let mine = |row: &&Row| row.capability == capability.name && !row.internal;
        section(&mut out, capability.title, rows.iter().filter(mine));
    }
    section(
        &mut out,
        "Internal keys and channels",
        rows.iter().filter(|row| row.internal),
    );
    Ok(out)
}

fn section<'a>(out: &mut String, title: &str, rows: impl Iterator<Item = &'a Row>) {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        push(out, format_args!("## {title}\n\n"));
        table(out, rows);
        out.push('\n');
    }
}

/// A table of rows.
pub(super) fn table<'a>(out: &mut String, rows: impl Iterator<Item = &'a Row>) {
    out.push_str("| key | type | TTL | value | meaning | source |\n|---|---|---|---|---|---|\n");
    for row in rows {
        let settings: Vec<String> = row.ttl_settings.iter().map(|name| code(name)).collect();
        let ttl = match settings.as_slice() {
            [] => row.ttl.clone(),
            names => format!("{} ({})", row.ttl, names.join(", ")),
        };
        let cells = [
            &code(&row.key),
            row.kind,
            &ttl,
            row.value,
            row.meaning,
            &row.source,
        ];
        for cell in cells {
            push(out, format_args!("| {} ", cell.replace('|', "\\|")));
        }
        out.push_str("|\n");
    }
}

/// Text as code.
pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Appends to text, which cannot fail.
pub(super) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
}
