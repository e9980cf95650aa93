//! Comparing a table of two databases, row by row.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::rows::{self, CellRow, CopyPool};
use super::tables::CopyTable;

/// What comparing a table has shown.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TableComparison {
    /// Rows that are the same in both.
    pub equal_rows: u64,
    /// Rows that are not.
    pub different_rows: u64,
    /// The first of those, and what is wrong with them.
    pub named: Vec<String>,
}

impl TableComparison {
    /// How many differences are named.
    const MAX_EXAMPLES: usize = 10;

    fn record_difference(&mut self, table: &CopyTable, row: &CellRow, what: &str) {
        self.different_rows += 1;
        if self.named.len() < Self::MAX_EXAMPLES {
            let key: Vec<String> = row[..table.key].iter().map(ToString::to_string).collect();
            self.named
                .push(format!("{} {} {what}", table.name, key.join(" ")));
        }
    }
}

/// A walk over the rows of a table in the order of their key.
struct TableCursor<'a> {
    pool: &'a CopyPool,
    table: &'a CopyTable,
    page: u32,
    buffered_rows: VecDeque<CellRow>,
    last_key: Option<CellRow>,
    is_exhausted: bool,
}

impl<'a> TableCursor<'a> {
    fn new(pool: &'a CopyPool, table: &'a CopyTable, page: u32) -> Self {
        Self {
            pool,
            table,
            page,
            buffered_rows: VecDeque::new(),
            last_key: None,
            is_exhausted: false,
        }
    }

    /// Reads on when all that was read is used.
    async fn fetch_next_page(&mut self) -> Result<(), sqlx::Error> {
        if self.is_exhausted || !self.buffered_rows.is_empty() {
            return Ok(());
        }
        let after = self.last_key.as_deref();
        let rows = rows::fetch_page(self.pool, self.table, after, self.page).await?;
        self.is_exhausted = rows.is_empty();
        self.last_key = rows.last().map(|row| row[..self.table.key].to_vec());
        self.buffered_rows = rows.into();
        Ok(())
    }
}

/// Compares all rows; `told` hears how many more were looked at.
pub(super) async fn compare(
    source: &CopyPool,
    target: &CopyPool,
    table: &CopyTable,
    page: u32,
    mut told: impl FnMut(u64),
) -> Result<TableComparison, sqlx::Error> {
    let mut compared = TableComparison::default();
    let mut ours = TableCursor::new(source, table, page);
    let mut theirs = TableCursor::new(target, table, page);
    loop {
        ours.fetch_next_page().await?;
        theirs.fetch_next_page().await?;
        let order = match (ours.buffered_rows.front(), theirs.buffered_rows.front()) {
            (None, None) => return Ok(compared),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one[..table.key].cmp(&other[..table.key]),
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
                compared.record_difference(table, &other, "is not in the source")
            }
            (None, None) => {}
        }
        if order.is_le() {
            told(1);
        }
    }
}
