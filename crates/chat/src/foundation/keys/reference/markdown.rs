//! The key reference as Markdown.
//!
//! Invariant: documented keys come first, by key group. Internal keys have a section of their own, because they are not
//! part of the contract, and so have planned keys, because nothing writes them.

use super::{KeyReferenceRow, reference_rows};
use crate::keys::registry;
use crate::keys::{KeySettings, KeySettingsError};

/// All keys and channels of the configured layouts, in sections by key group.
pub fn reference_markdown(
    settings: &KeySettings,
    cluster: bool,
) -> Result<String, KeySettingsError> {
    let (planned, written): (Vec<_>, Vec<_>) = reference_rows(settings, cluster)?
        .into_iter()
        .partition(|row| row.planned);
    let mut out = String::new();
    push_written_keys(&mut out, &written);
    push_section(&mut out, "Planned", planned.iter());
    Ok(out)
}

/// Appends the sections of the keys that Parlor writes.
pub fn push_written_keys(out: &mut String, rows: &[KeyReferenceRow]) {
    for group in registry::KEY_GROUPS {
        let mine = |row: &&KeyReferenceRow| row.capability == group.name && !row.internal;
        push_section(out, group.title, rows.iter().filter(mine));
    }
    let internal = rows.iter().filter(|row| row.internal);
    push_section(out, "Internal keys and channels", internal);
}

fn push_section<'a>(
    out: &mut String,
    title: &str,
    rows: impl Iterator<Item = &'a KeyReferenceRow>,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        *out += &format!("## {title}\n\n");
        push_table(out, rows);
        out.push('\n');
    }
}

/// Appends a table of rows.
pub fn push_table<'a>(out: &mut String, rows: impl Iterator<Item = &'a KeyReferenceRow>) {
    out.push_str("| key | type | TTL | value | meaning | source |\n|---|---|---|---|---|---|\n");
    for row in rows {
        let settings: Vec<String> = row
            .ttl_settings
            .iter()
            .map(|name| code_span(name))
            .collect();
        let ttl = match settings.as_slice() {
            [] => row.ttl.clone(),
            names => format!("{} ({})", row.ttl, names.join(", ")),
        };
        let cells = [
            &code_span(&row.key),
            row.kind,
            &ttl,
            row.value,
            row.meaning,
            &row.source,
        ];
        for cell in cells {
            *out += &format!("| {} ", cell.replace('|', "\\|"));
        }
        out.push_str("|\n");
    }
}

/// Formats a text as code.
pub fn code_span(text: &str) -> String {
    format!("`{text}`")
}
