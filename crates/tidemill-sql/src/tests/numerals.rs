//! Texts as decimals.

use super::semantics::{some, texts};
use super::*;

fn column(all: &[&str]) -> RecordBatch {
    let all: ArrayRef = Arc::new(StringArray::from(all.to_vec()));
    RecordBatch::try_from_iter_with_nullable([("t", all, true)]).expect("texts")
}

#[test]
fn exponents_and_any_number_of_digits_are_read_as_decimals() {
    let zeros = "0".repeat(100);
    let long = format!("{zeros}1.5{zeros}1e-1");
    let long_plain = format!("{zeros}12.005{zeros}");
    let cases = [
        ("1e5", "100000.00"),
        ("1E+5", "100000.00"),
        ("1e-7", "0.00"),
        (" -1.25e1 ", "-12.50"),
        ("+.5e0", "0.50"),
        ("5.e-1", "0.50"),
        ("0.5e-2", "0.01"),
        ("-0.5e-2", "-0.01"),
        ("4.999e-3", "0.00"),
        ("9.995e0", "10.00"),
        ("999.999e-1", "100.00"),
        ("123456789012345678e-18", "0.12"),
        ("0e99999999999999999999", "0.00"),
        ("1e-99999999999999999999", "0.00"),
        (&long, "0.15"),
        (&long_plain, "12.01"),
        ("12.5", "12.50"),
    ];
    let batch = column(&cases.map(|it| it.0));
    let expected = cases.map(|it| it.1);
    for digits in ["9, 2", "38, 2", "76, 2"] {
        for cast in ["cast", "try_cast"] {
            assert_eq!(texts(&format!("{cast}(t as decimal({digits}))"), &batch), some(&expected));
        }
    }
    for (text, expected) in cases {
        let text = text.trim();
        let sql = format!("cast('{text}' as decimal(9, 2))");
        assert_eq!(texts(&sql, &column(&["x"])), some(&[expected]), "{sql}");
    }
    let whole = column(&["1.5e0", "-15e-1", "1e37", "0.04e1"]);
    let expected = some(&["2", "-2", "10000000000000000000000000000000000000", "0"]);
    assert_eq!(texts("cast(t as decimal(38, 0))", &whole), expected);
    let small = column(&["1e-38", "-99e-2", "5e-39"]);
    let last = format!("0.{}1", "0".repeat(37));
    let most = format!("-0.99{}", "0".repeat(36));
    assert_eq!(texts("cast(t as decimal(38, 38))", &small), some(&[&last, &most, &last]));
}

#[test]
fn texts_that_are_no_decimal_of_the_type_are_said_with_it() {
    let batch = |text: &str| column(&[text]);
    for text in [
        "",
        "e5",
        "1e",
        "1e5.0",
        "1e+",
        "1x",
        ".",
        "-",
        "--1",
        "1e99",
        "1e99999999999999999999",
        "inf",
        "NaN",
        "1_0",
    ] {
        assert_eq!(texts("try_cast(t as decimal(10, 2))", &batch(text)), some(&["-"]), "{text}");
        let cast =
            Expr::compile("cast(t as decimal(10, 2))", &batch(text).schema()).expect("a cast");
        let error = cast.evaluate(&batch(text)).expect_err(text).message;
        assert!(error.contains("decimal(10, 2)"), "{text}: {error}");
    }
    assert_eq!(
        texts("try_cast(t as decimal(4, 2))", &column(&["1e2", "99e0", "x"])),
        some(&["-", "99.00", "-"])
    );
}

/// Lists of one text each.
fn lists(all: &[Option<&str>]) -> RecordBatch {
    let mut made =
        arrow_array::builder::ListBuilder::new(arrow_array::builder::StringBuilder::new());
    for text in all {
        made.append_value([*text]);
    }
    made.append_null();
    RecordBatch::try_from_iter_with_nullable([("l", Arc::new(made.finish()) as ArrayRef, true)])
        .expect("lists")
}

#[test]
fn elements_of_lists_are_cast_as_values_by_themselves_are() {
    let texts_of = ["1e5", "-0.5e-2", "12.5", "1.005", "99999.994"];
    let alone = texts("cast(t as decimal(9, 2))", &column(&texts_of));
    let all = lists(&texts_of.map(Some));
    let mut listed = texts("cast(l as decimal(9, 2)[])[1]", &all);
    assert_eq!(listed.pop(), Some(None));
    assert_eq!(listed, alone);
    for (element, kind) in [
        ("1e9", "decimal(9, 2)"),
        ("x", "decimal(9, 2)"),
        ("", "decimal(9, 2)"),
        ("12", "time"),
        ("23:59:60", "time"),
        ("1e400x", "double"),
        ("300", "tinyint"),
    ] {
        let (one, list) = (column(&[element]), lists(&[Some(element)]));
        let of_value = Expr::compile(&format!("cast(t as {kind})"), &one.schema()).expect(kind);
        let of_list = Expr::compile(&format!("cast(l as {kind}[])"), &list.schema()).expect(kind);
        let (value, list_value) = (of_value.evaluate(&one), of_list.evaluate(&list));
        let value = value.expect_err(element).message;
        assert_eq!(list_value.expect_err(element).message, value);
        let tried = format!("array_to_string(try_cast(l as {kind}[]), ',', 'none')");
        assert_eq!(texts(&tried, &list), some(&["none", "-"]), "{tried}");
    }
    let none = lists(&[None]);
    assert_eq!(texts("cast(l as decimal(9, 2)[])[1]", &none), some(&["-", "-"]));
    for (sql, expected) in [
        ("cast(['1e5', null] as decimal(9, 2)[])[1]", "100000.00"),
        ("cast([timestamp '1969-12-31T23:59:58.5'] as timestamp(0)[])[1]", "1969-12-31T23:59:58"),
        ("cast([[ '1.5e1' ]] as decimal(9, 2)[][])[1][1]", "15.00"),
        (
            "cast(cast(['3333333333333333333333333333.3333333333'] as decimal(38, 10)[]) as double[])[1]",
            "3.3333333333333336e27",
        ),
        ("cast([cast('inf' as double), -2.5] as text[])[2]", "-2.5"),
    ] {
        assert_eq!(texts(sql, &none), some(&[expected, expected]), "{sql}");
    }
}
