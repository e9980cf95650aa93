//! Reads a file line by line.
//!
//! Invariant: a line has at most [`MAX_LINE_BYTES`], so that a file without line breaks does not fill the memory.

use std::io::{BufRead, Read};

use super::error::LineProblem;
use super::records::Record;

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// A record with the number of its line.
#[derive(Debug, Clone)]
pub struct NumberedRecord {
    /// Number of the line, from 1.
    pub line: u64,
    /// The record.
    pub record: Record,
}

/// Reads the records of a file. Empty lines are skipped.
pub struct RecordReader<R> {
    input: R,
    line: u64,
    bytes_read: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> RecordReader<R> {
    /// Reads from the start of a file.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: 0,
            bytes_read: 0,
            buffer: Vec::new(),
        }
    }

    /// Number of bytes that were read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Number of the last line that was read.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next record; `None` at the end of the file. After a problem, the next call reads the next line.
    pub fn next_record(&mut self) -> std::io::Result<Option<Result<NumberedRecord, LineProblem>>> {
        loop {
            self.buffer.clear();
            let mut limited = (&mut self.input).take(MAX_LINE_BYTES);
            let length = limited.read_until(b'\n', &mut self.buffer)? as u64;
            if length == 0 {
                return Ok(None);
            }
            self.line += 1;
            self.bytes_read += length;
            if length == MAX_LINE_BYTES && self.buffer.last() != Some(&b'\n') {
                let text = format!(
                    "the line has more than {MAX_LINE_BYTES} bytes; put each record on a line of its own"
                );
                return Err(std::io::Error::new(
                    std::io::ErrorKind::InvalidData,
                    LineProblem::of_line(text).at(self.line).to_string(),
                ));
            }
            let Ok(text) = std::str::from_utf8(&self.buffer) else {
                return Ok(Some(Err(
                    LineProblem::of_line("the line is not UTF-8").at(self.line)
                )));
            };
            if text.trim().is_empty() {
                continue;
            }
            let line = self.line;
            let record = Record::parse(text);
            return Ok(Some(match record {
                Ok(record) => Ok(NumberedRecord { line, record }),
                Err(problem) => Err(problem.at(line)),
            }));
        }
    }

    /// Reads the next page of records, which must be valid.
    pub fn next_page(
        &mut self,
        max: usize,
    ) -> std::io::Result<Result<Vec<NumberedRecord>, LineProblem>> {
        let mut page = Vec::with_capacity(max);
        while page.len() < max {
            match self.next_record()? {
                None => break,
                Some(Ok(record)) => page.push(record),
                Some(Err(problem)) => return Ok(Err(problem)),
            }
        }
        Ok(Ok(page))
    }
}
