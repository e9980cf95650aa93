//! `parlor completions`: the completion script of a shell, on stdout.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Output};

/// What `completions` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The shell to write for
    shell: Shell,
}

/// Writes the script.
pub fn run(args: &Args, output: &mut Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "parlor", &mut script);
    output.write_bytes(&script)
}
