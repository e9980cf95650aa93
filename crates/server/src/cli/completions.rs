//! `parlor completions`: prints the completion script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Output};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Shell to print the script for
    shell: Shell,
}

pub fn run(args: &Args, output: &mut Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "parlor", &mut script);
    output.write_bytes(&script)
}
