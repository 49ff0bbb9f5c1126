//! What is held as a whole number comes back as it was.

use super::*;
use arrow_array::{Decimal128Array, UInt64Array};
use proptest::prelude::*;
use std::sync::Arc;

fn decimals(values: Vec<Option<i128>>, digits: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from(values).with_precision_and_scale(digits, scale);
    Arc::new(array.expect("values of so many digits"))
}

proptest! {
    #[test]
    fn decimals_are_held_to_the_last_digit(
        values in prop::collection::vec(prop::option::of(-999_999_999_i128..=999_999_999), 0..50),
        (digits, kind) in (9_u8..=18, 0..3_usize), scale in -3_i8..=9,
    ) {
        let longer = i128::from(10_u64.pow(u32::from(digits) - 9));
        let scaled = |it: Option<i128>| it.map(|it| it * longer);
        let wide = decimals(values.into_iter().map(scaled).collect(), digits, scale);
        let narrow = [DataType::Decimal32(9, scale), DataType::Decimal64(digits, scale)];
        let column = match narrow.get(kind).filter(|_| kind > 0 || digits == 9) {
            Some(to) => safe_cast(&wide, to).expect("it fits"),
            None => Arc::clone(&wide),
        };
        let data_type = column.data_type().clone();
        prop_assert_eq!(held(&data_type), Some(Held::Int));
        let ArgColumn::Int(ints) = ArgColumn::new(&column, Held::Int).expect("it fits") else {
            panic!("integers");
        };
        let back = from_ints(ints.clone(), &data_type).expect("it came from there");
        prop_assert_eq!(back.to_data(), column.to_data());
        let sums = from_ints(ints, &DataType::Decimal128(38, scale)).expect("it has room");
        prop_assert_eq!(&sums, &safe_cast(&wide, &DataType::Decimal128(38, scale)).expect("room"));
    }
}

#[test]
fn long_decimals_are_floats() {
    let long = decimals(vec![Some(10_i128.pow(20)), None, Some(-25)], 38, 2);
    assert_eq!(held(long.data_type()), Some(Held::Float));
    let ArgColumn::Float(floats) = ArgColumn::new(&long, Held::Float).expect("any fits") else {
        panic!("floats");
    };
    assert_eq!(floats, Float64Array::from(vec![Some(1e18), None, Some(-0.25)]));
}

#[test]
fn an_unsigned_number_beyond_the_signed_ones_does_not_fit() {
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![1 << 63]));
    assert!(ArgColumn::new(&column, Held::Int).is_err());
}

#[test]
fn what_stands_under_a_null_is_not_looked_at() {
    let nulls = NullBuffer::from(vec![true, false, false, true]);
    let numbers = vec![150, i128::MIN, i128::MAX, -5];
    let array = Decimal128Array::new(numbers.into(), Some(nulls));
    let array = array.with_precision_and_scale(12, 2).expect("digits of what is there");
    let column: ArrayRef = Arc::new(array);
    let ArgColumn::Int(ints) = ArgColumn::new(&column, Held::Int).expect("it fits") else {
        panic!("integers");
    };
    assert_eq!(ints, Int64Array::from(vec![Some(150), None, None, Some(-5)]));
    let back = from_ints(ints, column.data_type()).expect("it came from there");
    assert_eq!(&back, &column);
    // A file may say that there are fewer digits than there are.
    let long = Decimal128Array::from(vec![i128::MAX]).with_data_type(DataType::Decimal128(12, 2));
    assert!(ArgColumn::new(&(Arc::new(long) as ArrayRef), Held::Int).is_err());
}
