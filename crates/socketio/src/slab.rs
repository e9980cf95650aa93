//! Vector of entries that are addressed by their index.

/// The index of a removed entry is used again. An empty slab frees its memory.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Clone> Slab<T> {
    /// Inserts the entry that `make` creates for its index.
    pub(crate) fn insert(&mut self, make: impl FnOnce(u32) -> T) -> T {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("fewer entries than bytes of memory")
        });
        let entry = make(index);
        self.entries[index as usize] = Some(entry.clone());
        entry
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_ref()
    }

    /// Removes the entry if the predicate holds for it: the index may belong to a newer entry.
    pub(crate) fn remove_if(&mut self, index: u32, matches: impl FnOnce(&T) -> bool) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        if !entry.as_ref().is_some_and(matches) {
            return None;
        }
        let removed = entry.take();
        self.free.push(index);
        if self.free.len() == self.entries.len() {
            *self = Self::default();
        }
        removed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
