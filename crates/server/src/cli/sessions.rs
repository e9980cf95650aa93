//! `parlor sessions`: changes the sessions of many users.
//!
//! Invariant: a store that was not filled from this database is not changed.

use parlor_chat::context::ChatContext;
use parlor_chat::sessions::Sessions;

use super::{CommandStatus, Output, repair, store_reader};
use crate::config::{Config, LoadedConfig};

#[derive(clap::Subcommand, Debug)]
pub enum SessionsCommand {
    /// Lift the blocks that other services have made
    #[command(after_help = "\
A server adopts a block that another service writes into the session hash: it stays when the hash
expires. This command lifts all adopted blocks. Blocks made in Parlor stay. On Redis it can run while
servers are running; an embedded store must not be in use.

Examples:
  parlor sessions unblock --adopted --dry-run
  parlor sessions unblock --adopted --store redis://cache --set database.url=postgres://db/chat")]
    Unblock(UnblockArgs),
}

#[derive(clap::Args, Debug)]
pub struct UnblockArgs {
    /// Lift all blocks that were adopted from other services
    #[arg(long, required = true)]
    adopted: bool,
    /// Print the number of these blocks and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(
    command: &SessionsCommand,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let SessionsCommand::Unblock(args) = command;
    unblock(args, &loaded.config, output).await
}

async fn unblock(
    args: &UnblockArgs,
    config: &Config,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let (store, database) = repair::open(config).await?;
    let ctx = ChatContext::new(store.clone(), store_reader::keyspace(config)?);
    let sessions = Sessions::new(ctx, database.clone(), config.chat.sessions.clone());
    let users = match args.dry_run {
        true => sessions.count_adopted_blocks().await,
        false => sessions.unblock_adopted().await,
    };
    database.close().await;
    store.close().await;
    let users = users?;
    output.write_line(&match args.dry_run {
        true => format!("{users} users are blocked by other services; nothing was changed"),
        false => format!("{users} users unblocked"),
    })?;
    Ok(CommandStatus::Succeeded)
}
