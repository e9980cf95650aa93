//! `parlor schema`: prints every declared key and channel of the configured layouts.

use clap::ValueEnum;
use parlor_chat::keys::reference;
use parlor_store::StoreUrl;

use super::{CommandStatus, Output};
use crate::config::LoadedConfig;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  parlor schema
  parlor schema --preset chat-app --format markdown
  parlor schema --cluster --set keys.prefix=app: --json")]
pub struct Args {
    /// Print the names for a Redis Cluster, with hash tags (default if store.url is a cluster)
    #[arg(long)]
    cluster: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = SchemaFormat::Table)]
    format: SchemaFormat,
    /// Print JSON; same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaFormat {
    /// Aligned columns
    Table,
    /// A Markdown table per capability
    Markdown,
    /// All details, for programs
    Json,
}

pub fn run(
    args: &Args,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let settings = &loaded.config.keys;
    let cluster = args.cluster || matches!(loaded.config.store.url, StoreUrl::Cluster { .. });
    match if args.json {
        SchemaFormat::Json
    } else {
        args.format
    } {
        SchemaFormat::Markdown => {
            output.write_line(&reference::reference_markdown(settings, cluster)?)?;
        }
        SchemaFormat::Json => output.write_line(&reference::reference_json(settings, cluster)?)?,
        SchemaFormat::Table => {
            let rows = reference::reference_rows(settings, cluster)?.into_iter();
            let rows = rows.map(|row| {
                vec![
                    row.key,
                    row.kind.to_owned(),
                    row.ttl,
                    row.meaning.to_owned(),
                ]
            });
            output.write_table(&["KEY", "TYPE", "TTL", "MEANING"], rows.collect())?;
        }
    }
    Ok(CommandStatus::Succeeded)
}
