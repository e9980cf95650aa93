//! The command line: global options, subcommands, and the steps before each command runs (configuration, logging,
//! runtime).
//!
//! Invariants:
//! 1. Results go to stdout, everything else to stderr.
//! 2. The exit code is 0 (success), 1 (failure) or 2 (invalid usage or configuration). A closed pipe is a success.

mod cleanup;
mod completions;
mod doctor;
mod escape;
mod export;
mod import;
mod keys;
mod migrate;
mod output;
mod progress;
mod redis_value;
mod repair;
mod schema;
mod serve;
mod sessions;
mod signals;
mod store_reader;
mod text_table;
mod token;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand, ValueHint};
use parlor_chat::keys::Preset;

use crate::config::{
    self, ConfigSources, Environment, Flags, LoadedConfig, LogConfig, SettingOrigin,
};
use crate::logging::{self, LogLevelHandle};
pub use output::Output;

const AFTER_HELP: &str = "\
Examples:
  parlor serve                                  start with the embedded store, data in ./data
  parlor serve --store redis://127.0.0.1:6379   start with Redis or Valkey
  parlor token --user alice --name Alice        print a token to call the server with
  parlor keys list 'presence:*'                 inspect keys
  parlor doctor                                 check store and database
  parlor migrate-store --help                   move to Redis and PostgreSQL
  parlor import --help                          bring the messages of another system

Exit codes: 0 success, 1 failure, 2 invalid usage or configuration.";

/// Server for the realtime state of a chat: presence, typing, messages, unread counts.
#[derive(Parser, Debug)]
#[command(name = "parlor", version, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: CliCommand,
}

/// Options of every command.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Read this configuration file instead of ./parlor.toml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set any setting, e.g. --set ttl.presence=90s; can be repeated
    #[arg(long, global = true, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// URL of the store (store.url)
    #[arg(long, global = true, value_name = "URL", value_hint = ValueHint::Url)]
    store: Option<String>,
    /// URL of the database (database.url)
    #[arg(long, global = true, value_name = "URL", value_hint = ValueHint::Url)]
    database: Option<String>,
    /// Data folder (server.data)
    #[arg(long, global = true, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    data: Option<String>,
    /// Preset of key layouts (keys.preset)
    #[arg(long, global = true, value_name = "NAME", value_parser = PossibleValuesParser::new(Preset::NAMES))]
    preset: Option<String>,
    /// Print without colors; the variable NO_COLOR does the same
    #[arg(long, global = true)]
    no_color: bool,
}

#[derive(Subcommand, Debug)]
enum CliCommand {
    /// Start the server
    Serve(serve::Args),
    /// Print a signed token
    Token(token::Args),
    /// Print every key with its type, TTL and meaning
    Schema(schema::Args),
    /// Inspect the keys in the store
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Check store and database, and print how to fix problems
    Doctor(doctor::Args),
    /// Copy the store, the database or both to other servers
    MigrateStore(migrate::Args),
    /// Import users, conversations and messages from a file
    Import(import::Args),
    /// Export users, conversations and messages to a file
    Export(export::Args),
    /// Rebuild store keys from the database
    #[command(subcommand)]
    Repair(repair::RepairCommand),
    /// Change the sessions of many users
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    /// Clean up what a crash has left in the store
    #[command(subcommand)]
    Cleanup(cleanup::CleanupCommand),
    /// Print the completion script for a shell
    Completions(completions::Args),
}

/// Result of a command that did not end in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStatus {
    /// Exit code 0.
    Succeeded,
    /// Exit code 1; the command has printed the reason.
    Failed,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let environment = Environment::from_process();
    let color = !cli.global.no_color && environment.get("NO_COLOR").is_none();
    let mut output = Output::new(color);
    if let CliCommand::Completions(args) = &cli.command {
        return exit_code(completions::run(args, &mut output).map(|()| CommandStatus::Succeeded));
    }
    let sources = ConfigSources {
        file: cli.global.config.clone(),
        environment,
        flags: collect_flags(&cli),
    };
    let loaded = match config::load(&sources) {
        Ok(loaded) => loaded,
        Err(problems) => {
            eprintln!("error: {problems}");
            return ExitCode::from(2);
        }
    };
    let log_level = logging::init_logging(&log_config(&cli.command, &loaded), color);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    exit_code(run(&cli.command, &loaded, log_level, &mut output))
}

fn run(
    command: &CliCommand,
    loaded: &LoadedConfig,
    log_level: LogLevelHandle,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        match command {
            CliCommand::Serve(args) => serve::run(args, loaded, log_level, output).await,
            CliCommand::Token(args) => token::run(args, loaded, output).await,
            CliCommand::Schema(args) => schema::run(args, loaded, output),
            CliCommand::Keys(command) => keys::run(command, loaded, output).await,
            CliCommand::Doctor(args) => doctor::run(args, loaded, output).await,
            CliCommand::MigrateStore(args) => migrate::run(args, loaded, output).await,
            CliCommand::Import(args) => import::run(args, loaded, output).await,
            CliCommand::Export(args) => export::run(args, loaded, output).await,
            CliCommand::Repair(command) => repair::run(command, loaded, output).await,
            CliCommand::Sessions(command) => sessions::run(command, loaded, output).await,
            CliCommand::Cleanup(command) => cleanup::run(command, loaded, output).await,
            CliCommand::Completions(args) => {
                completions::run(args, output).map(|()| CommandStatus::Succeeded)
            }
        }
    });
    // A thread that hangs in a blocking call must not prevent the exit.
    runtime.shutdown_background();
    result
}

fn exit_code(result: anyhow::Result<CommandStatus>) -> ExitCode {
    match result {
        Ok(CommandStatus::Succeeded) => ExitCode::SUCCESS,
        Ok(CommandStatus::Failed) => ExitCode::FAILURE,
        Err(error) if error.is::<output::ClosedPipe>() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", output::error_chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Settings of the log. Without an explicit level, only `serve` logs at `info`; the other commands print results and
/// log warnings.
fn log_config(command: &CliCommand, loaded: &LoadedConfig) -> LogConfig {
    let mut log = loaded.config.log.clone();
    if !matches!(command, CliCommand::Serve(_))
        && *loaded.values.origin("log.level") == SettingOrigin::Default
    {
        log.level = "warn".into();
    }
    log
}

/// The settings that the command line sets.
fn collect_flags(cli: &Cli) -> Flags {
    let mut shortcuts = Vec::new();
    let global = &cli.global;
    let mut add = |flag, name, value: &Option<String>| {
        if let Some(value) = value {
            shortcuts.push((flag, name, value.clone()));
        }
    };
    add("--store", "store.url", &global.store);
    add("--database", "database.url", &global.database);
    add("--data", "server.data", &global.data);
    add("--preset", "keys.preset", &global.preset);
    if let CliCommand::Serve(args) = &cli.command {
        add("--http", "server.http", &args.http);
        add("--grpc", "server.grpc", &args.grpc);
    }
    Flags {
        shortcuts,
        set: global.set.clone(),
    }
}
