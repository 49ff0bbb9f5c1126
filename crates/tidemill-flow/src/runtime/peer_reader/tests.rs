//! Bytes in whatever pieces they come.

use super::*;
use proptest::prelude::*;

/// Bytes that come in pieces of these sizes, one a call.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    calls: usize,
}

impl Read for Pieces {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(target)])
    }

    fn read_vectored(&mut self, targets: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let size = self.sizes[self.calls % self.sizes.len()];
        self.calls += 1;
        let mut piece = &self.bytes[self.at..(self.at + size).min(self.bytes.len())];
        let mut count = 0;
        for target in targets {
            count += piece.read(target)?;
        }
        self.at += count;
        Ok(count)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In whatever pieces bytes come, and whatever is asked for, they come once and in order.
    #[test]
    fn what_is_read_ahead_is_what_comes_next(
        wanted in prop::collection::vec(0_usize..100_000, 1..20),
        sizes in prop::collection::vec(1_usize..200_000, 1..8),
    ) {
        let total: usize = wanted.iter().sum();
        let bytes: Vec<u8> = (0..=250).cycle().take(total).collect();
        let pieces = Pieces { bytes: bytes.clone(), at: 0, sizes, calls: 0 };
        let mut ahead = ReadAhead::new(Box::new(pieces));
        let mut read = Vec::new();
        for count in wanted {
            let mut piece = vec![0; count];
            ahead.fill(&mut piece).unwrap();
            read.extend(piece);
        }
        prop_assert!(read == bytes);
        let error = ahead.fill(&mut [0]).unwrap_err();
        prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
