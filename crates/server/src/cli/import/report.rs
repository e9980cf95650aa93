//! Result of an import, for people and for programs.

use std::path::PathBuf;

use indicatif::HumanCount;
use parlor_chat::database::DatabaseOptions;
use parlor_chat::transfer::{FileCheck, FileFormat, LineProblem, PageCounts, RecordType};
use serde_json::{Map, Value, json};

use super::super::Output;
use super::Args;

/// Result of an import.
pub struct ImportReport {
    dry_run: bool,
    file: PathBuf,
    database: String,
    format: FileFormat,
    /// Number of records in the file.
    pub total: u64,
    /// Numbers of records that were written or unchanged.
    pub counts: PageCounts,
    /// True if an earlier run was interrupted.
    pub resumed: bool,
    /// Number of invalid lines.
    pub problem_count: u64,
    problems: Vec<String>,
}

impl ImportReport {
    pub fn new(args: &Args, database: &DatabaseOptions, check: &FileCheck) -> Self {
        let mut counts = PageCounts::default();
        if args.dry_run || check.problems.total > 0 {
            counts.read = check.counts;
        }
        Self {
            dry_run: args.dry_run,
            file: args.file.clone(),
            database: database.url.to_string(),
            format: check.format,
            total: check.counts.total(),
            counts,
            resumed: false,
            problem_count: check.problems.total,
            problems: check
                .problems
                .first
                .iter()
                .map(ToString::to_string)
                .collect(),
        }
    }

    pub fn add_problem(&mut self, problem: &LineProblem) {
        self.problem_count += 1;
        self.problems.push(problem.to_string());
    }

    pub fn print(&self, args: &Args, output: &mut Output) -> anyhow::Result<()> {
        if args.json {
            return output.write_json(&self.to_json());
        }
        output.write_line(&format!("{} -> {}", self.file.display(), self.database))?;
        let mut rows = Vec::new();
        for (name, [read, written, unchanged]) in self.rows() {
            let numbers = [read, written, unchanged].map(|number| number.to_string());
            rows.push(std::iter::once(name.to_owned()).chain(numbers).collect());
        }
        output.write_table(&["TYPE", "READ", "WRITTEN", "UNCHANGED"], rows)?;
        for problem in &self.problems {
            output.write_line(problem)?;
        }
        output.write_line(&self.conclusion())
    }

    /// Number of records of each type: read, written, unchanged.
    fn rows(&self) -> Vec<(&'static str, [u64; 3])> {
        let types = RecordType::ALL.iter();
        let counted = types.map(|it| {
            let (read, written) = (self.counts.read.get(*it), self.counts.written.get(*it));
            let unchanged = match self.is_imported() {
                true => read - written,
                false => 0,
            };
            (it.name(), [read, written, unchanged])
        });
        counted.filter(|(_, numbers)| numbers[0] > 0).collect()
    }

    /// True if pages were written, so that the numbers describe the database.
    fn is_imported(&self) -> bool {
        !self.dry_run && (self.counts.written.total() > 0 || self.problem_count == 0)
    }

    fn conclusion(&self) -> String {
        let (problems, written) = (self.problem_count, self.counts.written.total());
        match (problems, self.dry_run) {
            (0, true) => "the file is valid; nothing was changed".to_owned(),
            (0, false) if self.resumed => {
                "imported, continuing an interrupted import; start the servers".to_owned()
            }
            (0, false) => "imported; start the servers".to_owned(),
            _ if written > 0 => format!(
                "{} records before that line were imported, and no server starts with them alone; correct the line and run the import again",
                HumanCount(written)
            ),
            _ => {
                let more = match problems.checked_sub(self.problems.len() as u64) {
                    Some(more @ 1..) => format!(" ({more} more are not listed)"),
                    _ => String::new(),
                };
                format!(
                    "{problems} problems{more}; nothing was changed: correct the lines and run the import again"
                )
            }
        }
    }

    fn to_json(&self) -> Value {
        let types = self
            .rows()
            .into_iter()
            .map(|(name, [read, written, unchanged])| {
                let counts = json!({ "read": read, "written": written, "unchanged": unchanged });
                (name.to_owned(), counts)
            });
        json!({
            "file": self.file,
            "database": self.database,
            "format": self.format,
            "types": types.collect::<Map<_, _>>(),
            "dryRun": self.dry_run,
            "resumed": self.resumed,
            "problems": self.problem_count,
            "listedProblems": self.problems,
        })
    }
}
