//! UTF-8 text that arrives in pieces, split at any byte. It is validated as it arrives, not at its end.

/// Valid text so far, and the bytes of a code point that has not arrived completely.
#[derive(Debug, Default)]
pub(super) struct IncrementalUtf8 {
    valid: String,
    partial: [u8; 4],
    partial_len: usize,
}

/// The bytes are not UTF-8, regardless of the bytes that follow.
#[derive(Debug)]
pub(super) struct InvalidUtf8;

impl IncrementalUtf8 {
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), InvalidUtf8> {
        while self.partial_len > 0 {
            let Some((&byte, rest)) = bytes.split_first() else {
                return Ok(());
            };
            bytes = rest;
            // An incomplete code point has at most three bytes, so there is space for one more.
            self.partial[self.partial_len] = byte;
            self.partial_len += 1;
            match std::str::from_utf8(&self.partial[..self.partial_len]) {
                Ok(text) => {
                    self.valid.push_str(text);
                    self.partial_len = 0;
                }
                Err(error) if error.error_len().is_some() => return Err(InvalidUtf8),
                Err(_) => {}
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => self.valid.push_str(text),
            Err(error) if error.error_len().is_some() => return Err(InvalidUtf8),
            Err(error) => {
                let (text, partial) = bytes.split_at(error.valid_up_to());
                self.valid
                    .push_str(std::str::from_utf8(text).map_err(|_| InvalidUtf8)?);
                self.partial[..partial.len()].copy_from_slice(partial);
                self.partial_len = partial.len();
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.valid.len() + self.partial_len
    }

    pub(super) fn capacity(&self) -> usize {
        self.valid.capacity()
    }

    pub(super) fn finish(self) -> Result<String, InvalidUtf8> {
        if self.partial_len == 0 {
            Ok(self.valid)
        } else {
            Err(InvalidUtf8)
        }
    }
}
