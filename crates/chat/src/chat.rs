//! The capabilities of one node, put together.
//!
//! Always true: what a capability needs of another is given to it here, and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;
use crate::error::Result;
use crate::ids::NodeId;
use crate::keys::Settings;
use crate::membership::{Members, Nobody};
use crate::nodes::Nodes;
use crate::presence::Presence;
use crate::typing::Typing;

pub use crate::ticking::Ticking;

/// A chat as one node serves it.
pub struct Chat {
    ctx: Context,
    presence: Arc<Presence>,
    typing: Arc<Typing>,
    members: Arc<dyn Members>,
}

impl Chat {
    /// The chat of a node that has not started. `grace` is what lost connections have to come back.
    pub fn new(ctx: Context, node: NodeId, grace: Duration) -> Self {
        let nodes = Arc::new(Nodes::new(ctx.clone(), node, grace));
        Self {
            presence: Arc::new(Presence::new(ctx.clone(), nodes)),
            typing: Arc::new(Typing::new(ctx.clone())),
            // Until conversations are kept here, only services act in one.
            members: Arc::new(Nobody),
            ctx,
        }
    }

    /// Joins the other nodes. Nothing may be asked before.
    pub async fn start(&self) -> Result<()> {
        self.presence.revive().await?;
        self.presence.start().await
    }

    /// Starts the background work.
    pub fn tick(&self) -> Ticking {
        self.presence.tick().and(self.typing.tick())
    }

    /// Writes what was collected and leaves the other nodes; presence stays through the grace time. The ticking has to end
    /// before.
    pub async fn stop(&self) -> Result<()> {
        self.presence.drain().await
    }

    /// Who is here.
    pub fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }

    /// Who types.
    pub fn typing(&self) -> &Arc<Typing> {
        &self.typing
    }

    /// Who belongs to which conversation.
    pub fn members(&self) -> &dyn Members {
        &*self.members
    }

    /// Layouts and times.
    pub fn settings(&self) -> &Settings {
        self.ctx.keys().settings()
    }
}
