//! Caches and counters in the store, after an import has changed the rows.
//!
//! Invariant: after this, no cache answers from rows of before, the unread counters agree with the rows, and imported
//! messages count as published.

use super::error::TransferError;
use crate::api::error::Result;
use crate::context::ChatContext;
use crate::database::Database;
use crate::messages;
use crate::store_binding::StoreBinding;
use crate::unread::Unread;

/// Brings the store up to date. No server may be running. `on_progress` is called with the number of users whose
/// counters are rebuilt, and the number of all.
pub async fn refresh_caches(
    ctx: &ChatContext,
    database: &Database,
    fanout_limit: u64,
    on_progress: impl Fn(u64, u64) + Send + Sync,
) -> std::result::Result<(), TransferError> {
    let refreshed = refresh(ctx, database, fanout_limit, on_progress).await;
    refreshed.map_err(TransferError::Store)
}

/// Fails if the store was filled from another database. A store that is not in use yet now belongs to this one.
pub async fn bind_store(
    ctx: &ChatContext,
    database: &Database,
) -> std::result::Result<(), TransferError> {
    let binding = StoreBinding::new(ctx.clone(), database.clone());
    let bound = binding.bind_or_verify().await;
    bound.map_err(TransferError::Store)
}

async fn refresh(
    ctx: &ChatContext,
    database: &Database,
    fanout_limit: u64,
    on_progress: impl Fn(u64, u64) + Send + Sync,
) -> Result<()> {
    ctx.store().raise_epoch().await?;
    messages::mark_recent_as_applied(ctx, database).await?;
    let unread = Unread::new(ctx.clone(), database.clone(), fanout_limit);
    unread.rebuild(on_progress).await
}
