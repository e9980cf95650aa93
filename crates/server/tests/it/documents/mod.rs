//! The five schema documents, line by line and side by side with a service that follows them.
//!
//! Each document has a folder with its table, its checks and its side-by-side test, and a program in `old_services/`
//! that a team would have written from the document alone. Both sides use one real Redis. A recorder follows `MONITOR`:
//! the test fails if Parlor deletes, expires or overwrites anything that the old service wrote.
//!
//! To add a document:
//! 1. `old_services/<document>.mjs` or `.py`: a program with the functions of the document, in its client library. It
//!    uses `service.mjs` or `service.py`, which also runs command lines of the document unchanged.
//! 2. `<document>/mod.rs`: a [`SchemaDocument`](side_by_side::SchemaDocument), the number of lines, the table of
//!    [`TableRow`](table::TableRow)s, and two tests: the table (`assert_complete`, `run_checks`) and the side-by-side run.
//! 3. The checks in files beside it: `async fn(&SideBySide)`. Checks run in the order of the lines on the same Redis, so
//!    each uses its own users and conversations.
//! 4. A [`TakeoverRule`](monitor::TakeoverRule) only where Parlor has taken over the information, with the reason.
//!
//! To build a planned capability, replace `planned(…)` in the tables by `checked(…)`.

mod monitor;
pub mod old_service;
mod sessions;
mod side_by_side;
mod table;

mod chat_app;
mod chat_service;
mod home_assistant;
mod rooms;
mod user_status;
