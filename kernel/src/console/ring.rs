//! Fixed byte rings: the message buffer, which forgets the oldest bytes, and
//! the input queue, which refuses the newest.

/// The last `N` bytes written.
#[derive(Debug)]
pub struct MessageRing<const N: usize> {
    bytes: [u8; N],
    /// Where the next byte goes.
    next: usize,
    /// Bytes held, at most `N`.
    len: usize,
}

impl<const N: usize> MessageRing<N> {
    /// A ring with nothing in it.
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            next: 0,
            len: 0,
        }
    }

    /// Appends `text`; where the ring is full the oldest bytes go.
    pub fn write(&mut self, text: &[u8]) {
        for &byte in text {
            if let Some(slot) = self.bytes.get_mut(self.next) {
                *slot = byte;
            }
            self.next = if self.next + 1 >= N { 0 } else { self.next + 1 };
            self.len = (self.len + 1).min(N);
        }
    }

    /// What the ring holds, oldest first, in two pieces.
    pub fn contents(&self) -> (&[u8], &[u8]) {
        let (after, before) = self.bytes.split_at(self.next);
        if self.len < N {
            (after, &[])
        } else {
            (before, after)
        }
    }
}

impl<const N: usize> Default for MessageRing<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn text<const N: usize>(ring: &MessageRing<N>) -> Vec<u8> {
        let (older, newer) = ring.contents();
        [older, newer].concat()
    }

    #[test]
    fn a_ring_that_is_not_full_gives_back_what_was_written() {
        let mut ring = MessageRing::<8>::new();
        assert_eq!(text(&ring), b"", "a new ring is empty");
        ring.write(b"abc");
        assert_eq!(text(&ring), b"abc", "three bytes of eight");
    }

    #[test]
    fn a_full_ring_forgets_the_oldest_bytes() {
        let mut ring = MessageRing::<8>::new();
        ring.write(b"abcdefgh");
        assert_eq!(text(&ring), b"abcdefgh", "exactly full");
        ring.write(b"ij");
        assert_eq!(text(&ring), b"cdefghij", "two more push two out");
        ring.write(b"0123456789");
        assert_eq!(text(&ring), b"23456789", "more than a whole ring at once");
    }
}
