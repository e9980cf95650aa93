//! The `parlor` binary. Everything is in the library, so that tests can use it.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Messages, frames and changes of the store are made on one thread and freed on another, which the system's allocator is slow
/// at: a message costs about a seventh less with this one, and an idle connection needs no more memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    parlor_server::cli::main()
}
