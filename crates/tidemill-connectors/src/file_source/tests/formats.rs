//! What each format says, in columns.

use super::*;
use crate::columns::COLUMNS_MAX;
use arrow_array::Array;

fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", element, true)))
}

#[test]
fn json_columns_are_guessed_in_order_of_appearance() {
    let text = br#"{"i":1,"f":1,"b":true,"s":"x","n":null,"l":[1,2],"o":{"k":"v"},"big":18446744073709551615}
{"f":2.5,"i":-2,"s":"\u00e9\n\ud83d\ude00","l":[],"l2":["a"],"mix":1}
{"mix":"one","o":{"k":null,"m":2}}
"#;
    let factory = source(text, &spec(Format::Json), None).unwrap();
    let object = DataType::Struct(
        vec![Field::new("k", DataType::Utf8, true), Field::new("m", DataType::Int64, true)].into(),
    );
    assert_eq!(
        types(&*factory),
        named(&[
            ("i", DataType::Int64),
            ("f", DataType::Float64),
            ("b", DataType::Boolean),
            ("s", DataType::Utf8),
            ("n", DataType::Utf8),
            ("l", list(DataType::Int64)),
            ("o", object),
            ("big", DataType::UInt64),
            ("l2", list(DataType::Utf8)),
            ("mix", DataType::Utf8),
        ])
    );
    let (batch, letters) = whole(&*factory);
    assert_eq!((batch.num_rows(), letters.len()), (3, 0));
    assert_eq!(ints(&batch, "i"), [Some(1), Some(-2), None]);
    assert_eq!(floats(&batch, "f"), [Some(1.0), Some(2.5), None]);
    assert_eq!(texts(&batch, "s")[1].as_deref(), Some("é\n😀"));
    assert_eq!(texts(&batch, "mix"), [None, Some("1".to_owned()), Some("one".to_owned())]);
    let lists = batch.column_by_name("l").unwrap().as_list::<i32>();
    assert_eq!((lists.value(0).len(), lists.value(1).len(), lists.is_null(2)), (2, 0, true));
}

