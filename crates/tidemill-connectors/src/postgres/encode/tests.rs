//! Rows read back by the client's own reader of binary values, and values that no column holds.

use super::*;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array,
    DictionaryArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int64Array,
    ListArray, NullArray, StringArray, StringViewArray, StructArray, Time32MillisecondArray,
    Time64NanosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt64Array,
    types::{Int8Type, Int32Type},
};
use arrow_schema::{DataType, Field};
use proptest::prelude::*;
use std::sync::Arc;
use tokio_postgres::types::{FromSql, Type};

type Fields = Vec<Option<Vec<u8>>>;

/// Rows as they were written.
fn rows(bytes: &[u8]) -> Vec<Fields> {
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at(count);
        rest = tail;
        head.to_vec()
    };
    let mut rows = Vec::new();
    let mut left = bytes.len();
    while left > 0 {
        let count = i16::from_be_bytes(take(2).try_into().unwrap());
        left -= 2;
        let mut fields = Vec::new();
        for _ in 0..count {
            let length = i32::from_be_bytes(take(4).try_into().unwrap());
            left -= 4;
            fields.push(usize::try_from(length).ok().map(|length| {
                left -= length;
                take(length)
            }));
        }
        rows.push(fields);
    }
    rows
}

fn column(target: PostgresType, index: usize) -> TargetColumn {
    TargetColumn { name: format!("c{index}"), index, target, required: false }
}

fn encoded(columns: &[(ArrayRef, PostgresType)]) -> Result<Vec<Fields>, String> {
    let named =
        columns.iter().enumerate().map(|(at, (array, _))| (format!("c{at}"), Arc::clone(array)));
    let batch =
        RecordBatch::try_from_iter_with_nullable(named.map(|(name, it)| (name, it, true))).unwrap();
    let columns = columns.iter().enumerate().map(|(at, (_, target))| column(*target, at)).collect();
    let mut out = Vec::new();
    match Encoder::new(columns, false).rows(&batch, &mut out) {
        Ok(()) => Ok(rows(&out)),
        Err(EncodeError::Value(Unfit { row, column, why })) => {
            Err(format!("{row} {column}: {why}"))
        }
        Err(EncodeError::Arrow(error)) => Err(error.to_string()),
    }
}

/// The fields of the only column.
fn one(array: impl arrow_array::Array + 'static, target: PostgresType) -> Result<Fields, String> {
    let rows = encoded(&[(Arc::new(array), target)])?;
    Ok(rows.into_iter().map(|mut row| row.remove(0)).collect())
}

fn read<'a, T: FromSql<'a>>(kind: &Type, field: &'a Option<Vec<u8>>) -> Option<T> {
    field.as_deref().map(|it| T::from_sql(kind, it).expect("a value of that type"))
}

fn words(fields: &Fields) -> Vec<i64> {
    fields.iter().map(|it| read(&Type::INT8, it).unwrap()).collect()
}

fn texts(fields: &Fields) -> Vec<&str> {
    fields.iter().map(|it| std::str::from_utf8(it.as_ref().unwrap()).unwrap()).collect()
}

type RowOf = (Option<i64>, Option<f64>, Option<bool>, Option<String>, Option<Vec<u8>>, Option<i32>);

fn any_row() -> impl Strategy<Value = RowOf> {
    let text = proptest::option::of("[^\u{0}]{0,12}");
    (
        any::<Option<i64>>(),
        any::<Option<f64>>(),
        any::<Option<bool>>(),
        text,
        any::<Option<Vec<u8>>>(),
        any::<Option<i32>>(),
    )
}

