//! Hash slots of Redis Cluster. Strict mode uses them to reject scripts with keys of two slots.

/// Hash slot of a key: CRC16 modulo 16384 of its hash tag, or of the whole key if it has no hash tag.
pub fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % 16_384
}

/// Hash tag of a key: the part between the first `{` and the next `}` if that is not empty, otherwise the whole key.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&c| c == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|&c| c == b'}') {
        Some(close) if close > 0 => &rest[..close],
        _ => key,
    }
}

/// CRC16-CCITT (XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::slot as of;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(of(b"123456789"), 0x31C3);
        assert_eq!(of(b"foo"), 12_182);
        assert_eq!(of(b"unread:{u1}:c1"), of(b"{u1}"));
        assert_eq!(of(b"{user1000}.following"), of(b"user1000"));
        assert_eq!(of(b"foo{}{bar}"), of(b"foo{}{bar}"));
        assert_eq!(of(b"foo{{bar}}zap"), of(b"{bar"));
    }
}
