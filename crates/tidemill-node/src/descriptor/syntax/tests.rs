//! A table of texts that are no YAML, each with the message that its author gets.

use crate::descriptor::parse;

fn refused(text: &str) -> String {
    let refused = parse(text, "j").expect_err("it must be refused").to_string();
    refused.lines().next().expect("a line").to_owned()
}

#[test]
fn faults_of_yaml_are_told_with_place_and_expectation() {
    let names = "one `NAME: VALUE` in a line, the names of a table indented alike, and quotes round \
                 a text that has `: ` in it";
    for (text, place, message) in [
        ("name: a: b\n", "1:8", format!("a `:` where no name can end, expected {names}")),
        ("name: a\n  b: 1\n c: 2\n", "2:4", format!("a `:` where no name can end, expected {names}")),
        ("name: [a, b\n", "1:7", "a list that has no end, expected `]`".into()),
        ("name: {a: 1\n", "1:7", "a table that has no end, expected `}`".into()),
        (
            "name: [1, 2\nsources: 3\n",
            "2:8",
            "a `:` within a list or a table in brackets, expected the closing bracket before it".into(),
        ),
        (
            "name: }",
            "1:7",
            "a bracket that closes nothing, expected an opening bracket before it, or quotes round a \
             text with brackets"
                .into(),
        ),
        (
            "name: \"a\n",
            "2:1",
            "a text in quotes that has no end, or whose next line is not indented, expected the same \
             quote at its end"
                .into(),
        ),
        (
            "name: a\n\tcycle: 5ms\n",
            "1:7",
            "a tab before or in a name, expected spaces: YAML is not indented with tabs".into(),
        ),
        ("name: a\nsources\n", "2:1", "a line without `:` among names, expected `NAME: VALUE`".into()),
        ("name: @a\n", "1:7", "a text that begins with `@`, expected quotes round it".into()),
        ("name: `a`\n", "1:7", "a text that begins with ```, expected quotes round it".into()),
        (
            "name: a\u{7}b\n",
            "1:7",
            "the character U+0007, which YAML does not take as it is, expected no such character, or \
             `\\u0007` in double quotes"
                .into(),
        ),
        (
            "name: a\0b\n",
            "1:8",
            "the character U+0000, which YAML does not take as it is, expected no such character, or \
             `\\u0000` in double quotes"
                .into(),
        ),
        (
            "name: *a\n",
            "1:7",
            "`*` with a name that no `&` has given, expected quotes round a text that begins with \
             `*`"
                .into(),
        ),
        (
            "name: \"\\q\"\n",
            "1:7",
            "an escape that double quotes do not have, expected `\\\\` for a backslash, or single \
             quotes"
                .into(),
        ),
        (
            "name: \"\\ud800\"\n",
            "1:7",
            "half of a character in double quotes, expected both halves, such as `\\ud83d\\ude00`, or \
             the character itself"
                .into(),
        ),
        ("? [a]\n: b\n", "1:3", "a list or a table as a name, expected text".into()),
        (
            "null: a\n",
            "1:1",
            "a table has nothing as a name, expected a name; in quotes, if it is `null`".into(),
        ),
        (
            "name: 1e999\n",
            "1:7",
            "`1e999` is no finite number, expected a number, or quotes round a text".into(),
        ),
        (
            "x: &a [*a]\n",
            "1:8",
            "a value that `*` puts into itself, expected a value without itself".into(),
        ),
        ("<<: a\nname: b\n", "1:5", "`<<` without a table, expected `<<: *NAME`, the name of a table".into()),
        (
            "name: a #b\n  c\n",
            "1:9",
            "a comment within a text of several lines, expected quotes round the text, or the comment \
             elsewhere"
                .into(),
        ),
        (
            "name: - a\n",
            "1:7",
            "`- ` where no list can begin, expected each entry in a line of its own, or `[a, b]`".into(),
        ),
        (
            "key: \"a\" b\n",
            "1:10",
            "something behind the closing quote, expected the end of the line, `:`, `,` or a bracket; \
             a quote within double quotes is written `\\\"`"
                .into(),
        ),
        (
            "name: a\n\u{feff}b: c\n",
            "2:1",
            "a byte order mark (U+FEFF) within the text, expected none, or one as the first character \
             of the file"
                .into(),
        ),
        (
            "[package]\nname = \"a\"\n",
            "2:1",
            "something behind the end of the value, expected one table of names and values".into(),
        ),
        (
            "name: >9\n x\n",
            "2:2",
            "a text behind `|` or `>` that is not indented as it says, expected all of its lines \
             indented alike, by more than its name"
                .into(),
        ),
        (
            "name: !!int x\n",
            "1:13",
            "a value that is not of the type that `!` names, expected the value without a tag, such \
             as `!!int`"
                .into(),
        ),
        ("a: 1\n---\nb: 2\n", "2:1", "a job is one YAML document".into()),
        ("name: a\nname: b\n", "2:1", "the name `name` stands twice in one table".into()),
    ] {
        assert_eq!(refused(text), format!("j:{place}: error: {message}"), "{text:?}");
    }
}

#[test]
fn a_message_that_is_not_in_the_table_is_kept_with_an_expectation() {
    let problem = super::of_message("the parser is out of sorts");
    assert_eq!(
        problem.to_string(),
        "this is not YAML (the parser is out of sorts), expected names of a table indented alike, \
         lists with `- `, and quotes round texts with signs that YAML has a meaning for"
    );
}
