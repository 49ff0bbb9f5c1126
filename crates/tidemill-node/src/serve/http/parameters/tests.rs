//! A table of query strings, good and bad, each with what a client gets.

use super::*;

fn parameters(query: &str) -> Result<Parameters, String> {
    let uri: Uri = format!("/streams/s?{query}").parse().expect("a URI");
    Parameters::of(&uri, &["format", "key", "streamlet"]).map_err(|problem| problem.message)
}

#[test]
fn values_are_unescaped() {
    for (query, expected) in [
        ("key=a", "a"),
        ("key=a+b%20c", "a b c"),
        ("key=%C3%A4%2B", "\u{e4}+"),
        ("key=100%&", "100%"),
        ("key=%zz%4", "%zz%4"),
        ("key=first&key=last", "last"),
        ("&&key", ""),
        ("k%65y=a=b", "a=b"),
    ] {
        let found = parameters(query).expect(query);
        assert_eq!(found.text("key"), Some(expected), "{query}");
    }
}

#[test]
fn bad_parameters_are_refused_with_the_name_and_a_way_out() {
    let escaped = "of each character beyond ASCII its bytes of UTF-8 are escaped, such as `%C3%A4` for \
                   `\u{e4}`";
    for (query, expected) in [
        ("key=%FF", format!("the parameter `key=%FF` is not UTF-8: {escaped}")),
        ("%e4=1", format!("the parameter `%e4=1` is not UTF-8: {escaped}")),
        (
            "formt=json",
            "unknown parameter `formt`, expected one of `format`, `key`, `streamlet`, did you mean \
             `format`?"
                .to_owned(),
        ),
        (
            "form%E2%80%8Bat=json",
            "unknown parameter `form\u{200b}at` (the name has U+200B (zero width space) as character \
             5), expected one of `format`, `key`, `streamlet`, did you mean `format`?"
                .to_owned(),
        ),
        (
            "%EF%BB%BFkey=a",
            "unknown parameter `\u{feff}key` (the name has U+FEFF (byte order mark) as character 1), \
             expected one of `format`, `key`, `streamlet`, did you mean `key`?"
                .to_owned(),
        ),
    ] {
        assert_eq!(parameters(query).expect_err(query), expected);
    }
}

#[test]
fn bad_values_are_refused_with_the_expectation() {
    let of = |query: &str| parameters(query).expect(query);
    let number = of("streamlet=two").value::<u32>("streamlet", "the number of a streamlet");
    assert_eq!(number.unwrap_err().message, "`streamlet=two`: expected the number of a streamlet");
    let choice = |query: &str| {
        let found = of(query);
        let found = found.choice("format", &["json", "text"]);
        found.map(|it| it.map(str::to_owned)).map_err(|problem| problem.message)
    };
    assert_eq!(choice("format=text"), Ok(Some("text".to_owned())));
    assert_eq!(choice("key=a"), Ok(None));
    for (value, expected) in [
        ("jsn", "unknown `format` `jsn`, expected one of `json`, `text`, did you mean `json`?"),
        ("", "unknown `format` ``, expected one of `json`, `text`"),
        (
            "te%D1%85t",
            "unknown `format` `te\u{445}t` (the name has U+0445 (Cyrillic letter) as character 3), \
             expected one of `json`, `text`, did you mean `text`?",
        ),
    ] {
        assert_eq!(choice(&format!("format={value}")), Err(expected.to_owned()), "{value}");
    }
}
