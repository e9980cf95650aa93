//! What a script is given.

use crate::args::{Args, lossy};
use crate::error::Error;
use crate::number::int;
use crate::slot;

/// The keys and other arguments of a script.
pub(super) struct Input<'a> {
    pub keys: Args<'a>,
    pub argv: Args<'a>,
}

impl<'a> Input<'a> {
    /// Reads `numkeys key… arg…` behind the script.
    pub fn of(args: Args<'a>) -> Result<Self, Error> {
        let count = int(args[2])?;
        let rest = &args[3..];
        let Ok(count) = usize::try_from(count) else {
            return Err(Error::fixed("ERR Number of keys can't be negative"));
        };
        if count > rest.len() {
            return Err(Error::fixed(
                "ERR Number of keys can't be greater than number of args",
            ));
        }
        let (keys, argv) = rest.split_at(count);
        Ok(Self { keys, argv })
    }

    /// Refuses keys that a cluster would keep on two nodes.
    pub fn check_slots(&self) -> Result<(), Error> {
        let Some((first, others)) = self.keys.split_first() else {
            return Ok(());
        };
        match others
            .iter()
            .find(|key| slot::slot(key) != slot::slot(first))
        {
            None => Ok(()),
            Some(other) => Err(Error::new(format!(
                "ERR Script declares keys of two hash slots: '{}' is in {} and '{}' in {}; give them one hash tag",
                lossy(first),
                slot::slot(first),
                lossy(other),
                slot::slot(other)
            ))),
        }
    }
}
