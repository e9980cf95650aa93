//! Lists. An item keeps its number while other items are added or removed at the ends, so a push or a pop changes one
//! row on disk and not the whole list. A memory-only list is not written to disk.

use std::collections::VecDeque;

use super::SharedBytes;

/// Head or tail of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListEnd {
    /// The end with index 0 (Redis: left).
    Head,
    /// The end with index -1 (Redis: right).
    Tail,
}

/// A list of byte strings.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Number of the item at the head.
    head_number: i64,
    items: VecDeque<SharedBytes>,
    /// Whether changes of this list are not written to disk.
    memory_only: bool,
}

impl List {
    /// Creates a list whose head has the given number.
    pub fn with_head_number(head_number: i64, items: VecDeque<SharedBytes>) -> Self {
        Self {
            head_number,
            items,
            memory_only: false,
        }
    }

    pub fn is_memory_only(&self) -> bool {
        self.memory_only
    }

    pub fn set_memory_only(&mut self, memory_only: bool) {
        self.memory_only = memory_only;
    }

    /// Replaces all items. The new items are numbered from 0.
    pub fn replace_all(&mut self, items: VecDeque<SharedBytes>) {
        (self.head_number, self.items) = (0, items);
    }

    /// Items from head to tail.
    pub fn items(&self) -> &VecDeque<SharedBytes> {
        &self.items
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Number of the item at `index`.
    pub fn item_number(&self, index: usize) -> i64 {
        self.head_number.wrapping_add_unsigned(index as u64)
    }

    /// Adds an item and returns its number.
    pub fn push(&mut self, end: ListEnd, item: SharedBytes) -> i64 {
        match end {
            ListEnd::Head => {
                self.head_number = self.head_number.wrapping_sub(1);
                self.items.push_front(item);
                self.head_number
            }
            ListEnd::Tail => {
                self.items.push_back(item);
                self.item_number(self.items.len() - 1)
            }
        }
    }

    /// Removes an item and returns it with its number.
    pub fn pop(&mut self, end: ListEnd) -> Option<(i64, SharedBytes)> {
        match end {
            ListEnd::Head => {
                let item = self.items.pop_front()?;
                let number = self.head_number;
                self.head_number = number.wrapping_add(1);
                Some((number, item))
            }
            ListEnd::Tail => {
                let item = self.items.pop_back()?;
                Some((self.item_number(self.items.len()), item))
            }
        }
    }

    /// Replaces the item at `index`. Returns whether there is one.
    pub fn set(&mut self, index: usize, item: SharedBytes) -> bool {
        match self.items.get_mut(index) {
            Some(old) => {
                *old = item;
                true
            }
            None => false,
        }
    }
}
