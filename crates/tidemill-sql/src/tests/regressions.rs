//! What expressions that were made up have shown.

use super::semantics::{some, texts};
use super::*;
use arrow_array::{Float32Array, ListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};

#[test]
fn functions_take_the_two_zeros_for_one() {
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("f", Arc::new(Float64Array::from(vec![-0.0, 0.0, 1.0])) as ArrayRef, true),
        ("g", Arc::new(Float64Array::from(vec![0.0, -0.0, 2.0])) as _, true),
        ("r", Arc::new(Float32Array::from(vec![-0.0, 0.0, 1.0])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("array_has([0.0, 5], f)", ["true", "true", "false"]),
        ("array_has([f], g)", ["true", "true", "false"]),
        ("array_has([r], 0.0)", ["true", "true", "false"]),
        ("array_has_any([f], [g, 7.0])", ["true", "true", "false"]),
        ("[f, g] @> [0.0]", ["true", "true", "false"]),
        ("array_position([1.5, -0.0], f)", ["2", "2", "-"]),
        ("nullif(f, 0.0)", ["-", "-", "1.0"]),
        ("nullif(0.0, f)", ["-", "-", "0.0"]),
        ("nullif(f, 1.0)", ["-0.0", "0.0", "-"]),
        ("case f when 0.0 then 'zero' else 'more' end", ["zero", "zero", "more"]),
        ("case f when g then 'same' else 'other' end", ["same", "same", "other"]),
        ("case r when cast(g as real) then 1 when 1 then 2 end", ["1", "1", "2"]),
        ("case 0.0 when f then 'zero' end", ["zero", "zero", "-"]),
        ("[f] = [g]", ["true", "true", "false"]),
        ("[f] = [0.0]", ["true", "true", "false"]),
        ("[f] < [0.0]", ["false"; 3]),
        ("[f] >= [0.0]", ["true"; 3]),
        ("[f] is distinct from [g]", ["false", "false", "true"]),
        ("[f] in ([0.0], [2.0])", ["true", "true", "false"]),
        ("[f] not in ([g], [7.0])", ["false", "false", "true"]),
        ("[[f]] = [[g]]", ["true", "true", "false"]),
        ("{'a': r} = {'a': cast(g as real)}", ["true", "true", "false"]),
        ("case [f] when [0.0] then 'zero' when [g] then 'same' end", ["zero", "zero", "-"]),
        ("array_to_string(array_distinct([f, g]), ' ')", ["0", "0", "1 2"]),
        ("array_to_string(array_remove([f, 5.0], 0.0), ' ')", ["5", "5", "1 5"]),
        ("array_to_string(array_replace_all([f, g], 0.0, 7.0), ' ')", ["7 7", "7 7", "1 2"]),
        ("cardinality(array_except([f], [g]))", ["0", "0", "1"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn floats_are_rounded_to_any_number_of_digits() {
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("f", Arc::new(Float64Array::from(vec![1e308, -1e308, 5.25])) as ArrayRef, true),
        ("n", Arc::new(Int64Array::from(vec![1, 400, -400])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("round(f, 1)", ["1e308", "-1e308", "5.3"]),
        ("trunc(f, 1)", ["1e308", "-1e308", "5.2"]),
        ("round(f, n)", ["1e308", "-1e308", "0.0"]),
        ("round(1e308, 1)", ["1e308"; 3]),
        ("round(f * 10, 1)", ["inf", "-inf", "52.5"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

/// Arrow casts all that is in the memory of lists.
#[test]
fn what_is_not_there_in_a_list_is_not_cast() {
    let elements: ArrayRef = Arc::new(StringArray::from(vec!["1", "x", "2", "x", "3"]));
    let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let offsets = OffsetBuffer::from_lengths([1, 1, 1, 2]);
    let lists = ListArray::new(field, offsets, elements, Some(nulls));
    let objects = StructArray::new(
        vec![Arc::new(Field::new("w", lists.data_type().clone(), true))].into(),
        vec![Arc::new(lists.clone())],
        Some(NullBuffer::from(vec![true, true, false, true])),
    );
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("w", Arc::new(lists) as ArrayRef, true),
        ("o", Arc::new(objects) as _, true),
        ("n", Arc::new(Int64Array::from(vec![1, 2, 3, 4])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("array_to_string(array_append(w, 'y'), ',')", ["1,y", "y", "2,y", "x,3,y"]),
        ("array_to_string(array_concat(nullif(w, ['2']), w), ',')", ["1,1", "-", "2", "x,3,x,3"]),
        ("array_to_string(nullif(w, ['x', '3'])::bigint[], ',')", ["1", "-", "2", "-"]),
        ("array_to_string((case when n < 4 then w end)::bigint[], ',')", ["1", "-", "2", "-"]),
        ("array_length([case when n < 4 then w end]::bigint[][])", ["1", "1", "1", "1"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
    // A part of the rows, with those before and behind it in its memory.
    let expr = Expr::compile("w::bigint[]", &batch.schema()).expect("right");
    assert!(expr.evaluate(&batch).is_err(), "the last has no value");
    assert_eq!(expr.evaluate(&batch.slice(1, 2)).expect("numbers").len(), 2);
}

/// Memory was taken for all of them, and a huge length ended the job.
#[test]
fn a_null_is_padded_to_any_length() {
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("t", Arc::new(StringArray::from(vec![None, Some("a"), None])) as ArrayRef, true),
        ("n", Arc::new(Int64Array::from(vec![i64::MAX, 3, 4_000_000_000])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("lpad(t, n, 'x')", ["-", "xxa", "-"]),
        ("rpad(t, n, t)", ["-", "aaa", "-"]),
        ("lpad(nullif(t, t), 9000000000000000000)", ["-", "-", "-"]),
        ("rpad(null, n)", ["-", "-", "-"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

/// As constants they were computed in another way.
#[test]
fn times_that_are_constants_are_cut_as_those_in_columns() {
    let batch =
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]);
    let batch = batch.expect("one column");
    for (sql, expected) in [
        (
            "date_trunc('millisecond', timestamp '9999-12-31T01:02:03.456789')",
            "9999-12-31T01:02:03.456",
        ),
        (
            "date_trunc('millisecond', timestamp '1900-02-28T00:00:00.000001')",
            "1900-02-28T00:00:00",
        ),
        (
            "date_trunc('second', case when n = 1 then timestamp '1900-02-28T00:00:00.5' else timestamp '1900-02-28T00:00:00.7' end)",
            "1900-02-28T00:00:00",
        ),
        (
            "least(date_trunc('month', greatest(timestamp '1970-01-01', date '2024-02-29')), '9999-12-31')",
            "2024-02-01T00:00:00",
        ),
    ] {
        assert_eq!(texts(sql, &batch), some(&[expected; 2]), "{sql}");
    }
}

/// Digits were looked at in the last result alone.
#[test]
fn a_part_of_a_constant_has_no_more_digits_than_its_type() {
    let nines = "9".repeat(38);
    let sql = format!("cast('{nines}' as decimal(38,0)) + 1 > 5");
    let error = Expr::compile(&sql, &schema()).expect_err(&sql).message;
    assert!(error.contains(" is too "), "{error}");
    // In a larger constant, too.
    let sql = format!("nullif({sql}, false)");
    assert!(Expr::compile(&sql, &schema()).is_err(), "{sql}");
}

#[test]
fn constants_of_a_list_decide_before_what_may_have_no_value() {
    assert_eq!(numbers("-3 in (1 / (dep_delay - 20), -3)"), [Some(1); 3]);
    assert_eq!(
        numbers("dep_delay not in (10 / (dep_delay - 20), 20, 7)"),
        [Some(0), None, Some(1)]
    );
}
