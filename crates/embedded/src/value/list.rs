//! Lists. Each item has a number that it keeps while others come and go at the ends, which is how a push or a pop
//! becomes one row on disk and not the whole list; and it knows whether it is to be on disk at all.

use std::collections::VecDeque;

use super::SharedBytes;

/// One of the two ends of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListEnd {
    /// Where index 0 is; Redis calls it left.
    Head,
    /// Where index -1 is; Redis calls it right.
    Tail,
}

/// A list of byte strings.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// The number of the item at the head.
    head_number: i64,
    items: VecDeque<SharedBytes>,
    /// Its changes are not written to disk.
    memory_only: bool,
}

impl List {
    /// A list whose head has the number `first`.
    pub fn with_head_number(head_number: i64, items: VecDeque<SharedBytes>) -> Self {
        Self {
            head_number,
            items,
            memory_only: false,
        }
    }

    /// Whether its changes are not written to disk.
    pub fn is_memory_only(&self) -> bool {
        self.memory_only
    }

    /// Says whether its changes are written to disk.
    pub fn set_memory_only(&mut self, in_memory: bool) {
        self.memory_only = in_memory;
    }

    /// Replaces all items; they are numbered from 0.
    pub fn replace_all(&mut self, items: VecDeque<SharedBytes>) {
        (self.head_number, self.items) = (0, items);
    }

    /// The items from head to tail.
    pub fn items(&self) -> &VecDeque<SharedBytes> {
        &self.items
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The number of the item at `index`.
    pub fn number(&self, index: usize) -> i64 {
        self.head_number.wrapping_add_unsigned(index as u64)
    }

    /// Adds at the head, giving the item's number.
    pub fn push_front(&mut self, item: SharedBytes) -> i64 {
        self.head_number = self.head_number.wrapping_sub(1);
        self.items.push_front(item);
        self.head_number
    }

    /// Adds at the tail, giving the item's number.
    pub fn push_back(&mut self, item: SharedBytes) -> i64 {
        self.items.push_back(item);
        self.number(self.items.len() - 1)
    }

    /// Takes from the head, with the number the item had.
    pub fn pop_front(&mut self) -> Option<(i64, SharedBytes)> {
        let item = self.items.pop_front()?;
        let number = self.head_number;
        self.head_number = self.head_number.wrapping_add(1);
        Some((number, item))
    }

    /// Takes from the tail, with the number the item had.
    pub fn pop_back(&mut self) -> Option<(i64, SharedBytes)> {
        let item = self.items.pop_back()?;
        Some((self.number(self.items.len()), item))
    }

    /// Replaces the item at `index`, if there is one.
    pub fn set(&mut self, index: usize, item: SharedBytes) -> bool {
        match self.items.get_mut(index) {
            Some(place) => {
                *place = item;
                true
            }
            None => false,
        }
    }
}
