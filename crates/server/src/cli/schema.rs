//! `parlor schema`: every key and channel of the configured layouts, from the declarations.

use clap::ValueEnum;
use parlor_chat::schema;
use parlor_store::StoreUrl;

use super::{CommandStatus, Output};
use crate::config::LoadedConfig;

/// What `schema` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  parlor schema
  parlor schema --preset chat-app --format markdown
  parlor schema --cluster --set keys.prefix=app: --json")]
pub struct Args {
    /// Show the names of a Redis Cluster, with hash tags (the default when store.url is one)
    #[arg(long)]
    cluster: bool,
    /// The form
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Columns
    Table,
    /// A Markdown table for each capability
    Markdown,
    /// Everything, for programs
    Json,
}

/// Writes the schema.
pub fn run(
    args: &Args,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let settings = &loaded.config.keys;
    let cluster =
        args.cluster || matches!(loaded.config.store.options.url, StoreUrl::Cluster { .. });
    match if args.json { Format::Json } else { args.format } {
        Format::Markdown => output.line(&schema::reference_markdown(settings, cluster)?)?,
        Format::Json => output.line(&schema::json(settings, cluster)?)?,
        Format::Table => {
            let rows = schema::rows(settings, cluster)?.into_iter();
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