proptest! {
    #[test]
    fn rows_read_as_themselves(given in proptest::collection::vec(any_row(), 0..20)) {
        let columns: [(ArrayRef, PostgresType); 6] = [
            (Arc::new(Int64Array::from_iter(given.iter().map(|it| it.0))), PostgresType::Int8),
            (Arc::new(Float64Array::from_iter(given.iter().map(|it| it.1))), PostgresType::Float8),
            (Arc::new(BooleanArray::from_iter(given.iter().map(|it| it.2))), PostgresType::Bool),
            (Arc::new(StringArray::from_iter(given.iter().map(|it| it.3.as_deref()))), PostgresType::Text(None)),
            (Arc::new(BinaryArray::from_iter(given.iter().map(|it| it.4.as_deref()))), PostgresType::Bytes),
            (Arc::new(arrow_array::Int32Array::from_iter(given.iter().map(|it| it.5))), PostgresType::Int4),
        ];
        let found = encoded(&columns).unwrap();
        prop_assert_eq!(found.len(), given.len());
        for (row, given) in found.iter().zip(&given) {
            prop_assert_eq!(read::<i64>(&Type::INT8, &row[0]), given.0);
            prop_assert_eq!(read::<f64>(&Type::FLOAT8, &row[1]).map(f64::to_bits), given.1.map(f64::to_bits));
            prop_assert_eq!(read::<bool>(&Type::BOOL, &row[2]), given.2);
            prop_assert_eq!(read::<String>(&Type::TEXT, &row[3]), given.3.clone());
            prop_assert_eq!(read::<Vec<u8>>(&Type::BYTEA, &row[4]), given.4.clone());
            prop_assert_eq!(read::<i32>(&Type::INT4, &row[5]), given.5);
        }
    }

    #[test]
    fn a_number_is_held_as_it_is_or_refused(value: i64, small in -40_000i64..40_000) {
        for value in [value, small] {
            let write = |target| one(Int64Array::from(vec![value]), target).map(|it| it[0].clone());
            let int2 = write(PostgresType::Int2).map(|it| read::<i16>(&Type::INT2, &it).unwrap());
            prop_assert_eq!(int2.ok(), i16::try_from(value).ok());
            let int4 = write(PostgresType::Int4).map(|it| read::<i32>(&Type::INT4, &it).unwrap());
            prop_assert_eq!(int4.ok(), i32::try_from(value).ok());
            if let Ok(it) = write(PostgresType::Float8) {
                prop_assert_eq!(read::<f64>(&Type::FLOAT8, &it).unwrap() as i128, i128::from(value));
            }
            prop_assert_eq!(write(PostgresType::Numeric(Some((4, 0)))).is_ok(), value.unsigned_abs() < 10_000);
            prop_assert_eq!(write(PostgresType::Numeric(Some((6, 2)))).is_ok(), value.unsigned_abs() < 10_000);
        }
    }

    #[test]
    fn no_bytes_of_a_text_panic(value: String, max in proptest::option::of(0u32..9)) {
        for target in [PostgresType::Text(max), PostgresType::Uuid, PostgresType::Json, PostgresType::Jsonb] {
            drop(one(StringArray::from(vec![value.clone()]), target));
        }
    }
}

#[test]
fn moments_days_and_times_are_counted_from_2000() {
    let us = one(
        TimestampMicrosecondArray::from(vec![EPOCH_US, EPOCH_US + 1, 0]),
        PostgresType::Timestamp(None),
    );
    assert_eq!(words(&us.unwrap()), [0, 1, -EPOCH_US]);
    let seconds = one(TimestampSecondArray::from(vec![946_684_801]), PostgresType::Timestamp(None));
    assert_eq!(words(&seconds.unwrap()), [1_000_000]);
    let ns = one(TimestampNanosecondArray::from(vec![-1, 1_999]), PostgresType::Timestamp(None));
    assert_eq!(words(&ns.unwrap()), [-EPOCH_US - 1, -EPOCH_US + 1], "what is finer is cut");
    let times =
        one(Time64NanosecondArray::from(vec![1_500, 86_400_000_000_000]), PostgresType::Time(None));
    assert_eq!(words(&times.unwrap()), [1, DAY_US]);
    let times = one(Time32MillisecondArray::from(vec![61_001]), PostgresType::Time(None));
    assert_eq!(words(&times.unwrap()), [61_001_000]);
    let days =
        one(Date32Array::from(vec![Some(0), Some(10_958), None]), PostgresType::Date).unwrap();
    let days: Vec<Option<i32>> = days.iter().map(|it| read(&Type::INT4, it)).collect();
    assert_eq!(days, [Some(-10_957), Some(1), None]);
    let days = one(Date64Array::from(vec![86_400_000]), PostgresType::Date).unwrap();
    assert_eq!(read::<i32>(&Type::INT4, &days[0]), Some(-10_956));

    let far = one(TimestampSecondArray::from(vec![0, i64::MAX]), PostgresType::Timestamp(None));
    assert!(far.unwrap_err().starts_with("1 c0: the moment is not between"));
    let late = one(TimestampMicrosecondArray::from(vec![i64::MAX]), PostgresType::Timestamp(None));
    assert_eq!(words(&late.unwrap()), [i64::MAX - EPOCH_US], "in the year 294247");
    assert!(
        one(TimestampMicrosecondArray::from(vec![i64::MIN]), PostgresType::Timestamp(None))
            .is_err()
    );
    assert!(one(Date32Array::from(vec![i32::MIN]), PostgresType::Date).is_err());
    assert!(one(Date32Array::from(vec![i32::MAX]), PostgresType::Date).is_err());
    assert!(one(Time64NanosecondArray::from(vec![-1]), PostgresType::Time(None)).is_err());
}

