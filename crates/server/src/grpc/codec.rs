//! Protocol Buffers codec of all methods.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::BufferSettings;
use tonic_prost::{ProstDecoder, ProstEncoder};

/// Initial size of the buffer that each call and each open stream holds. Most replies fit; a longer one grows the
/// buffer.
const BUFFER_BYTES: usize = 256;
/// Buffer size from which the buffer is sent before more messages are encoded.
const YIELD_THRESHOLD_BYTES: usize = 16 * 1024;

/// Protocol Buffers with small buffers, because there are many streams and most of them are idle.
#[derive(Debug)]
pub struct SmallBufferCodec<E, D>(PhantomData<(E, D)>);

impl<E, D> Default for SmallBufferCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> tonic::codec::Codec for SmallBufferCodec<E, D>
where
    E: Message + Send + 'static,
    D: Message + Default + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = ProstEncoder<E>;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_THRESHOLD_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_THRESHOLD_BYTES))
    }
}
