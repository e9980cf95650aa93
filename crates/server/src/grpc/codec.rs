//! Messages to bytes and back.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::BufferSettings;
use tonic_prost::{ProstDecoder, ProstEncoder};

/// What a call, and a stream for as long as it is open, holds to write to. The usual reply fits; a longer one makes room.
const BUFFER_BYTES: usize = 256;
/// Where a buffer that fills up is sent before more is put into it.
const YIELD_THRESHOLD_BYTES: usize = 16 * 1024;

/// Protocol Buffers with small buffers: streams are many and mostly silent.
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
