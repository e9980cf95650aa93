//! Tables without borders, readable for people and for `awk`.
//!
//! Invariants:
//! 1. Without a terminal, each row is one line.
//! 2. On a terminal, only the last column is wrapped. If too little width remains for it, it is printed below its row.
//!    Names are never broken.

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Table};

/// Minimum width of the last column beside the others.
const MIN_LAST_COLUMN_WIDTH: usize = 30;
/// Indentation of the last column when it is printed below its row.
const INDENT: &str = "    ";
/// Spaces between two columns.
const COLUMN_GAP: usize = 2;

/// Formats a table; `width` is the width of the terminal, `None` if there is no terminal.
pub fn table_lines(head: &[&str], rows: Vec<Vec<String>>, width: Option<usize>) -> Vec<String> {
    let table = new_table(head, rows.clone());
    let mut widths = table.column_max_content_widths();
    widths.pop();
    let before: usize = widths
        .iter()
        .map(|width| usize::from(*width) + COLUMN_GAP)
        .sum();
    match width {
        None => rendered_lines(&table),
        Some(width) if width >= before + MIN_LAST_COLUMN_WIDTH => wrap_last_column(table, width),
        Some(width) => put_last_column_below(head, rows, width),
    }
}

fn new_table(head: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.to_vec());
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, COLUMN_GAP as u16));
    }
    table
}

fn wrap_last_column(mut table: Table, width: usize) -> Vec<String> {
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX));
    let names = table.column_count().saturating_sub(1);
    for column in table.column_iter_mut().take(names) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    rendered_lines(&table)
}

fn put_last_column_below(head: &[&str], mut rows: Vec<Vec<String>>, width: usize) -> Vec<String> {
    let below: Vec<String> = rows
        .iter_mut()
        .map(|row| row.pop().unwrap_or_default())
        .collect();
    let (last, first) = head.split_last().unwrap_or((&"", &[]));
    let rows = rendered_lines(&new_table(first, rows));
    let below = std::iter::once((*last).to_owned()).chain(below);
    let mut lines = Vec::new();
    for (row, below) in rows.into_iter().zip(below) {
        lines.push(row);
        let room = width.saturating_sub(INDENT.len());
        lines.extend(
            wrap(&below, room)
                .iter()
                .map(|line| format!("{INDENT}{line}")),
        );
    }
    lines
}

fn rendered_lines(table: &Table) -> Vec<String> {
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Breaks a text between words into lines of at most this many characters; a longer word gets a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [&str; 3] = ["KEY", "TYPE", "MEANING"];

    fn rows() -> Vec<Vec<String>> {
        let row = |key: &str, what: &str| vec![key.into(), "hash".into(), what.into()];
        vec![
            row(
                "presence:user:{user}",
                "the live devices of a user; no key when there is none",
            ),
            row("a", "short"),
        ]
    }

    #[test]
    fn a_pipe_gets_one_line_per_row() {
        let lines = table_lines(&HEAD, rows(), None);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], "KEY                   TYPE  MEANING");
        assert!(lines[1].ends_with("hash  the live devices of a user; no key when there is none"));
    }

    #[test]
    fn a_terminal_wraps_the_last_column_only() {
        let lines = table_lines(&HEAD, rows(), Some(60));
        assert!(
            lines.iter().all(|line| line.chars().count() <= 60),
            "{lines:#?}"
        );
        assert!(
            lines[1].starts_with("presence:user:{user}  hash  the live"),
            "{lines:#?}"
        );
        assert_eq!(lines.len(), 4, "{lines:#?}");
    }

    #[test]
    fn a_narrow_terminal_has_the_last_column_below() {
        let lines = table_lines(&HEAD, rows(), Some(40));
        assert_eq!(
            lines,
            [
                "KEY                   TYPE",
                "    MEANING",
                "presence:user:{user}  hash",
                "    the live devices of a user; no key",
                "    when there is none",
                "a                     hash",
                "    short",
            ]
        );
    }
}
