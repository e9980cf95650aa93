//! Compares a table in two databases row by row.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::rows::{self, CellRow, CopyPool};
use super::tables::CopyTable;

/// Result of comparing a table.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TableComparison {
    /// Number of rows that are equal in both databases.
    pub equal_rows: u64,
    /// Number of rows that differ, or that only one of the databases has.
    pub different_rows: u64,
    /// Descriptions of the first differences.
    pub examples: Vec<String>,
}

impl TableComparison {
    /// Maximum number of described differences.
    const MAX_EXAMPLES: usize = 10;

    fn record_difference(&mut self, table: &CopyTable, row: &CellRow, what: &str) {
        self.different_rows += 1;
        if self.examples.len() < Self::MAX_EXAMPLES {
            let key: Vec<String> = row[..table.key_columns]
                .iter()
                .map(ToString::to_string)
                .collect();
            self.examples
                .push(format!("{} {} {what}", table.name, key.join(" ")));
        }
    }
}

/// Cursor over the rows of a table in the order of the primary key.
struct TableCursor<'a> {
    pool: &'a CopyPool,
    table: &'a CopyTable,
    page_size: u32,
    buffered_rows: VecDeque<CellRow>,
    last_key: Option<CellRow>,
    is_exhausted: bool,
}

impl<'a> TableCursor<'a> {
    fn new(pool: &'a CopyPool, table: &'a CopyTable, page_size: u32) -> Self {
        Self {
            pool,
            table,
            page_size,
            buffered_rows: VecDeque::new(),
            last_key: None,
            is_exhausted: false,
        }
    }

    /// Reads the next page if all buffered rows are consumed.
    async fn fetch_next_page(&mut self) -> Result<(), sqlx::Error> {
        if self.is_exhausted || !self.buffered_rows.is_empty() {
            return Ok(());
        }
        let after = self.last_key.as_deref();
        let rows = rows::fetch_page(self.pool, self.table, after, self.page_size).await?;
        self.is_exhausted = rows.is_empty();
        self.last_key = rows
            .last()
            .map(|row| row[..self.table.key_columns].to_vec());
        self.buffered_rows = rows.into();
        Ok(())
    }
}

/// Compares all rows. `on_progress` is called with the number of further rows compared.
pub(super) async fn compare(
    source: &CopyPool,
    target: &CopyPool,
    table: &CopyTable,
    page_size: u32,
    mut on_progress: impl FnMut(u64),
) -> Result<TableComparison, sqlx::Error> {
    let mut compared = TableComparison::default();
    let mut ours = TableCursor::new(source, table, page_size);
    let mut theirs = TableCursor::new(target, table, page_size);
    loop {
        ours.fetch_next_page().await?;
        theirs.fetch_next_page().await?;
        let order = match (ours.buffered_rows.front(), theirs.buffered_rows.front()) {
            (None, None) => return Ok(compared),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one[..table.key_columns].cmp(&other[..table.key_columns]),
        };
        let one = order
            .is_le()
            .then(|| ours.buffered_rows.pop_front())
            .flatten();
        let other = order
            .is_ge()
            .then(|| theirs.buffered_rows.pop_front())
            .flatten();
        match (one, other) {
            (Some(one), Some(other)) if one == other => compared.equal_rows += 1,
            (Some(one), Some(_)) => compared.record_difference(table, &one, "is different"),
            (Some(one), None) => compared.record_difference(table, &one, "is missing"),
            (None, Some(other)) => {
                compared.record_difference(table, &other, "is not in the source");
            }
            (None, None) => {}
        }
        if order.is_le() {
            on_progress(1);
        }
    }
}