#[test]
fn what_is_finer_than_the_column_is_refused() {
    let moment = |us: i64, digits| {
        one(TimestampMicrosecondArray::from(vec![us]), PostgresType::Timestamp(digits)).map(|_| ())
    };
    let refused = Err("0 c0: it has more digits of a second than the 3 of the column".to_owned());
    assert_eq!(moment(999_600, Some(3)), refused);
    assert_eq!(moment(-1, Some(3)), refused, "before 1970");
    assert_eq!(moment(999_000, Some(3)), Ok(()));
    assert!(moment(100_000, Some(0)).is_err() && moment(-1_000_000, Some(0)).is_ok());
    assert!(moment(1, Some(5)).is_err() && moment(1, None).is_ok());
    let time = |ns: i64| one(Time64NanosecondArray::from(vec![ns]), PostgresType::Time(Some(3)));
    assert!(time(1_500_000).unwrap_err().contains("the 3 of the column"));
    assert_eq!(words(&time(2_000_000).unwrap()), [2_000]);
}

#[test]
fn nested_values_are_json() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let fields = one(list, PostgresType::Jsonb).unwrap();
    assert_eq!(fields, [Some(b"\x01[1,null]".to_vec()), None]);
    let field = |name: &str, kind| Arc::new(Field::new(name, kind, true));
    let object = StructArray::from(vec![
        (
            field("a", DataType::Utf8),
            Arc::new(StringArray::from(vec!["x\"\\", "\\u0000"])) as ArrayRef,
        ),
        (
            field("b", DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None)),
            Arc::new(TimestampMicrosecondArray::from(vec![0, 1])),
        ),
    ]);
    let fields = one(object, PostgresType::Json).unwrap();
    assert_eq!(
        texts(&fields),
        [
            r#"{"a":"x\"\\","b":"1970-01-01T00:00:00Z"}"#,
            r#"{"a":"\\u0000","b":"1970-01-01T00:00:00.000001Z"}"#
        ]
    );
    let object = StructArray::from(vec![(
        field("a", DataType::Utf8),
        Arc::new(StringArray::from(vec!["\0"])) as ArrayRef,
    )]);
    assert!(one(object, PostgresType::Jsonb).unwrap_err().contains("NUL"));
}

