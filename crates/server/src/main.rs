//! The `parlor` binary. Everything is in the library, so that tests can use it.

use std::process::ExitCode;

fn main() -> ExitCode {
    parlor_server::cli::main()
}
