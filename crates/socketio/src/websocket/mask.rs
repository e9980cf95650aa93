//! Masking of client frames: each byte is XORed with one of the four bytes of the masking key.

/// Masks or unmasks `bytes` in place. `offset` is the position of `bytes` in the payload.
pub fn apply_mask(bytes: &mut [u8], key: [u8; 4], offset: usize) {
    let key: [u8; 4] = std::array::from_fn(|i| key[(offset + i) % 4]);
    let wide = u64::from_ne_bytes([
        key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3],
    ]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}
