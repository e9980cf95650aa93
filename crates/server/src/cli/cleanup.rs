//! `parlor cleanup`: removes what a crash has left in the store.
//!
//! Invariant: nothing is changed without `--yes`.

use parlor_chat::context::ChatContext;
use parlor_chat::presence::{PresenceCleanup, clean_up_presence};
use parlor_store::{Store, StoreOptions, StoreUrl};

use super::store_reader::{self, require_store};
use super::{CommandStatus, Output};
use crate::config::{Config, LoadedConfig};

#[derive(clap::Subcommand, Debug)]
pub enum CleanupCommand {
    /// Let the keys of users expire who were online when the last server crashed
    #[command(after_help = "\
In the layout `sockets`, user:{user}:online and user:{user}:sockets have no TTL. After a crash they say
online until a server starts again. If no server will start, for example because you return to your
previous service, this command sets their TTL to presence.node_lease plus presence.grace. It changes
only keys that Parlor has written, and nothing while a server is alive. Without --yes it shows what it
would change.

Examples:
  parlor cleanup presence
  parlor cleanup presence --yes --store redis://cache --preset chat-service")]
    Presence(CleanupPresenceArgs),
}

#[derive(clap::Args, Debug)]
pub struct CleanupPresenceArgs {
    /// Change the keys
    #[arg(long)]
    yes: bool,
}

pub async fn run(
    command: &CleanupCommand,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let CleanupCommand::Presence(args) = command;
    presence(args, &loaded.config, output).await
}

async fn presence(
    args: &CleanupPresenceArgs,
    config: &Config,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    if config.store.url == StoreUrl::Embedded {
        require_store(&config.server.data_folder)?;
    }
    let store = Store::open(StoreOptions {
        read_only: !args.yes,
        ..config.store.clone()
    })
    .await?;
    let ctx = ChatContext::new(store.clone(), store_reader::keyspace(config)?);
    let mut lines = Vec::new();
    let cleanup = clean_up_presence(&ctx, config.chat.grace_period, args.yes, |key, ttl| {
        lines.push(format!(
            "{key}: `true` without a TTL, expires after {} s",
            ttl.as_secs()
        ));
    })
    .await;
    store.close().await;
    for line in lines {
        output.write_line(&line)?;
    }
    Ok(match cleanup? {
        PresenceCleanup::NotNeeded(layout) => {
            output.write_line(&format!(
                "nothing to do: every presence key of the layout `{layout}` has a TTL"
            ))?;
            CommandStatus::Succeeded
        }
        PresenceCleanup::NodeAlive(node) => {
            output.write_line(&format!(
                "nothing was changed: server {node} is alive, and servers remove the devices of crashed ones"
            ))?;
            CommandStatus::Failed
        }
        PresenceCleanup::Users(users) => {
            output.write_line(&match (users, args.yes) {
                (0, _) => "no key to clean up".to_owned(),
                (_, true) => format!("{users} users: the TTLs are set"),
                (_, false) => {
                    format!("{users} users; nothing was changed, set the TTLs with --yes")
                }
            })?;
            CommandStatus::Succeeded
        }
    })
}
