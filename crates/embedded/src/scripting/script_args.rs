//! Keys and arguments of a script call.

use crate::commands::args::{Args, to_error_text};
use crate::error::CommandError;
use crate::hash_slot::key_hash_slot;
use crate::numbers::parse_int_arg;

/// `KEYS` and `ARGV` of a script call.
pub(super) struct ScriptArgs<'a> {
    pub keys: Args<'a>,
    pub argv: Args<'a>,
}

impl<'a> ScriptArgs<'a> {
    /// Parses `numkeys key… arg…`, which follow the script or its SHA-1.
    pub fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let count = parse_int_arg(args[2])?;
        let rest = &args[3..];
        let Ok(count) = usize::try_from(count) else {
            return Err(CommandError::from_static(
                "ERR Number of keys can't be negative",
            ));
        };
        if count > rest.len() {
            return Err(CommandError::from_static(
                "ERR Number of keys can't be greater than number of args",
            ));
        }
        let (keys, argv) = rest.split_at(count);
        Ok(Self { keys, argv })
    }

    /// Rejects keys of two hash slots, which a cluster could store on two nodes.
    pub fn check_slots(&self) -> Result<(), CommandError> {
        let Some((first, others)) = self.keys.split_first() else {
            return Ok(());
        };
        match others
            .iter()
            .find(|key| key_hash_slot(key) != key_hash_slot(first))
        {
            None => Ok(()),
            Some(other) => Err(CommandError::new(format!(
                "ERR Script declares keys of two hash slots: '{}' is in {} and '{}' in {}; give them one hash tag",
                to_error_text(first),
                key_hash_slot(first),
                to_error_text(other),
                key_hash_slot(other)
            ))),
        }
    }
}
