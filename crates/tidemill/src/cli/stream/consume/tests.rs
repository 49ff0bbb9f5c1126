//! What a group has behind it was written.

use super::*;
use tidemill_client::{CallError, ErrorCode, Refusal};

/// Takes so many bytes, and then nobody reads any more.
struct Reader(usize);

impl Write for Reader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn offsets_of_lines_that_nobody_took_are_not_committed() {
    let mut gathered = PendingLines::default();
    gathered.out.extend_from_slice(b"one\n");
    gathered.taken.insert(0, 1);
    gathered.flush(&mut Reader(100)).unwrap();
    gathered.out.extend_from_slice(b"two\nthree\n");
    gathered.taken.extend([(0, 3), (1, 9)]);
    let error = gathered.flush(&mut Reader(5)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    // At the end all that is left is written once more.
    gathered.flush(&mut Reader(100)).unwrap();
    assert_eq!(gathered.written, BTreeMap::from([(0, 1)]));
}

#[test]
fn a_coordinator_that_is_away_for_a_while_ends_nothing() {
    let away = || {
        let (address, reason) = ("127.0.0.1:1".to_owned(), "connection refused".to_owned());
        AdminError::from(CallError::Unreachable { address, reason })
    };
    let refused = |code| {
        let refusal = Refusal { code, message: None };
        AdminError::Refused { subject: "group `g`".to_owned(), refusal }
    };
    let mut commits = Commits::default();
    assert_eq!(commits.not_the_last(Ok(())), Ok(None));
    assert_eq!(commits.not_the_last(Err(away())), Ok(Some(away())));
    let loading = refused(ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(commits.not_the_last(Err(loading)), Ok(None), "it was told");
    assert_eq!(commits.not_the_last(Ok(())), Ok(None));
    assert_eq!(commits.not_the_last(Err(away())), Ok(Some(away())), "it is told again");
    let members = refused(ErrorCode::UnknownMemberId);
    assert_eq!(commits.not_the_last(Err(members.clone())), Err(members));
}
