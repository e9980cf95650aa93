//! WebSocket frames (RFC 6455), server side: [`FrameParser`] parses what a client sends, the `encode_…`
//! functions encode what the server sends.
//!
//! Invariants:
//! 1. No extension is supported: a frame with a reserved bit is rejected.
//! 2. A text message from the parser is valid UTF-8. Invalid text is rejected at the first invalid byte.
//! 3. A parser without an incomplete frame or message holds no memory. Otherwise it holds at most twice the bytes that
//!    have arrived: an announced length allocates nothing.

mod encode;
mod header;
mod mask;
mod parser;
mod partial_message;

pub use encode::{
    encode_binary, encode_close, encode_frame, encode_frame_with, encode_pong, encode_text,
};
pub use mask::apply_mask;
pub use parser::{FrameParser, WebSocketMessage};

/// Type of a frame.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// Next fragment of a message.
    Continuation = 0x0,
    /// Start of a text message.
    Text = 0x1,
    /// Start of a binary message.
    Binary = 0x2,
    /// Close frame.
    Close = 0x8,
    /// Ping; the receiver answers with a pong that has the same payload.
    Ping = 0x9,
    /// Answer to a ping.
    Pong = 0xa,
}

impl Opcode {
    fn from_bits(bits: u8) -> Option<Self> {
        [
            Self::Continuation,
            Self::Text,
            Self::Binary,
            Self::Close,
            Self::Ping,
            Self::Pong,
        ]
        .into_iter()
        .find(|opcode| *opcode as u8 == bits)
    }

    /// True for frames that may stand between the fragments of a message.
    fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The client broke the protocol or a limit, so the connection must be closed with [`FrameError::close_code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Bytes that are no valid frame, or a frame that is not allowed at this point.
    #[error("bad WebSocket frame: {0}")]
    Protocol(&'static str),
    /// A text message or a close reason that is not UTF-8.
    #[error("text that is not UTF-8")]
    InvalidUtf8,
    /// A message above the limit.
    #[error("message of more than {0} bytes; send it in parts or raise the limit")]
    MessageTooLarge(usize),
}

impl FrameError {
    /// Status code of the close frame.
    pub fn close_code(self) -> u16 {
        match self {
            Self::Protocol(_) => 1002,
            Self::InvalidUtf8 => 1007,
            Self::MessageTooLarge(_) => 1009,
        }
    }
}