#[test]
fn texts_go_where_they_fit() {
    let text = |value: &str, target| one(StringArray::from(vec![value]), target);
    let uuid = text("{0f0E0d0c-0b0a-0908-0706-050403020100}", PostgresType::Uuid).unwrap();
    assert_eq!(
        uuid[0].as_deref(),
        Some([15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0].as_slice())
    );
    let json = text(r#"{"a": "\\u0000"}"#, PostgresType::Jsonb).unwrap();
    assert_eq!(texts(&json), ["\u{1}{\"a\": \"\\\\u0000\"}"]);
    assert!(text("äöü", PostgresType::Text(Some(3))).is_ok(), "characters count, not bytes");
    let refused = |value: &str, target, expected: &str| {
        let error = text(value, target).unwrap_err();
        assert!(error.starts_with("0 c0: ") && error.contains(expected), "{error}");
    };
    refused("abcd", PostgresType::Text(Some(3)), "3 characters");
    refused("a\0b", PostgresType::Text(None), "NUL");
    refused("0f0e", PostgresType::Uuid, "no UUID");
    refused(&"0".repeat(33), PostgresType::Uuid, "no UUID");
    refused("{a", PostgresType::Jsonb, "no JSON");
    refused(r#"["\u0000"]"#, PostgresType::Jsonb, "NUL");
}

#[test]
fn other_layouts_are_the_same_values() {
    assert_eq!(
        texts(&one(StringViewArray::from(vec!["a"]), PostgresType::Text(None)).unwrap()),
        ["a"]
    );
    let dictionary: DictionaryArray<Int8Type> = ["a", "b", "a"].into_iter().collect();
    assert_eq!(texts(&one(dictionary, PostgresType::Text(None)).unwrap()), ["a", "b", "a"]);
    assert_eq!(words(&one(Int16Array::from(vec![-3]), PostgresType::Int8).unwrap()), [-3]);
    let single = one(Float32Array::from(vec![0.1]), PostgresType::Float8).unwrap();
    assert_eq!(read::<f64>(&Type::FLOAT8, &single[0]), Some(f64::from(0.1f32)));
    let fixed = FixedSizeBinaryArray::try_from_iter([[7u8; 16]].iter()).unwrap();
    assert_eq!(one(fixed, PostgresType::Uuid).unwrap(), [Some(vec![7; 16])]);
    assert_eq!(one(NullArray::new(2), PostgresType::Int8).unwrap(), [None, None]);
    let large = one(UInt64Array::from(vec![u64::MAX]), PostgresType::Int8);
    assert!(large.unwrap_err().contains("outside"));
    let large =
        one(UInt64Array::from(vec![u64::MAX]), PostgresType::Numeric(Some((20, 0)))).unwrap();
    assert_eq!(
        large[0].as_ref().unwrap()[..4],
        [0, 5, 0, 4],
        "five digits from the fourth power on"
    );
}

#[test]
fn decimals_are_held_with_all_digits_or_refused() {
    let decimal = |value: i128, scale: i8, target| {
        let array = Decimal128Array::from(vec![value]).with_precision_and_scale(38, scale).unwrap();
        one(array, target)
    };
    let bytes = decimal(-12_345, 2, PostgresType::Numeric(None)).unwrap();
    let words = [2i16, 0, 0x4000, 2, 123, 4500];
    let expected: Vec<u8> = words.iter().flat_map(|it| it.to_be_bytes()).collect();
    assert_eq!(bytes, [Some(expected)]);
    assert!(decimal(99_999, 2, PostgresType::Numeric(Some((5, 2)))).is_ok());
    let error = decimal(-100_000, 2, PostgresType::Numeric(Some((5, 2)))).unwrap_err();
    assert!(error.contains("`numeric(5,2)`"), "{error}");
    assert!(decimal(0, 2, PostgresType::Numeric(Some((2, 2)))).is_ok());
    assert!(decimal(12, -2, PostgresType::Numeric(Some((4, 0)))).is_ok());
    assert!(decimal(12, -2, PostgresType::Numeric(Some((3, 0)))).is_err());
}

#[test]
fn a_null_where_none_may_be_is_refused_and_rows_are_numbered() {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let batch = RecordBatch::try_from_iter_with_nullable([("c0", array, true)]).unwrap();
    let required = TargetColumn { required: true, ..column(PostgresType::Int8, 0) };
    let error = Encoder::new(vec![required], false).rows(&batch, &mut Vec::new()).unwrap_err();
    let EncodeError::Value(Unfit { row: 1, column, why }) = error else { panic!("{error:?}") };
    assert_eq!((column.as_str(), why.contains("null")), ("c0", true));

    let mut encoder = Encoder::new(vec![self::column(PostgresType::Int8, 0)], true);
    let mut out = Vec::new();
    encoder.rows(&batch, &mut out).unwrap();
    encoder.rows(&batch, &mut out).unwrap();
    let numbers: Vec<i64> =
        rows(&out).iter().map(|row| read(&Type::INT8, &row[1]).unwrap()).collect();
    assert_eq!(numbers, [0, 1, 2, 3], "they go on from batch to batch");
}
