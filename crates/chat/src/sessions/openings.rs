//! Sessions that begin at the same time are written together: a commit takes longer than all their rows.
//!
//! Always true: whoever is told that a session has begun has it on disk. Where a common write fails everybody writes alone, and
//! so hears of their own error.

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Sessions;
use super::rows;
use super::session::Session;
use crate::context::Moment;
use crate::database::Either;
use crate::error::Result;

/// The sessions that wait to be written; no more than there are callers.
#[derive(Default)]
pub(super) struct Openings {
    waiting: Mutex<Vec<Opening>>,
    /// Held by whoever writes for all.
    writing: tokio::sync::Mutex<()>,
}

/// A session that is to begin.
pub(super) struct Opening {
    pub(super) session: Session,
    /// When its token was issued.
    pub(super) issued: Moment,
    /// Whether it has begun.
    answer: oneshot::Sender<bool>,
}

impl Sessions {
    /// Writes the row of a session that begins. False if the user is blocked, or the token was issued before they logged
    /// out.
    pub(super) async fn open(&self, session: &Session, issued: Moment) -> Result<bool> {
        // PostgreSQL joins the commits of its connections by itself.
        if let Either::Postgres(_) = self.database.pools() {
            return rows::open(&self.database, session, issued).await;
        }
        let (answer, answered) = oneshot::channel();
        self.openings.waiting.lock().push(Opening {
            session: session.clone(),
            issued,
            answer,
        });
        {
            let _writing = self.openings.writing.lock().await;
            // Somebody else may have written this one meanwhile.
            let all = std::mem::take(&mut *self.openings.waiting.lock());
            self.open_all(all).await;
        }
        match answered.await {
            Ok(opened) => Ok(opened),
            Err(_) => rows::open(&self.database, session, issued).await,
        }
    }

    async fn open_all(&self, all: Vec<Opening>) {
        if all.is_empty() {
            return;
        }
        if let Ok(opened) = rows::open_all(&self.database, &all).await {
            for (opening, opened) in all.into_iter().zip(opened) {
                // Nobody waits any more if this fails.
                let _ = opening.answer.send(opened);
            }
        }
    }
}
