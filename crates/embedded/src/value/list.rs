//! Lists. Each item has a number that it keeps while others come and go at the ends, which is how a push or a pop
//! becomes one row on disk and not the whole list; and it knows whether it is to be on disk at all.

use std::collections::VecDeque;

use super::Blob;

/// One of the two ends of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where index 0 is; Redis calls it left.
    Head,
    /// Where index -1 is; Redis calls it right.
    Tail,
}

/// A list of byte strings.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// The number of the item at the head.
    first: i64,
    items: VecDeque<Blob>,
    /// Its changes are not written to disk.
    in_memory: bool,
}

impl List {
    /// A list whose head has the number `first`.
    pub fn from_numbered(first: i64, items: VecDeque<Blob>) -> Self {
        Self {
            first,
            items,
            in_memory: false,
        }
    }

    /// Whether its changes are not written to disk.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Says whether its changes are written to disk.
    pub fn set_in_memory(&mut self, in_memory: bool) {
        self.in_memory = in_memory;
    }

    /// Replaces all items; they are numbered from 0.
    pub fn replace(&mut self, items: VecDeque<Blob>) {
        (self.first, self.items) = (0, items);
    }

    /// The items from head to tail.
    pub fn items(&self) -> &VecDeque<Blob> {
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
        self.first.wrapping_add_unsigned(index as u64)
    }

    /// Adds at the head, giving the item's number.
    pub fn push_front(&mut self, item: Blob) -> i64 {
        self.first = self.first.wrapping_sub(1);
        self.items.push_front(item);
        self.first
    }

    /// Adds at the tail, giving the item's number.
    pub fn push_back(&mut self, item: Blob) -> i64 {
        self.items.push_back(item);
        self.number(self.items.len() - 1)
    }

    /// Takes from the head, with the number the item had.
    pub fn pop_front(&mut self) -> Option<(i64, Blob)> {
        let item = self.items.pop_front()?;
        let number = self.first;
        self.first = self.first.wrapping_add(1);
        Some((number, item))
    }

    /// Takes from the tail, with the number the item had.
    pub fn pop_back(&mut self) -> Option<(i64, Blob)> {
        let item = self.items.pop_back()?;
        Some((self.number(self.items.len()), item))
    }

    /// Replaces the item at `index`, if there is one.
    pub fn set(&mut self, index: usize, item: Blob) -> bool {
        match self.items.get_mut(index) {
            Some(place) => {
                *place = item;
                true
            }
            None => false,
        }
    }
}
