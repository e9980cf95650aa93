//! `parlor token`: a signed token for trying things out and for services.

use std::sync::Arc;
use std::time::Duration;

use clap::CommandFactory;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use parlor_chat::access::Role;
use parlor_chat::ids::UserId;
use parlor_embedded::SystemClock;

use super::{Cli, Outcome, Output};
use crate::config::{Loaded, duration};
use crate::identity::{Grant, Identity, IssueError};

/// What `token` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  parlor token --user alice --name Alice
  parlor token --user root --role admin --ttl 8h
  parlor token --role service --name billing --ttl 30d

It is signed with auth.secret (HS256) or, where none is configured, with the one that is generated
and kept in the data folder. Where a public key is configured, tokens come from its issuer.")]
pub struct Args {
    /// The user id (`sub`); a service needs none
    #[arg(long, value_name = "ID")]
    user: Option<UserId>,
    /// What others see
    #[arg(long)]
    name: Option<String>,
    /// What the token allows
    #[arg(long, value_parser = roles(), default_value = Role::User.name())]
    role: Role,
    /// How long it lives: seconds, or 30m, 1h, 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = lifetime)]
    ttl: Duration,
    /// Of a visitor without an account
    #[arg(long, conflicts_with = "role")]
    anon: bool,
}

fn roles() -> impl TypedValueParser<Value = Role> {
    let value = |role: &Role| {
        PossibleValue::new(role.name()).help(match role {
            Role::User => "Act for themselves",
            Role::Admin => "Act for themselves, and administer",
            Role::Service => "Act for any user",
        })
    };
    PossibleValuesParser::new(Role::ALL.iter().map(value))
        .try_map(|name| Role::named(&name).ok_or("this is no role"))
}

fn lifetime(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        ttl if ttl < Duration::from_secs(1) => {
            Err(format!("`{text}` is too short; the least is 1s"))
        }
        ttl => Ok(ttl),
    }
}

/// Writes a token.
pub async fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> anyhow::Result<Outcome> {
    if args.user.is_none() && args.role != Role::Service {
        let message = "the token of a person needs --user; only --role service goes without";
        Cli::command()
            .error(ErrorKind::MissingRequiredArgument, message)
            .exit();
    }
    let config = &loaded.config;
    // Before anything is fetched from the issuer.
    if !config.auth.signs() {
        return Err(IssueError::NotTheIssuer.into());
    }
    let identity = Identity::load(&config.auth, &config.server.data, Arc::new(SystemClock)).await?;
    let token = identity.issue(&Grant {
        user: args.user.clone(),
        name: args.name.clone(),
        role: args.role,
        anonymous: args.anon,
        ttl: args.ttl,
    })?;
    output.line(&token)?;
    Ok(Outcome::Done)
}
