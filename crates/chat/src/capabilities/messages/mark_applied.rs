//! Marks messages as applied that were imported while no server was running.
//!
//! Invariant: afterwards, the next server does not publish these messages as new ones.

use std::time::Duration;

use redis::pipe;

use super::keys::WATERMARK_EXTRA_TTL_SECS;
use super::watermark_rows;
use crate::api::error::Result;
use crate::clock::{Timestamp, duration_millis};
use crate::context::ChatContext;
use crate::database::Database;
use crate::keys::TtlName;

/// Age up to which a server that starts may publish messages again, unless a node that crashed has left an older
/// watermark.
const MAX_PUBLISHED_AGE: Duration = Duration::from_secs(600);

/// Sets the watermark of every conversation with recent messages to its last message, and removes its recent list.
pub(crate) async fn mark_recent_as_applied(ctx: &ChatContext, database: &Database) -> Result<()> {
    let (keys, epoch) = (ctx.keys(), ctx.store_epoch());
    let now = ctx.now();
    let watermarks = watermark_rows::find_all(database).await?;
    let oldest = watermarks
        .iter()
        .map(|it| Timestamp(it.applied_before))
        .chain([now])
        .min()
        .unwrap_or(now);
    let period = (
        oldest.saturating_sub(MAX_PUBLISHED_AGE),
        now.saturating_add(MAX_PUBLISHED_AGE),
    );
    let ttl = keys.ttl(TtlName::Recent) + Duration::from_secs(WATERMARK_EXTRA_TTL_SECS);
    let mut after = String::new();
    loop {
        let page = watermark_rows::find_active_conversations(database, period, &after).await?;
        let Some((last, _)) = page.last() else {
            // The marks expire. A watermark that stayed would make a later server replay these messages.
            for watermark in &watermarks {
                watermark_rows::delete(database, watermark).await?;
            }
            return Ok(());
        };
        after = last.to_string();
        let mut pipe = pipe();
        for (conversation, last_seq) in &page {
            pipe.del(keys.recent_list(conversation)).ignore();
            pipe.cmd("SET")
                .arg(keys.apply_watermark(conversation))
                // No change was published in this epoch.
                .arg(format!("{last_seq}|{epoch}|0"))
                .arg("PX")
                .arg(duration_millis(ttl))
                .ignore();
        }
        let mut store = ctx.store().idempotent();
        pipe.exec_async(&mut store).await?;
    }
}
