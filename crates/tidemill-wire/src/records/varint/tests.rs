//! Numbers are read as they were written; what is no number is told apart from what is not whole.

use super::*;
use proptest::prelude::*;

fn read_i32(mut bytes: &[u8]) -> Result<(i32, usize), NoVarint> {
    take_i32(&mut bytes).map(|it| (it, bytes.len()))
}

fn read_i64(mut bytes: &[u8]) -> Result<(i64, usize), NoVarint> {
    take_i64(&mut bytes).map(|it| (it, bytes.len()))
}

fn written(number: i64) -> Vec<u8> {
    let mut into = Vec::new();
    put(&mut into, number);
    assert_eq!(into.len(), bytes_of(number), "{number}");
    into
}

proptest! {
    #[test]
    fn numbers_come_back(number in any::<i64>(), shift in 0u32..64, rest in 0usize..3) {
        let number = number >> shift;
        let mut bytes = written(number);
        for cut in 0..bytes.len() {
            prop_assert_eq!(read_i64(&bytes[..cut]), Err(NoVarint::Cut));
        }
        bytes.resize(bytes.len() + rest, 0xff);
        prop_assert_eq!(read_i64(&bytes), Ok((number, rest)));
        let narrow = i32::try_from(number).map(|it| (it, rest)).map_err(|_| NoVarint::Long);
        prop_assert_eq!(read_i32(&bytes), narrow);
    }
}

#[test]
fn the_ends_of_what_is_a_number() {
    for number in [0, -1, 1, 63, -64, 64, 8191, -8192, 8192, i32::MAX.into(), i32::MIN.into()] {
        assert_eq!(read_i32(&written(number)), Ok((number as i32, 0)));
    }
    assert_eq!(written(-64), [0x7f]);
    assert_eq!(written(64), [0x80, 1]);
    assert_eq!(written(i64::MIN).len(), 10);
    assert_eq!(read_i64(&written(i64::MIN)), Ok((i64::MIN, 0)));
    assert_eq!(read_i64(&written(i64::MAX)), Ok((i64::MAX, 0)));
    // Longer than it need be, up to the most bytes there are.
    assert_eq!(read_i32(&[0x82, 0x80, 0x80, 0x80, 0]), Ok((1, 0)));
    assert_eq!(read_i32(&[0x82, 0x80, 0x80, 0x80, 0x80, 0]), Err(NoVarint::Long));
    assert_eq!(read_i64(&[0xff; 10]), Err(NoVarint::Long));
    // One bit too many.
    assert_eq!(read_i32(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok((i32::MIN, 0)));
    assert_eq!(read_i32(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(NoVarint::Long));
    let mut widest = [0xff; 10];
    widest[9] = 1;
    assert_eq!(read_i64(&widest), Ok((i64::MIN, 0)));
    widest[9] = 2;
    assert_eq!(read_i64(&widest), Err(NoVarint::Long));
}
