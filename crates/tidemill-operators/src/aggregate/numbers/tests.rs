//! What is held as a whole number comes back as it was.

use super::*;
use arrow_array::UInt64Array;
use arrow_buffer::NullBuffer;
use proptest::prelude::*;
use std::sync::Arc;

fn decimals(values: Vec<Option<i128>>, digits: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from(values).with_precision_and_scale(digits, scale);
    Arc::new(array.expect("values of so many digits"))
}

fn held_and_back(column: &ArrayRef) -> ArrayRef {
    assert_eq!(held(column.data_type()), Some(NumberKind::Wide));
    let ArgColumn::Wide(wide) = ArgColumn::new(column, NumberKind::Wide).expect("it fits") else {
        panic!("wide numbers");
    };
    from_wide(&wide, column.data_type()).expect("what it was")
}

proptest! {
    #[test]
    fn decimals_are_held_to_the_last_digit(
        values in prop::collection::vec(prop::option::of(-999_999_999_i128..=999_999_999), 0..50),
        (digits, kind) in (9_u8..=38, 0..3_usize), scale in -3_i8..=9,
    ) {
        let longer = 10_i128.pow(u32::from(digits) - 9);
        let scaled = |it: Option<i128>| it.map(|it| it * longer);
        let wide = decimals(values.into_iter().map(scaled).collect(), digits, scale);
        let narrow = [DataType::Decimal32(9, scale), DataType::Decimal64(digits, scale)];
        let fits = [digits == 9, digits <= 18, false];
        let column = match narrow.get(kind).filter(|_| fits[kind]) {
            Some(to) => safe_cast(&wide, to).expect("it fits"),
            None => Arc::clone(&wide),
        };
        let back = held_and_back(&column);
        prop_assert_eq!(back.to_data(), column.to_data());
    }
}

#[test]
fn unsigned_numbers_are_held_as_they_are() {
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0)]));
    assert_eq!(&held_and_back(&column), &column);
}

#[test]
fn what_stands_under_a_null_is_not_looked_at() {
    let nulls = NullBuffer::from(vec![true, false, false, true]);
    let numbers = vec![150, i128::MIN, i128::MAX, -5];
    let array = Decimal128Array::new(numbers.into(), Some(nulls));
    let array = array.with_precision_and_scale(12, 2).expect("digits of what is there");
    let column: ArrayRef = Arc::new(array);
    assert_eq!(&held_and_back(&column), &column);
    // A file may say that there are fewer digits than there are.
    let long = Decimal128Array::from(vec![i128::MAX]).with_data_type(DataType::Decimal128(12, 2));
    assert!(ArgColumn::new(&(Arc::new(long) as ArrayRef), NumberKind::Wide).is_err());
}
