//! Text that arrives in pieces cut anywhere, also inside a code point. It is checked as it arrives, not at its end.

/// The text so far and the begin of a code point whose rest has not arrived.
#[derive(Debug, Default)]
pub(super) struct Text {
    whole: String,
    cut: [u8; 4],
    cut_len: usize,
}

/// The bytes are not UTF-8, whatever follows.
#[derive(Debug)]
pub(super) struct NotUtf8;

impl Text {
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), NotUtf8> {
        while self.cut_len > 0 {
            let Some((&byte, rest)) = bytes.split_first() else {
                return Ok(());
            };
            bytes = rest;
            // A begin that could still become a code point has at most three bytes.
            self.cut[self.cut_len] = byte;
            self.cut_len += 1;
            match std::str::from_utf8(&self.cut[..self.cut_len]) {
                Ok(text) => {
                    self.whole.push_str(text);
                    self.cut_len = 0;
                }
                Err(error) if error.error_len().is_some() => return Err(NotUtf8),
                Err(_) => {}
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => self.whole.push_str(text),
            Err(error) if error.error_len().is_some() => return Err(NotUtf8),
            Err(error) => {
                let (text, cut) = bytes.split_at(error.valid_up_to());
                self.whole
                    .push_str(std::str::from_utf8(text).map_err(|_| NotUtf8)?);
                self.cut[..cut.len()].copy_from_slice(cut);
                self.cut_len = cut.len();
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.whole.len() + self.cut_len
    }

    pub(super) fn capacity(&self) -> usize {
        self.whole.capacity()
    }

    pub(super) fn finish(self) -> Result<String, NotUtf8> {
        if self.cut_len == 0 {
            Ok(self.whole)
        } else {
            Err(NotUtf8)
        }
    }
}
