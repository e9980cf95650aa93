//! Applies list commands to the model of the keyspace.

use super::apply::CommandRun;
use super::keyspace::{ChangeKind, ContentType, KeyEntry, KeyWriter};

pub(super) fn is_list_command(name: &str) -> bool {
    ["LPUSH", "LPUSHX", "RPUSH", "RPUSHX", "LTRIM", "LSET"].contains(&name)
}

impl CommandRun<'_> {
    /// `None` if the form of the command is unknown.
    pub(super) fn run_on_list(&mut self, name: &str, arguments: &[&str]) -> Option<()> {
        let (key, rest) = arguments.split_first()?;
        let is_missing = !self.keyspace.keys.contains_key(*key);
        let new: Vec<KeyEntry> = rest.iter().map(|value| self.entry(value)).collect();
        let Some(list) = self.open(key, ContentType::List) else {
            return Some(());
        };
        let mut removed: Vec<KeyEntry> = Vec::new();
        match (name, rest) {
            ("LPUSHX" | "RPUSHX", _) if is_missing => {}
            ("LPUSH" | "LPUSHX", _) => new.into_iter().for_each(|it| list.elements.push_front(it)),
            ("RPUSH" | "RPUSHX", _) => list.elements.extend(new),
            ("LTRIM", [first, last]) => {
                let length = i64::try_from(list.elements.len()).ok()?;
                let range = list_index(first, length)?..=list_index(last, length)?;
                let all = std::mem::take(&mut list.elements);
                for (at, element) in (0..).zip(all) {
                    if range.contains(&at) {
                        list.elements.push_back(element);
                    } else {
                        removed.push(element);
                    }
                }
            }
            ("LSET", [at, _]) => {
                let at = usize::try_from(at.parse::<i64>().ok()?).ok()?;
                if let Some(element) = list.elements.get_mut(at) {
                    removed.push(std::mem::replace(element, new[1].clone()));
                }
            }
            _ => return None,
        }
        for element in removed {
            if element.writer == KeyWriter::Other {
                self.report(ChangeKind::Remove, key, "", &element.value, "");
            }
        }
        Some(())
    }
}

/// Index from the start of the list; a negative number counts from the end.
fn list_index(text: &str, length: i64) -> Option<i64> {
    let index = text.parse::<i64>().ok()?;
    Some(if index < 0 { length + index } else { index })
}