/// A part of a value that is a list or an object in one record and something else in another has no
/// type: the whole is its JSON, and no record that showed that is bad.
#[test]
fn json_of_several_kinds_within_a_value_is_text() {
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let lines = [
        r#"{"a":{"x":1},"tags":["a",{"name":"b"}],"kept":{"x":1}}"#.to_owned(),
        r#"{"a":{"x":{"y":2}},"tags":[],"kept":{"x":"one"}}"#.to_owned(),
        format!(r#"{{"deep":{},"a":null}}"#, deep(20)),
    ];
    let factory = source(lines.join("\n").as_bytes(), &spec(Format::Json), None).unwrap();
    let kept = DataType::Struct(vec![Field::new("x", DataType::Utf8, true)].into());
    let text = DataType::Utf8;
    assert_eq!(
        types(&*factory),
        named(&[("a", text.clone()), ("tags", text.clone()), ("kept", kept), ("deep", text)])
    );
    let (batch, letters) = whole(&*factory);
    assert_eq!((batch.num_rows(), letters.len()), (3, 0));
    let some = |it: &str| Some(it.to_owned());
    assert_eq!(texts(&batch, "a"), [some(r#"{"x":1}"#), some(r#"{"x":{"y":2}}"#), None]);
    assert_eq!(texts(&batch, "tags")[0], some(r#"["a",{"name":"b"}]"#));
    assert_eq!(texts(&batch, "deep")[2], some(&deep(20)));
}

#[test]
fn json_lines_that_are_not_one_object_are_bad() {
    let good = r#"{"a": 1 , "x":[{"y":[]},{}], "z":-0.5e+3}"#;
    let bad = [
        "5",
        "null",
        "[]",
        "{",
        "}",
        "{}{}",
        "{} x",
        r#"{"a":1,}"#,
        r#"{"a":1 "b":2}"#,
        r#"{a:1}"#,
        r#"{"a":01}"#,
        r#"{"a":1.}"#,
        r#"{"a":+1}"#,
        r#"{"a":nul}"#,
        r#"{"a":NaN}"#,
        r#"{"a":"x}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":[1}"#,
        r#"{"x":{"y":1]}"#,
        r#"{"x":"\q"}"#,
        r#"{"x":"\ud800"}"#,
        r#"{"x":"\u12"}"#,
        "{\"x\":\"\u{1}\"}",
        r#"{"x":{"y"}}"#,
        r#"{"x":[,1]}"#,
        r#"{"a":"one"}"#,
    ];
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(129), "]".repeat(129));
    let mut text = String::new();
    for line in bad.iter().copied().chain([deep.as_str()]) {
        text.push_str(&format!("{good}\n{line}\r\n\n"));
    }
    text.push_str(r#"{"a":7,"x":"cut o"#);
    let typed = typed(Format::Json, &[("a", "bigint")]);
    let factory = source(text.as_bytes(), &typed, None).unwrap();
    let (batch, letters) = whole(&*factory);
    let count = bad.len() as u64 + 1;
    assert_eq!(ints(&batch, "a"), vec![Some(1); bad.len() + 1]);
    let mut expected: Vec<u64> = (0..count).map(|it| it * 3 + 2).collect();
    expected.push(count * 3 + 1);
    assert_eq!(lines(&letters), expected);
    assert!(letters[0].reason.starts_with("not JSON: expected an object"), "{:?}", letters[0]);
}

#[test]
fn json_lists_that_do_not_fit_are_bad() {
    let text = b"{\"l\":[1],\"n\":1}\nx\n{\"l\":[\"y\"],\"n\":2}\n{\"l\":[2],\"n\":3}\n";
    let typed = typed(Format::Json, &[("l", "bigint[]")]);
    let (batch, letters) = whole(&*source(text, &typed, None).unwrap());
    assert_eq!(ints(&batch, "n"), [Some(1), Some(3)]);
    assert_eq!(lines(&letters), [2, 3]);
    assert!(
        letters[1].reason == "field `l`: `[0]`: \"y\" is not a bigint",
        "{}",
        letters[1].reason
    );
}

#[test]
fn csv_columns_nulls_and_quotes() {
    let text =
        b"\xef\xbb\xbfid,price, when ,name,ok,\n1,2,2024-01-01,\"a, \"\"b\"\"\nc\",TRUE,x\r\n\
        NA,2.5,2024-01-02 10:00:00,NA,false,\n\n3,NULL,null,\"\",,\"\"\n";
    let factory = source(text, &spec(Format::Csv), Some(&time("when", 0))).unwrap();
    assert_eq!(
        types(&*factory),
        named(&[
            ("id", DataType::Int64),
            ("price", DataType::Float64),
            ("when", moment_type()),
            ("name", DataType::Utf8),
            ("ok", DataType::Boolean),
            ("column_6", DataType::Utf8),
            (TIME_COLUMN, moment_type()),
        ])
    );
    let (batch, letters) = whole(&*factory);
    assert_eq!(ints(&batch, "id"), [Some(1), None]);
    assert_eq!(floats(&batch, "price"), [Some(2.0), Some(2.5)]);
    let names = texts(&batch, "name");
    assert_eq!(names, [Some("a, \"b\"\nc".to_owned()), Some("NA".to_owned())]);
    assert_eq!(moments(&batch, "when")[0], Some(1_704_067_200_000_000));
    assert_eq!(lines(&letters), [6], "line breaks within quotes are counted");
    assert_eq!(letters[0].reason, "field `when`: event time is missing");
}

#[test]
fn csv_records_that_do_not_fit_are_bad() {
    let text = b"a,b\n1,x\n2\n3,y,z\nfour,x\n\xff,x\n5,\"open\n6,w\n\"7\",\"\"\n8,v";
    let typed = typed(Format::Csv, &[("a", "int8")]);
    let (batch, letters) = whole(&*source(text, &typed, None).unwrap());
    assert_eq!(batch.column(0).data_type(), &DataType::Int8);
    let kept = arrow_cast::cast(batch.column(0), &DataType::Int64).unwrap();
    assert_eq!(kept.as_primitive::<Int64Type>().values(), &[1, 6, 7, 8]);
    assert_eq!(texts(&batch, "b")[2].as_deref(), Some(""), "an empty text in quotes is no null");
    assert_eq!(lines(&letters), [3, 4, 5, 6, 7]);
    let reasons: Vec<&str> = letters.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons[0], "it has 1 fields, there are 2 columns");
    assert_eq!(reasons[2], "field `a`: \"four\" is not a tinyint");
    assert_eq!(reasons[3], "it is not UTF-8");
}

/// It is refused at its first name too many, and what follows is not compared with all before.
#[test]
fn a_csv_header_of_too_many_names_is_not_read_to_its_end() {
    let most: Vec<String> = (0..COLUMNS_MAX).map(|it| format!("c{it}")).collect();
    let header = most.join(",");
    assert!(source(header.as_bytes(), &spec(Format::Csv), None).is_ok());
    let error = source(format!("{header},d,c0\n").as_bytes(), &spec(Format::Csv), None);
    let message = error.err().unwrap().message;
    assert!(message.contains("it has more than 4096 columns"), "{message}");
}

#[test]
fn text_lines_are_records() {
    let text = b"one\r\n\ntwo\n\xff\nlast";
    let (batch, letters) = whole(&*source(text, &spec(Format::Text), None).unwrap());
    let expected = ["one", "", "two", "last"].map(|it| Some(it.to_owned()));
    assert_eq!(texts(&batch, "text"), expected);
    assert_eq!(lines(&letters), [4]);
}

#[test]
fn influx_points_are_records() {
    let text = br#"cpu\ load,host=a\,b,zone=eu usage=1.5,count=3i,up=t,note="say \"hi\", x=1" 1700000000123456789
# a comment
cpu,host=b usage=2,count=18446744073709551615u 1700000001000000000

mem,host=c free=7i
"#;
    let factory = source(text, &spec(Format::Influx), None).unwrap();
    assert_eq!(
        types(&*factory),
        named(&[
            ("measurement", DataType::Utf8),
            ("host", DataType::Utf8),
            ("zone", DataType::Utf8),
            ("usage", DataType::Float64),
            ("count", DataType::UInt64),
            ("up", DataType::Boolean),
            ("note", DataType::Utf8),
            ("free", DataType::Int64),
            ("time", moment_type()),
        ])
    );
    let (batch, letters) = whole(&*factory);
    assert!(letters.is_empty());
    assert_eq!(texts(&batch, "measurement")[0].as_deref(), Some("cpu load"));
    assert_eq!(texts(&batch, "host")[0].as_deref(), Some("a,b"));
    assert_eq!(texts(&batch, "note")[0].as_deref(), Some("say \"hi\", x=1"));
    assert_eq!(floats(&batch, "usage"), [Some(1.5), Some(2.0), None]);
    assert_eq!(ints(&batch, "free"), [None, None, Some(7)]);
    let times = [Some(1_700_000_000_123_456), Some(1_700_000_001_000_000), None];
    assert_eq!(moments(&batch, "time"), times);

    let timed = source(text, &spec(Format::Influx), Some(&time("time", 0))).unwrap();
    let (batch, letters) = whole(&*timed);
    assert_eq!((batch.num_rows(), lines(&letters)), (2, vec![5]));
}

#[test]
fn influx_lines_that_are_no_points_are_bad() {
    let bad = [
        "cpu",
        "cpu ",
        ",host=a v=1",
        "cpu,host v=1",
        "cpu,host= v=1",
        "cpu v",
        "cpu v=",
        "cpu v=x",
        "cpu v=1i5",
        "cpu v=\"x",
        "cpu v=1 soon",
        "cpu v=1 1 2",
        "cpu v=1, 5",
        "cpu =1",
        "cpu v=nan",
        "cpu v=\"a\"b 1",
    ];
    let text: String = bad.iter().map(|line| format!("ok v=1 1\n{line}\n")).collect();
    let (batch, letters) = whole(&*source(text.as_bytes(), &spec(Format::Influx), None).unwrap());
    assert_eq!((batch.num_rows(), letters.len()), (bad.len(), bad.len()), "{letters:?}");
}

/// Every point has columns of these names: one value would replace the other.
#[test]
fn influx_tags_and_fields_called_as_the_columns_of_every_point_are_bad() {
    let text = "cpu,measurement=x v=1 1\nmem,time=5 v=2\ndisk time=5,more=3 1\n\
                ok v=1 1000\nx measurement=\"y\" 1\n";
    let factory = source(text.as_bytes(), &spec(Format::Influx), None).unwrap();
    assert_eq!(
        types(&*factory),
        named(&[
            ("measurement", DataType::Utf8),
            ("v", DataType::Float64),
            ("time", moment_type()),
        ])
    );
    let (batch, letters) = whole(&*factory);
    assert_eq!(texts(&batch, "measurement"), [Some("ok".to_owned())]);
    assert_eq!(moments(&batch, "time"), [Some(1)]);
    assert_eq!(lines(&letters), [1, 2, 3, 5]);
    let reasons: Vec<&str> = letters.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons[0], "it has a tag `measurement`, and a column of every point is called so");
    assert_eq!(reasons[2], "it has a field `time`, and a column of every point is called so");
}

/// All of such a file is its header, which has no records.
#[test]
fn csv_with_lines_that_end_in_another_way_is_refused() {
    for bytes in [&b"a,b\r1,2\r"[..], b"a\r1\r2"] {
        let error = source(bytes, &spec(Format::Csv), None).err().unwrap();
        assert!(error.message.contains("a carriage return without a line feed"), "{error}");
    }
    let quoted = source(b"\"a\r\nb\",c\r\n1,2\r\n", &spec(Format::Csv), None).unwrap();
    assert_eq!(types(&*quoted)[0].0, "a\r\nb", "a name over two lines is one");
}

#[test]
fn csv_may_have_no_header_and_another_byte_between_fields() {
    let form = |header: Option<bool>, delimiter: char, schema: &[(&str, &str)]| FileSourceSpec {
        header,
        delimiter: Some(delimiter),
        ..typed(Format::Csv, schema)
    };
    let text = "\u{feff}1;\"a;\"\"b\nc\";2,5\n2;;x\n3;y\n";
    let factory = source(text.as_bytes(), &form(Some(false), ';', &[]), None).unwrap();
    let columns = [("column_1", DataType::Int64), ("column_2", DataType::Utf8)];
    assert_eq!(types(&*factory), named(&[&columns[..], &[("column_3", DataType::Utf8)]].concat()));
    let (batch, letters) = whole(&*factory);
    assert_eq!(ints(&batch, "column_1"), [Some(1), Some(2)], "the first record is one");
    assert_eq!(texts(&batch, "column_2"), [Some("a;\"b\nc".to_owned()), None]);
    assert_eq!(texts(&batch, "column_3")[0].as_deref(), Some("2,5"));
    assert_eq!(
        (lines(&letters), letters[0].reason.as_str()),
        (vec![4], "it has 2 fields, there are 3 columns")
    );

    let all = [("id", "bigint"), ("name", "text"), ("much", "text")];
    let (batch, letters) =
        whole(&*source(text.as_bytes(), &form(Some(false), ';', &all), None).unwrap());
    assert_eq!((ints(&batch, "id").len(), letters.len()), (2, 1));
    assert_eq!(texts(&batch, "name")[0].as_deref(), Some("a;\"b\nc"));
    let refused = |text: &str, spec: &FileSourceSpec| {
        source(text.as_bytes(), spec, None).err().expect("it is refused").message
    };
    let few = refused(text, &form(Some(false), ';', &all[..2]));
    assert!(few.contains("has 3 fields, and `schema` names 2 columns"), "{few}");
    let empty = refused("", &form(Some(false), ';', &[]));
    assert!(empty.contains("name them in `schema`"), "{empty}");
    let (batch, _) = whole(&*source(b"", &form(Some(false), ';', &all), None).unwrap());
    assert_eq!((batch.num_rows(), batch.num_columns()), (0, 3));

    let tabs = source(b"id\tname\n7\ta,b\n", &form(None, '\t', &[]), None).unwrap();
    let (batch, _) = whole(&*tabs);
    assert_eq!(ints(&batch, "id"), [Some(7)]);
    assert_eq!(texts(&batch, "name"), [Some("a,b".to_owned())]);
}

#[test]
fn lists_of_a_csv_file_are_json() {
    let file = "id,n\n1,\"[1,null]\"\n2,[]\n3,\n4,\"[1\n, 2]\"\n5,\"[1] [2]\"\n6,7\n7,\"[1\"\n8,\"[\"\"x\"\"]\"\n";
    let source = source(file.as_bytes(), &typed(Format::Csv, &[("n", "bigint[]")]), None).unwrap();
    let (batch, letters) = whole(&*source);
    assert_eq!(ints(&batch, "id"), [1, 2, 3, 4].map(Some));
    let lists = batch.column_by_name("n").unwrap();
    let text = |row| arrow_cast::display::array_value_to_string(lists, row).unwrap();
    assert_eq!([0, 1, 2, 3].map(text), ["[1, ]", "[]", "", "[1, 2]"]);
    assert_eq!(letters.len(), 4);
    assert!(letters[0].reason.contains("field `n`: \"[1] [2]\" is not a list"), "{letters:?}");
}
