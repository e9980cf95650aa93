//! What each kind of identifier may look like.
//!
//! Always true: an identifier that passed these rules has no brace and no blank, and no `:` unless it can only stand at the end of a key.
//! So a key can be taken apart again in exactly one way, and a hash tag cannot be forged.

use std::fmt;

/// Most bytes of an ordinary identifier.
pub const MAX_ID_BYTES: usize = 128;
/// Most bytes of a limiter id.
pub const MAX_LIMITER_ID_BYTES: usize = 256;
/// Most bytes of a `METHOD route` name.
pub const MAX_ENDPOINT_BYTES: usize = 256;

const ID_ALPHABET: &str = "A-Z a-z 0-9 . _ - @ + = ~ |";
/// Words that stand where a user id stands in another documented key.
const RESERVED_USERS: &[&str] = &["status", "online", "sockets"];
/// Words that stand where a conversation id stands in another documented key.
const RESERVED_CONVERSATIONS: &[&str] = &["total"];

/// A kind of identifier that stands in a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A person, agent or visitor: `{user}`.
    User,
    /// A conversation: `{conv}`.
    Conversation,
    /// A socket: `{socket}`.
    Socket,
    /// A device of a user; a hash field, never part of a key.
    Device,
    /// A support agent, who is a user: `{admin}`.
    Admin,
    /// A running Parlor: `{node}`.
    Node,
    /// A periodic job: `{job}`.
    Job,
    /// What a rate limit counts by: `{id}`.
    Limiter,
    /// An HTTP method and a route template: `{METHOD route}`.
    Endpoint,
    /// The digest of a search: `{hash of user and query}`.
    SearchHash,
    /// A part of the deadlines index: `{0..63}`.
    DeadlineShard,
    /// A channel of presence changes: `{0..255}`.
    WatchShard,
}

impl IdKind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::User,
        Self::Conversation,
        Self::Socket,
        Self::Device,
        Self::Admin,
        Self::Node,
        Self::Job,
        Self::Limiter,
        Self::Endpoint,
        Self::SearchHash,
        Self::DeadlineShard,
        Self::WatchShard,
    ];

    /// The word between the braces of a pattern.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Conversation => "conv",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Admin => "admin",
            Self::Node => "node",
            Self::Job => "job",
            Self::Limiter => "id",
            Self::Endpoint => "METHOD route",
            Self::SearchHash => "hash of user and query",
            Self::DeadlineShard => "0..63",
            Self::WatchShard => "0..255",
        }
    }

    /// What the kind is called in an error.
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

    /// Whether the identifier may hold a `:` and so can only end a key.
    pub const fn may_contain_colon(self) -> bool {
        matches!(self, Self::Limiter | Self::Endpoint)
    }

    /// Words that this kind refuses because they would make two keys look alike.
    pub const fn reserved_words(self) -> &'static [&'static str] {
        match self {
            Self::User | Self::Admin => RESERVED_USERS,
            Self::Conversation => RESERVED_CONVERSATIONS,
            _ => &[],
        }
    }

    /// Checks `text` by the rules of this kind.
    pub fn check(self, text: &str) -> Result<(), InvalidId> {
        match self.find_problem(text) {
            None => Ok(()),
            Some(fault) => Err(InvalidId::new(self, text, fault)),
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
                    fault => fault,
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

/// `GET /path` or `GET_/path`; the route of what no route matched is `*`.
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

/// One spelling per number: no sign, no leading zero.
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

/// An identifier was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {value:?} is not allowed: {problem}; use {}", .kind.label(), .kind.describe_rules())]
pub struct InvalidId {
    kind: IdKind,
    value: String,
    problem: IdProblem,
}

impl InvalidId {
    /// The code that every gateway answers with.
    pub const CODE: &'static str = "invalid_id";

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

    /// The stable code, [`InvalidId::CODE`].
    pub const fn code(&self) -> &'static str {
        Self::CODE
    }

    /// Which kind of identifier was meant.
    pub const fn kind(&self) -> IdKind {
        self.kind
    }
}
