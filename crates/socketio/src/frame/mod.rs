//! WebSocket frames (RFC 6455), the server's side of them: [`Parser`] reads what a client sends, [`mod@write`] makes what it is sent.
//!
//! Always true:
//! 1. No extension is spoken: a frame with a reserved bit is refused.
//! 2. A text message handed out is valid UTF-8, and a broken one is refused at the first byte that makes it so.
//! 3. A parser with nothing unfinished holds no memory, and with something unfinished at most
//!    twice what has arrived of it: a length that is only announced costs nothing.

mod header;
mod mask;
mod parser;
mod text;
mod unfinished;
pub mod write;

pub use mask::apply_mask;
pub use parser::{FrameParser, WebSocketMessage};

/// What a frame is, by its four bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// More of the message before.
    Continuation,
    /// The begin of a text message.
    Text,
    /// The begin of a binary message.
    Binary,
    /// The end of the connection.
    Close,
    /// To be answered by a pong with the same bytes.
    Ping,
    /// The answer to a ping.
    Pong,
}

impl Opcode {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xa => Self::Pong,
            _ => return None,
        })
    }

    fn to_bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xa,
        }
    }

    /// Whether it may stand between the fragments of a message.
    fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// Why a connection is at its end: the peer broke the protocol or a bound. [`Violation::code`] goes into the close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Bytes that are no frame, or a frame where it may not be.
    #[error("bad WebSocket frame: {0}")]
    Protocol(&'static str),
    /// A text message or a close reason that is not UTF-8.
    #[error("text that is not UTF-8")]
    InvalidUtf8,
    /// A message above the bound.
    #[error("message of more than {0} bytes; send it in parts or raise the limit")]
    MessageTooLarge(usize),
}

impl FrameError {
    /// The status code of the close frame to answer with.
    #[must_use]
    pub fn close_code(self) -> u16 {
        match self {
            Self::Protocol(_) => 1002,
            Self::InvalidUtf8 => 1007,
            Self::MessageTooLarge(_) => 1009,
        }
    }
}
