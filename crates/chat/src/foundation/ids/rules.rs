//! The rules for each kind of identifier.
//!
//! Invariant: a valid identifier contains no braces and no spaces, and it contains `:` only if its kind is allowed at
//! the end of a key alone. A key can therefore be parsed in exactly one way, and no identifier can forge a hash tag.

use std::fmt;

use crate::keys::named_enum;

/// Maximum length of an ordinary identifier in bytes.
pub const MAX_ID_BYTES: usize = 128;
/// Maximum length of a limiter id in bytes.
pub const MAX_LIMITER_ID_BYTES: usize = 256;
/// Maximum length of an endpoint (`METHOD route`) in bytes.
pub const MAX_ENDPOINT_BYTES: usize = 256;

const ID_ALPHABET: &str = "A-Z a-z 0-9 . _ - @ + = ~ |";
/// Words that another documented key has in the place of the user id.
const RESERVED_USERS: &[&str] = &["status", "online", "sockets"];
/// Words that another documented key has in the place of the conversation id.
const RESERVED_CONVERSATIONS: &[&str] = &["total"];

named_enum! {
    /// Kind of an identifier. Its name is the word between the braces of a pattern.
    pub enum IdKind {
        /// User: a person, support agent or visitor.
        User = "user",
        /// Conversation.
        Conversation = "conv",
        /// Socket.
        Socket = "socket",
        /// Device of a user. Part of hash fields, never of a key.
        Device = "device",
        /// Support agent, who is a user.
        Admin = "admin",
        /// Parlor node.
        Node = "node",
        /// Periodic job.
        Job = "job",
        /// Rate limit.
        Limiter = "id",
        /// HTTP method and route template.
        Endpoint = "METHOD route",
        /// Digest of a user and a search query.
        SearchHash = "hash of user and query",
        /// Shard of the deadline index.
        DeadlineShard = "0..63",
        /// Shard of the presence changes.
        WatchShard = "0..255",
    }
}

impl IdKind {
    /// Name of the kind in error messages.
    pub const fn label(self) -> &'static str {
        match self {
            Self::User => "user id",
            Self::Conversation => "conversation id",
            Self::Socket => "socket id",
            Self::Device => "device id",
            Self::Admin => "agent id",
            Self::Node => "node id",
            Self::Job => "job name",
            Self::Limiter => "limiter id",
            Self::Endpoint => "endpoint",
            Self::SearchHash => "search hash",
            Self::DeadlineShard => "deadline shard",
            Self::WatchShard => "watch shard",
        }
    }

    /// A valid identifier of this kind, for examples.
    pub const fn example(self) -> &'static str {
        match self {
            Self::User => "alice",
            Self::Conversation => "c42",
            Self::Socket => "Zk3vXq9mT0aB1cD2AAAB",
            Self::Device => "phone",
            Self::Admin => "agent7",
            Self::Node => "node-1",
            Self::Job => "unread-reminder",
            Self::Limiter => "user:123",
            Self::Endpoint => "GET /v1/conversations/:id",
            Self::SearchHash => "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
            Self::DeadlineShard => "17",
            Self::WatchShard => "201",
        }
    }

    /// True if the identifier may contain `:` and therefore must be the last part of a key.
    pub const fn may_contain_colon(self) -> bool {
        matches!(self, Self::Limiter | Self::Endpoint)
    }

    /// Words that this kind rejects, because one key could then belong to two declarations.
    pub const fn reserved_words(self) -> &'static [&'static str] {
        match self {
            Self::User | Self::Admin => RESERVED_USERS,
            Self::Conversation => RESERVED_CONVERSATIONS,
            _ => &[],
        }
    }

    /// Validates a text.
    pub fn validate(self, text: &str) -> Result<(), InvalidId> {
        match self.find_problem(text) {
            None => Ok(()),
            Some(problem) => Err(InvalidId::new(self, text, problem)),
        }
    }

    fn find_problem(self, text: &str) -> Option<IdProblem> {
        match self {
            Self::Limiter => check_length_and_chars(text, MAX_LIMITER_ID_BYTES, is_limiter_char),
            Self::Endpoint => check_length_and_chars(text, MAX_ENDPOINT_BYTES, is_endpoint_char)
                .or_else(|| (!is_method_and_route(text)).then_some(IdProblem::NotMethodAndRoute)),
            Self::SearchHash => {
                match check_length_and_chars(text, 32, |c| matches!(c, '0'..='9' | 'a'..='f')) {
                    None if text.len() < 32 => Some(IdProblem::Length(text.len())),
                    problem => problem,
                }
            }
            Self::DeadlineShard => check_number(text, 63),
            Self::WatchShard => check_number(text, 255),
            _ if self.reserved_words().contains(&text) => Some(IdProblem::Reserved),
            _ => check_length_and_chars(text, MAX_ID_BYTES, is_id_char),
        }
    }

    fn describe_rules(self) -> String {
        match self {
            Self::Limiter => {
                format!(
                    "1 to {MAX_LIMITER_ID_BYTES} printable ASCII characters without spaces and braces"
                )
            }
            Self::Endpoint => format!(
                "a method, a space and a route template such as GET /v1/users/:id, at most {MAX_ENDPOINT_BYTES} characters"
            ),
            Self::SearchHash => "32 lower-case hexadecimal digits".to_owned(),
            Self::DeadlineShard => "a number from 0 to 63".to_owned(),
            Self::WatchShard => "a number from 0 to 255".to_owned(),
            _ => {
                let mut text = format!("1 to {MAX_ID_BYTES} of {ID_ALPHABET}");
                if let [first, rest @ ..] = self.reserved_words() {
                    text.push_str(", except ");
                    text.push_str(first);
                    for word in rest {
                        text.push_str(", ");
                        text.push_str(word);
                    }
                }
                text
            }
        }
    }
}

const fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+' | '=' | '~' | '|')
}

const fn is_limiter_char(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '{' | '}')
}

const fn is_endpoint_char(c: char) -> bool {
    is_limiter_char(c) || c == ' '
}

/// Checks for `GET /path` or `GET_/path`. The route of unmatched requests is `*`.
fn is_method_and_route(text: &str) -> bool {
    let method = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let Some(route) = text[method..].strip_prefix([' ', '_']) else {
        return false;
    };
    method > 0 && (route.starts_with('/') || route == "*") && !route.contains(' ')
}

fn check_length_and_chars(text: &str, max: usize, fits: fn(char) -> bool) -> Option<IdProblem> {
    if text.is_empty() {
        return Some(IdProblem::Empty);
    }
    if let Some((index, bad)) = text.chars().enumerate().find(|(_, c)| !fits(*c)) {
        return Some(IdProblem::Character(bad, index + 1));
    }
    (text.len() > max).then_some(IdProblem::Length(text.len()))
}

/// Each number has one valid text: no sign, no leading zero.
fn check_number(text: &str, max: u16) -> Option<IdProblem> {
    if text.is_empty() {
        return Some(IdProblem::Empty);
    }
    match text.parse::<u16>() {
        Ok(value) if value <= max && value.to_string() == text => None,
        _ => Some(IdProblem::NotInRange),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdProblem {
    Empty,
    Length(usize),
    Character(char, usize),
    Reserved,
    NotInRange,
    NotMethodAndRoute,
}

impl fmt::Display for IdProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Length(bytes) => write!(f, "it has {bytes} characters"),
            Self::Character(bad, place) => write!(f, "it has {bad:?} as character {place}"),
            Self::Reserved => f.write_str("the word is reserved because it is part of a key"),
            Self::NotMethodAndRoute => f.write_str("it is not a method and a route"),
            Self::NotInRange => f.write_str("it is not a number in the allowed range"),
        }
    }
}

/// A text is not a valid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {value:?} is not allowed: {problem}; use {}", .kind.label(), .kind.describe_rules())]
pub struct InvalidId {
    kind: IdKind,
    value: String,
    problem: IdProblem,
}

impl InvalidId {
    fn new(kind: IdKind, value: &str, problem: IdProblem) -> Self {
        const MAX_SHOWN_CHARS: usize = 40;
        let mut shown: String = value.chars().take(MAX_SHOWN_CHARS).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        Self {
            kind,
            value: shown,
            problem,
        }
    }
}
