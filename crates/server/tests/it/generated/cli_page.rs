//! Generates docs/cli.md from the help texts.

use clap::{Command, CommandFactory};

use parlor_server::cli::Cli;

const HEAD: &str = "\
# Command line

<!-- Generated from the help texts by `make docs`; do not edit. -->

Results go to standard output, logs and notes to standard error. Exit codes: 0 success, 1 failure, 2 invalid usage or configuration.
Every command accepts the global options listed first. Settings are described in [config.md](config.md).
";

/// Text of docs/cli.md.
pub(super) fn text() -> String {
    let mut root = Cli::command();
    root.build();
    let mut text = String::from(HEAD);
    write(&mut text, &root, "parlor");
    text
}

fn write(text: &mut String, command: &Command, name: &str) {
    let nested = name.contains(' ');
    let shown = command.clone().term_width(100).mut_args(|arg| {
        let repeated = nested && arg.is_global_set();
        arg.hide(repeated)
    });
    let help = shown.clone().render_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    *text += &format!(
        "\n## {name}\n\n```text\n{}\n```\n",
        lines.join("\n").trim_end()
    );
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        write(text, sub, &format!("{name} {}", sub.get_name()));
    }
}
