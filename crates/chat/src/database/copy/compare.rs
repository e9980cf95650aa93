//! Comparing a table of two databases, row by row.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::rows::{self, Pool, Row};
use super::tables::Table;

/// What comparing a table has shown.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Rows that are the same in both.
    pub same: u64,
    /// Rows that are not.
    pub different: u64,
    /// The first of those, and what is wrong with them.
    pub named: Vec<String>,
}

impl Compared {
    /// How many differences are named.
    const NAMED: usize = 10;

    fn differs(&mut self, table: &Table, row: &Row, what: &str) {
        self.different += 1;
        if self.named.len() < Self::NAMED {
            let key: Vec<String> = row[..table.key].iter().map(ToString::to_string).collect();
            self.named
                .push(format!("{} {} {what}", table.name, key.join(" ")));
        }
    }
}

/// A walk over the rows of a table in the order of their key.
struct Walk<'a> {
    pool: &'a Pool,
    table: &'a Table,
    page: u32,
    read: VecDeque<Row>,
    last: Option<Row>,
    done: bool,
}

impl<'a> Walk<'a> {
    fn new(pool: &'a Pool, table: &'a Table, page: u32) -> Self {
        Self {
            pool,
            table,
            page,
            read: VecDeque::new(),
            last: None,
            done: false,
        }
    }

    /// Reads on when all that was read is used.
    async fn fill(&mut self) -> Result<(), sqlx::Error> {
        if self.done || !self.read.is_empty() {
            return Ok(());
        }
        let after = self.last.as_deref();
        let rows = rows::page(self.pool, self.table, after, self.page).await?;
        self.done = rows.is_empty();
        self.last = rows.last().map(|row| row[..self.table.key].to_vec());
        self.read = rows.into();
        Ok(())
    }
}

/// Compares all rows; `told` hears how many more were looked at.
pub(super) async fn compare(
    source: &Pool,
    target: &Pool,
    table: &Table,
    page: u32,
    mut told: impl FnMut(u64),
) -> Result<Compared, sqlx::Error> {
    let mut compared = Compared::default();
    let mut ours = Walk::new(source, table, page);
    let mut theirs = Walk::new(target, table, page);
    loop {
        ours.fill().await?;
        theirs.fill().await?;
        let order = match (ours.read.front(), theirs.read.front()) {
            (None, None) => return Ok(compared),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one[..table.key].cmp(&other[..table.key]),
        };
        let one = order.is_le().then(|| ours.read.pop_front()).flatten();
        let other = order.is_ge().then(|| theirs.read.pop_front()).flatten();
        match (one, other) {
            (Some(one), Some(other)) if one == other => compared.same += 1,
            (Some(one), Some(_)) => compared.differs(table, &one, "is different"),
            (Some(one), None) => compared.differs(table, &one, "is missing"),
            (None, Some(other)) => compared.differs(table, &other, "is not in the source"),
            (None, None) => {}
        }
        if order.is_le() {
            told(1);
        }
    }
}
