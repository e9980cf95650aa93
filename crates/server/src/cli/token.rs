//! `parlor token`: issues a signed token, for services and for trying things out.

use std::sync::Arc;
use std::time::Duration;

use clap::CommandFactory;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use parlor_chat::api::caller::Role;
use parlor_chat::ids::UserId;
use parlor_embedded::SystemClock;

use super::{Cli, CommandStatus, Output};
use crate::auth::{Authenticator, TokenGrant, TokenIssueError};
use crate::config::{LoadedConfig, duration};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  parlor token --user alice --name Alice
  parlor token --user root --role admin --ttl 8h
  parlor token --role service --name billing --ttl 30d

The token is signed with auth.secret (HS256). If no secret is configured, Parlor generates one and
keeps it in the data folder. If a public key or a key set is configured, the command fails, because
only the issuer can sign tokens.")]
pub struct Args {
    /// User id (claim sub); required unless the role is service
    #[arg(long, value_name = "ID")]
    user: Option<UserId>,
    /// Display name
    #[arg(long)]
    name: Option<String>,
    /// Role, which determines what the token permits
    #[arg(long, value_parser = role_parser(), default_value = Role::User.name())]
    role: Role,
    /// Lifetime of the token: seconds, or text like 30m, 1h, 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_ttl)]
    ttl: Duration,
    /// Issue a token for a visitor without an account
    #[arg(long, conflicts_with = "role")]
    anon: bool,
}

fn role_parser() -> impl TypedValueParser<Value = Role> {
    let value = |role: &Role| {
        PossibleValue::new(role.name()).help(match role {
            Role::User => "May act as its own user",
            Role::Admin => "May act as its own user, and administer",
            Role::Service => "May act for any user",
        })
    };
    PossibleValuesParser::new(Role::ALL.iter().map(value))
        .try_map(|name| Role::parse(&name).ok_or("unknown role"))
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        ttl if ttl < Duration::from_secs(1) => {
            Err(format!("`{text}` is too short; the minimum is 1s"))
        }
        ttl => Ok(ttl),
    }
}

pub async fn run(
    args: &Args,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    if args.user.is_none() && args.role != Role::Service {
        let message = "--user is required unless the role is service";
        Cli::command()
            .error(ErrorKind::MissingRequiredArgument, message)
            .exit();
    }
    let config = &loaded.config;
    // Checked first, so that no keys are fetched from the issuer in vain.
    if !config.auth.can_issue_tokens() {
        return Err(TokenIssueError::NoSigningKey.into());
    }
    let authenticator = Authenticator::load(
        &config.auth,
        &config.server.data_folder,
        Arc::new(SystemClock),
    )
    .await?;
    let token = authenticator.issue(&TokenGrant {
        user: args.user.clone(),
        name: args.name.clone(),
        role: args.role,
        anonymous: args.anon,
        ttl: args.ttl,
    })?;
    output.write_line(&token)?;
    Ok(CommandStatus::Succeeded)
}
