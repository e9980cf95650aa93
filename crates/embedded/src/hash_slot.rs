//! Hash slots of Redis Cluster. Strict mode uses them to reject scripts with keys of two slots.

/// Hash slot of a key: CRC16 modulo 16384 of its hash tag, or of the whole key if it has no hash tag.
pub fn key_hash_slot(key: &[u8]) -> u16 {
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
    use super::key_hash_slot as slot;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"unread:{u1}:c1"), slot(b"{u1}"));
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), slot(b"foo{}{bar}"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }
}
