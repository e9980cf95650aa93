//! Commands of a page, and the comparison of their output with the text.

use std::path::{Path, PathBuf};

/// A command of a page with its documented output.
pub struct Step {
    pub place: String,
    pub command: String,
    pub expected: Vec<String>,
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Line that ends the input of a command with `<<'END'`.
const END_OF_INPUT: &str = "END";

/// True if the next line belongs to the command.
fn continues(command: &str) -> bool {
    let has_input = command.contains("<<'END'");
    command.ends_with('\\') || (has_input && !command.ends_with(&format!("\n{END_OF_INPUT}")))
}

/// The commands in the code blocks of a page.
pub fn steps(page: &str) -> Vec<Step> {
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let mut steps: Vec<Step> = Vec::new();
    let (mut in_block, mut has_command, mut in_command) = (false, false, false);
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            (in_block, has_command, in_command) = (!in_block, false, false);
            continue;
        }
        match (steps.last_mut(), line.strip_prefix("$ ")) {
            (Some(step), _) if in_command => {
                step.command += &format!("\n{line}");
                in_command = continues(&step.command);
            }
            (_, Some(command)) if in_block => {
                has_command = true;
                in_command = continues(command);
                steps.push(Step {
                    place: format!("{page}:{}", number + 1),
                    command: command.to_owned(),
                    expected: Vec::new(),
                });
            }
            (Some(step), None) if has_command => step.expected.push(line.to_owned()),
            _ => {}
        }
    }
    steps
}

/// Text without what differs from run to run: long numbers, ids, addresses, and the width of columns.
fn masked(text: &str) -> String {
    let mut result = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        let word = match word.trim_end() {
            "" => continue,
            address if address.contains("://") || address.starts_with("sqlite:") => "ADDRESS",
            word => word,
        };
        let mut digits = String::new();
        for c in word.chars().chain([' ']) {
            if c.is_ascii_hexdigit() && (c.is_ascii_digit() || !digits.is_empty()) {
                digits.push(c);
                continue;
            }
            result += match digits.len() {
                4.. => "#",
                _ => &digits,
            };
            digits.clear();
            result.push(c);
        }
    }
    result
}

/// True for a row of a table of numbers, which depends on the data.
fn is_row_of_numbers(line: &str) -> bool {
    let mut words = line.split_whitespace().skip(1).peekable();
    let is_reply = line.starts_with('(');
    !is_reply
        && words.peek().is_some()
        && words.all(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Step {
    /// Compares the output of the command with the text.
    pub fn check(&self, output: &str, code: &str) {
        let context = format!("{}: {}\n{output}", self.place, self.command);
        assert_eq!(code, "0", "{context}");
        let is_error_expected = self.expected.iter().any(|line| line.contains("\"code\":"));
        let is_error = output.contains("\"type\":\"about:blank\"");
        assert_eq!(is_error, is_error_expected, "{context}");
        let found = masked(output);
        for line in self.expected.iter().filter(|it| !is_row_of_numbers(it)) {
            let mut rest = &found[..];
            for part in line.split('…') {
                let part = masked(part);
                let part = part.trim();
                let Some(start) = rest.find(part) else {
                    panic!("the output has no {part:?}: {context}");
                };
                rest = &rest[start + part.len()..];
            }
        }
    }
}
