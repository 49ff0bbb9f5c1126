//! Wide numbers against a plain list of them, over groups that are merged, saved and restored.

use super::super::{Aggregates, ArgColumn, Cells, Results, Taken};
use super::*;
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Int64Array, UInt32Array, UInt64Array,
    cast::AsArray,
    types::{Decimal128Type, Int64Type, UInt64Type},
};
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;
use std::sync::Arc;
use tidemill_flow::OperatorError;
use tidemill_state::ByteReader;
use tidemill_types::job::Named;

fn compile(data_type: &DataType, calls: &[&str]) -> Aggregates {
    let input = Arc::new(Schema::new(vec![Field::new("v", data_type.clone(), true)]));
    let calls = calls.iter().enumerate().map(|(nth, call)| (format!("c{nth}"), (*call).to_owned()));
    let calls: Named<String> = calls.collect();
    Aggregates::compile(&input, [&calls].into_iter()).expect("right").remove(0)
}

/// Takes the values in parts, each into a group of its own, puts the groups together, writes the
/// whole down and takes it back, and reads it.
fn of_parts(
    plan: &Aggregates,
    column: &ArrayRef,
    (times, parts): (&[i64], &[u32]),
) -> Result<Vec<ArrayRef>, OperatorError> {
    let argument = |(_, _, held): &(_, _, NumberKind)| ArgColumn::new(column, *held);
    let arguments = plan.arguments.iter().map(argument).collect::<Result<Vec<_>, _>>()?;
    let taken = Taken { arguments: &arguments, times: Some(times) };
    let rows: Vec<u32> = (0..column.len() as u32).collect();
    let mut cells = Cells::new(plan);
    cells.resize(4);
    cells.update(plan, taken, &rows, parts);
    let mut whole = Cells::new(plan);
    whole.resize(1);
    whole.merge(plan, 0, &cells, 0);
    for part in 1..4 {
        whole.resize(2);
        whole.merge(plan, 1, &cells, part);
        whole.merge_within(plan, 0, 1);
    }
    let (mut saved, mut back) = (Vec::new(), Cells::new(plan));
    whole.save(0, &mut saved);
    back.resize(1);
    back.restore(0, &mut ByteReader::new(&saved)).expect("just saved");
    let mut out = Results::new(plan);
    back.read(plan, std::iter::once(0), &mut out);
    out.finish(plan)
}

const CALLS: [&str; 6] = ["sum(v)", "min(v)", "max(v)", "first(v)", "last(v)", "count(distinct v)"];

fn decimal() -> DataType {
    DataType::Decimal128(38, 2)
}

fn any_wide() -> impl Strategy<Value = i128> {
    let most = WIDEST as i128;
    prop_oneof![-3_i128..3, -most / 64..most / 64, Just(most / 64), Just(-most / 64)]
}

proptest! {
    #[test]
    fn wide_numbers_are_exact(
        records in prop::collection::vec((prop::option::of(any_wide()), -2_i64..3, 0_u32..4), 1..60)
    ) {
        let mut records = records;
        // What is merged came later, so that parts follow each other.
        records.sort_by_key(|(_, _, part)| *part);
        let values: Vec<Option<i128>> = records.iter().map(|it| it.0).collect();
        let times: Vec<i64> = records.iter().map(|it| it.1).collect();
        let parts: Vec<u32> = records.iter().map(|it| it.2).collect();
        let column: ArrayRef = Arc::new(Decimal128Array::from(values).with_data_type(decimal()));
        let plan = compile(&decimal(), &CALLS);
        let found = of_parts(&plan, &column, (&times, &parts)).expect("sums have room");
        let there = || records.iter().filter_map(|(value, time, _)| Some(((*value)?, *time)));
        let all = || there().map(|(value, _)| value);
        // `min_by_key` gives the first of equals, `max_by_key` the last.
        let expected = [
            there().next().map(|_| all().sum()),
            all().min(),
            all().max(),
            there().min_by_key(|it| it.1).map(|it| it.0),
            there().max_by_key(|it| it.1).map(|it| it.0),
        ];
        for (nth, expected) in expected.into_iter().enumerate() {
            let found = found[nth].as_primitive::<Decimal128Type>();
            prop_assert_eq!(found.data_type(), &decimal());
            prop_assert_eq!(found.iter().next().expect("a row"), expected, "{}", CALLS[nth]);
        }
        let distinct: std::collections::BTreeSet<i128> = all().collect();
        prop_assert_eq!(found[5].as_primitive::<Int64Type>().value(0), distinct.len() as i64);
    }
}

#[test]
fn unsigned_numbers_keep_their_upper_half() {
    let values = [u64::MAX, 1 << 63, 7, u64::MAX];
    let column: ArrayRef = Arc::new(UInt64Array::from(values.to_vec()));
    let plan = compile(&DataType::UInt64, &CALLS[1..]);
    let found = of_parts(&plan, &column, (&[3, 1, 2, 0], &[0, 1, 2, 3])).expect("they fit");
    let numbers = |nth: usize| found[nth].as_primitive::<UInt64Type>().value(0);
    assert_eq!([0, 1, 2, 3].map(numbers), [7, u64::MAX, u64::MAX, u64::MAX]);
    assert_eq!(found[4].as_primitive::<Int64Type>().value(0), 3);
}

#[test]
fn a_sum_beyond_38_digits_is_an_error() {
    let column = |values: [i128; 2]| {
        Arc::new(Decimal128Array::from(values.to_vec()).with_data_type(decimal())) as ArrayRef
    };
    let plan = compile(&decimal(), &["sum(v)"]);
    let most = WIDEST as i128;
    for parts in [[0, 0], [0, 1]] {
        let sum = |values| of_parts(&plan, &column(values), (&[0, 0], &parts));
        assert!(sum([most, -1]).is_ok());
        for values in [[most, 1], [-most, -1], [most, most]] {
            let error = sum(values).expect_err("too many digits");
            assert!(error.message.contains("beyond 38 digits"), "{}", error.message);
        }
    }
}

/// However the rows are split, what some of them make together has room.
#[test]
fn a_sum_is_that_of_all_rows() {
    const ROWS: usize = 6;
    let most = WIDEST as i128;
    let wide = [most, most, most, -most, -most, 7 - most];
    let wide: ArrayRef = Arc::new(Decimal128Array::from(wide.to_vec()).with_data_type(decimal()));
    let whole = [i64::MAX, i64::MAX, i64::MAX, -i64::MAX, i64::MIN, 8 - i64::MAX];
    let whole: ArrayRef = Arc::new(Int64Array::from(whole.to_vec()));
    let (of_wide, of_whole) =
        (compile(&decimal(), &["sum(v)"]), compile(&DataType::Int64, &["sum(v)"]));
    for (parts, turned) in [[0; ROWS], [0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 2, 3], [3, 3, 2, 2, 1, 0]]
        .into_iter()
        .flat_map(|parts| (0..ROWS as u32).map(move |by| (parts, by)))
    {
        let order = UInt32Array::from_iter_values((0..ROWS as u32).map(|it| (it + turned) % 6));
        let sum = |plan, column: &ArrayRef| {
            let column = arrow_select::take::take(column, &order, None).expect("rows of it");
            of_parts(plan, &column, (&[0; ROWS], &parts))
                .expect("the sum of all has room")
                .remove(0)
        };
        assert_eq!(sum(&of_wide, &wide).as_primitive::<Decimal128Type>().value(0), 7);
        assert_eq!(sum(&of_whole, &whole).as_primitive::<Int64Type>().value(0), 7);
    }
}
