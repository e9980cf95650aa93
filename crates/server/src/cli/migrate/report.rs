//! What a move has done, for people and for programs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::Output;

/// Differences that are named; the rest is counted.
const MAX_LISTED_DIFFERENCES: usize = 20;

/// What became of one capability's keys, or of one table's rows.
#[derive(Debug, Default, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// In the source.
    pub found: u64,
    /// Copied by this run, or to be copied.
    pub copied: u64,
    /// Copied before.
    pub already: u64,
    /// The same on both sides in the end.
    pub verified: u64,
}

/// What became of a store or a database.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationReport {
    /// From where, without a password.
    pub from: String,
    /// To where.
    pub to: String,
    /// Whether it was complete before this run, which then only compared.
    pub complete_before: bool,
    /// By capability or table.
    pub parts: BTreeMap<String, Count>,
    /// Parlor's keys that are not copied, because they are about a moment or about the old store.
    pub left: u64,
    /// Keys that are not Parlor's.
    #[serde(rename = "foreign")]
    pub undeclared: u64,
    /// How many differ.
    pub different: u64,
    /// The first of those.
    pub differences: Vec<String>,
}

impl MigrationReport {
    /// One of a move that has not begun.
    pub fn new(from: String, to: String) -> Self {
        Self {
            from,
            to,
            ..Self::default()
        }
    }

    /// The counts of one part.
    pub fn part(&mut self, name: &str) -> &mut Count {
        self.parts.entry(name.to_owned()).or_default()
    }

    /// Something is not as it should be.
    pub fn differs(&mut self, what: String) {
        self.different += 1;
        if self.differences.len() < MAX_LISTED_DIFFERENCES {
            self.differences.push(what);
        }
    }

    /// Prints it as a table of keys or rows.
    pub fn print(&self, unit: &str, output: &mut Output) -> anyhow::Result<()> {
        output.line(&format!("{} -> {}", self.from, self.to))?;
        let row = |name: &str, count: &Count| {
            let numbers = [count.found, count.copied, count.already, count.verified];
            let mut row = vec![name.to_owned()];
            row.extend(numbers.map(|number| number.to_string()));
            row
        };
        let mut all = Count::default();
        let mut rows = Vec::new();
        for (name, count) in &self.parts {
            all.found += count.found;
            all.copied += count.copied;
            all.already += count.already;
            all.verified += count.verified;
            rows.push(row(name, count));
        }
        rows.push(row("all", &all));
        let head = [unit, "FOUND", "COPIED", "UNCHANGED", "VERIFIED"];
        output.write_table(&head, rows)?;
        if self.complete_before {
            output.line(
                "the copy was complete before; nothing was copied, source and target were compared",
            )?;
        }
        if self.left > 0 {
            let text = "not copied (short-lived keys, and keys about the old store)";
            output.line(&format!("{text}: {}", self.left))?;
        }
        if self.undeclared > 0 {
            let text = "not copied (not declared by Parlor; --all copies them)";
            output.line(&format!("{text}: {}", self.undeclared))?;
        }
        for difference in &self.differences {
            output.line(&format!("difference: {difference}"))?;
        }
        if self.different > self.differences.len() as u64 {
            output.line(&format!("{} differences in total", self.different))?;
        }
        output.line("")
    }
}
