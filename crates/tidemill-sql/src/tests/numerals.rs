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
