//! Result of a migration, for people and for programs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::Output;

/// Maximum number of differences that are listed; further ones are only counted.
const MAX_LISTED_DIFFERENCES: usize = 20;

/// Counts of the keys of one capability, or of the rows of one table.
#[derive(Debug, Default, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartCounts {
    /// Found in the source.
    pub found: u64,
    /// Copied by this run; in a dry run, to be copied.
    pub copied: u64,
    /// Copied by an earlier run.
    #[serde(rename = "already")]
    pub unchanged: u64,
    /// Equal in source and target in the end.
    pub verified: u64,
}

/// Result for a store or a database.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationReport {
    /// URL of the source, without a password.
    pub from: String,
    /// URL of the target, without a password.
    pub to: String,
    /// True if the copy was complete before this run, which then only compared.
    pub complete_before: bool,
    /// Counts by capability or table.
    pub parts: BTreeMap<String, PartCounts>,
    /// Number of declared keys that are not copied because they are short-lived or describe the old store.
    #[serde(rename = "left")]
    pub skipped: u64,
    /// Number of keys that Parlor does not declare.
    #[serde(rename = "foreign")]
    pub undeclared: u64,
    /// Number of differences.
    pub different: u64,
    /// The first differences.
    pub differences: Vec<String>,
}

impl MigrationReport {
    pub fn new(from: String, to: String) -> Self {
        Self {
            from,
            to,
            ..Self::default()
        }
    }

    /// Counts of one capability or table.
    pub fn counts_of(&mut self, name: &str) -> &mut PartCounts {
        self.parts.entry(name.to_owned()).or_default()
    }

    pub fn add_difference(&mut self, difference: String) {
        self.different += 1;
        if self.differences.len() < MAX_LISTED_DIFFERENCES {
            self.differences.push(difference);
        }
    }

    /// Prints the report as a table; `unit` is the head of its first column.
    pub fn print(&self, unit: &str, output: &mut Output) -> anyhow::Result<()> {
        output.write_line(&format!("{} -> {}", self.from, self.to))?;
        let row = |name: &str, count: &PartCounts| {
            let numbers = [count.found, count.copied, count.unchanged, count.verified];
            let mut row = vec![name.to_owned()];
            row.extend(numbers.map(|number| number.to_string()));
            row
        };
        let mut all = PartCounts::default();
        let mut rows = Vec::new();
        for (name, count) in &self.parts {
            all.found += count.found;
            all.copied += count.copied;
            all.unchanged += count.unchanged;
            all.verified += count.verified;
            rows.push(row(name, count));
        }
        rows.push(row("all", &all));
        let head = [unit, "FOUND", "COPIED", "UNCHANGED", "VERIFIED"];
        output.write_table(&head, rows)?;
        if self.complete_before {
            output.write_line(
                "the copy was complete before; nothing was copied, source and target were compared",
            )?;
        }
        if self.skipped > 0 {
            let text = "not copied (short-lived keys, and keys about the old store)";
            output.write_line(&format!("{text}: {}", self.skipped))?;
        }
        if self.undeclared > 0 {
            let text = "not copied (not declared by Parlor; --all copies them)";
            output.write_line(&format!("{text}: {}", self.undeclared))?;
        }
        for difference in &self.differences {
            output.write_line(&format!("difference: {difference}"))?;
        }
        if self.different > self.differences.len() as u64 {
            output.write_line(&format!("{} differences in total", self.different))?;
        }
        output.write_line("")
    }
}
