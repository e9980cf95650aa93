//! State that the host functions share while a script runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use sha1_smol::Digest;

use super::libraries::math_random::Lrand48;
use super::script_error::ScriptError;
use crate::commands::args::{Args, to_error_text};
use crate::commands::table::{CommandEffect, CommandHandler, CommandSpec};
use crate::db::Db;
use crate::error::CommandError;

/// Instructions that one command counts as.
const COMMAND_COST: i64 = 20;

/// Commands that touch keys without naming them.
const WHOLE_KEYSPACE_COMMANDS: [&str; 6] =
    ["KEYS", "SCAN", "RANDOMKEY", "DBSIZE", "FLUSHALL", "FLUSHDB"];

/// Run state as the host functions hold it.
pub(super) type SharedRunState = Arc<Mutex<ScriptRunState>>;

/// State of the running script.
pub(super) struct ScriptRunState {
    /// The database while a script runs, an empty one otherwise.
    pub db: Db,
    pub sha: Digest,
    pub read_only: bool,
    /// Keys that the script declared. Set only in strict mode, which allows no other keys.
    pub declared_keys: Option<Vec<Vec<u8>>>,
    pub random: Lrand48,
    pub budget: Arc<InstructionBudget>,
}

impl ScriptRunState {
    pub fn new(budget: Arc<InstructionBudget>) -> Self {
        Self {
            db: Db::default(),
            sha: Digest::default(),
            read_only: false,
            declared_keys: None,
            random: Lrand48::default(),
            budget,
        }
    }

    pub fn call(
        &mut self,
        command: &CommandSpec,
        args: Args<'_>,
    ) -> Result<redis::Value, ScriptError> {
        self.budget.consume(COMMAND_COST)?;
        if !matches!(command.handler, CommandHandler::Function(_)) {
            return Err(ScriptError::Command(
                "ERR This Redis command is not allowed from script".to_owned(),
            ));
        }
        // As in Redis, publishing counts as a write, because replicas receive the message too.
        let writes = matches!(
            command.effect,
            CommandEffect::Write | CommandEffect::MayReplicate
        );
        if self.read_only && writes {
            return Err(ScriptError::Command(
                "ERR Write commands are not allowed from read-only scripts.".to_owned(),
            ));
        }
        if let Some(declared_keys) = &self.declared_keys {
            if WHOLE_KEYSPACE_COMMANDS.contains(&command.name) {
                return Err(ScriptError::Command(format!(
                    "ERR Script used {}, which looks at keys that are not among its KEYS; strict mode requires every key in KEYS",
                    command.name
                )));
            }
            let undeclared = command
                .extract_keys(args)
                .into_iter()
                .find(|key| !declared_keys.iter().any(|declared| declared == key));
            if let Some(key) = undeclared {
                let text = format!(
                    "ERR Script used key '{}' in {}, which is not among its KEYS; strict mode requires every key in KEYS",
                    to_error_text(key),
                    command.name
                );
                return Err(ScriptError::Command(text));
            }
        }
        crate::engine::state::call_command(&mut self.db, command, args)
            .map_err(|error| ScriptError::Command(script_error_text(&error)))
    }
}

/// Text of a command's error as a script gets it. Redis looks a subcommand up before it runs the command, so a script
/// gets another text than a client.
fn script_error_text(error: &CommandError) -> String {
    let text = error.text();
    if text.starts_with("ERR unknown subcommand") {
        return UNKNOWN_COMMAND.to_owned();
    }
    if text.starts_with("ERR wrong number of arguments for '") && text.contains('|') {
        return WRONG_ARG_COUNT.to_owned();
    }
    text.to_owned()
}

pub(super) const UNKNOWN_COMMAND: &str = "ERR Unknown Redis command called from script";
pub(super) const WRONG_ARG_COUNT: &str =
    "ERR Wrong number of args calling Redis command from script";

/// Instructions that the running script may still use.
pub(super) struct InstructionBudget {
    remaining: AtomicI64,
    limit: i64,
}

impl InstructionBudget {
    pub fn new(limit: u64) -> Self {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Self {
            remaining: AtomicI64::new(limit),
            limit,
        }
    }

    pub fn reset(&self) {
        self.remaining.store(self.limit, Ordering::Relaxed);
    }

    /// Counts instructions. Returns an error if none are left.
    pub fn consume(&self, instructions: i64) -> Result<(), ScriptError> {
        if self.remaining.fetch_sub(instructions, Ordering::Relaxed) > instructions {
            return Ok(());
        }
        Err(ScriptError::Stopped(format!(
            "ERR script stopped: it ran longer than {} instructions; writes it made before are kept",
            self.limit
        )))
    }
}
