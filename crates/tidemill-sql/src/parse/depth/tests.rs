//! The bound holds for whatever the parser makes of a text, and does not hold back what is wide.

use super::*;
use crate::Expr;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use datafusion_sql::sqlparser::{
    ast::{self, Visit, Visitor},
    dialect::GenericDialect,
    parser::Parser,
    tokenizer::Tokenizer,
};
use proptest::prelude::*;
use std::{ops::ControlFlow, sync::Arc};

fn tokens(sql: &str) -> Vec<TokenWithSpan> {
    Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().expect(sql)
}

/// How deep the parser's tree is.
#[derive(Default)]
struct Deep {
    now: usize,
    most: usize,
}

impl Visitor for Deep {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &ast::Expr) -> ControlFlow<()> {
        self.now += 1;
        self.most = self.most.max(self.now);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &ast::Expr) -> ControlFlow<()> {
        self.now -= 1;
        ControlFlow::Continue(())
    }
}

fn real_depth(sql: &str) -> Option<usize> {
    let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens(sql));
    let parsed = parser.parse_expr().ok()?;
    let mut deep = Deep::default();
    let _ = parsed.visit(&mut deep);
    Some(deep.most)
}

fn expression() -> impl Strategy<Value = String> {
    let leaf =
        prop::sample::select(vec!["n", "1", "'x'", "null", "end_of"]).prop_map(str::to_owned);
    leaf.prop_recursive(8, 64, 4, |inner| {
        let part = inner.clone();
        let chain = |words: Vec<&'static str>| {
            let word = prop::sample::select(words);
            (part.clone(), prop::collection::vec((word, part.clone()), 1..6)).prop_map(
                |(first, rest)| {
                    rest.iter().fold(first, |all, (word, it)| format!("{all} {word} {it}"))
                },
            )
        };
        prop_oneof![
            chain(vec!["+", "*", "||", "=", "<", "and", "or", "xor", "like", "is distinct from"]),
            chain(vec!["and", "or"]),
            chain(vec!["-", "/", "%", "^", "&", "|", "<<", "<>", "->", "~", "not like", "ilike"]),
            chain(vec![
                "is not distinct from",
                "similar to",
                "and",
                "not between 1 and",
                "=",
                "@>"
            ]),
            inner.clone().prop_map(|it| format!("{it} at time zone 'UTC'")),
            inner.clone().prop_map(|it| format!("{it} is not true")),
            inner.clone().prop_map(|it| format!("substring({it} from {it} for 2)")),
            inner.clone().prop_map(|it| format!("interval {it} day")),
            inner.clone().prop_map(|it| format!("{it}[{it}:2]")),
            inner.clone().prop_map(|it| format!("{it} like 'x' escape '!'")),
            inner.clone().prop_map(|it| format!("case {it} when 1 then {it} end")),
            prop::collection::vec(inner.clone(), 1..4)
                .prop_map(|it| format!("f({})", it.join(", "))),
            inner.clone().prop_map(|it| format!("({it})")),
            inner.clone().prop_map(|it| format!("not {it}")),
            inner.clone().prop_map(|it| format!("-{it}")),
            inner.clone().prop_map(|it| format!("{it} is null")),
            inner.clone().prop_map(|it| format!("{it}::bigint")),
            inner.clone().prop_map(|it| format!("make_array({it})[1]")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(it, least, most)| format!("{it} between {least} and {most}")),
            (inner.clone(), inner.clone()).prop_map(|(it, one)| format!("{it} in ({one}, 2)")),
            (inner.clone(), inner.clone(), inner).prop_map(|(when, then, other)| format!(
                "case when {when} then {then} else {other} end"
            )),
        ]
    })
}

proptest! {
    #[test]
    fn no_tree_is_deeper_than_its_words_say(sql in expression()) {
        let Some(real) = real_depth(&sql) else { return Ok(()) };
        let (bound, _) = of(&tokens(&sql));
        prop_assert!(real <= bound, "{real} instead of {bound}: {sql}");
    }
}

fn depth(sql: &str) -> usize {
    of(&tokens(sql)).0
}

#[test]
fn what_is_wide_is_not_deep() {
    let ors = |count: usize| vec!["n = 1 and m = 2 + 3"; count].join(" or ");
    assert_eq!((depth("n"), depth("n + 1"), depth(&ors(100))), (1, 2, 103));
    let numbers = (0..10_000).map(|it| it.to_string()).collect::<Vec<_>>().join(", ");
    assert!(depth(&format!("n in ({numbers})")) < 5);
    let whens = (0..1_000).map(|it| format!(" when n = {it} then {it} + 1")).collect::<String>();
    assert!(depth(&format!("case{whens} else 0 end")) < 6);
    assert!(depth(&format!("concat({numbers}) || 'x'")) < 5);
}

fn compiled(sql: &str) -> Result<Expr, ExprError> {
    let fields = [("n", DataType::Int64), ("t", DataType::Utf8)];
    let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let expr = Expr::compile(sql, &schema)?;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(StringArray::from(vec!["x"; 3])),
    ];
    let batch = RecordBatch::try_new(schema, columns).expect("columns of the schema");
    expr.evaluate(&batch).expect(sql);
    Ok(expr)
}

/// Texts of one kind that are so deep, nearly. Names of types and `null` count as operators, too.
fn chains(count: usize) -> Vec<String> {
    let half = count / 2;
    vec![
        vec!["n"; count].join(" + "),
        vec!["t"; count].join(" || "),
        (0..count).map(|it| format!("n = {it} * n")).collect::<Vec<_>>().join(" or "),
        (0..count).map(|it| format!("n <> {it} * n")).collect::<Vec<_>>().join(" and "),
        format!("n{}", "::bigint".repeat(half)),
        format!("n is null{}", " is null".repeat(half)),
        format!("n between 0 and n{}", " and n > 0".repeat(count)),
        vec!["case when n > 1 then coalesce(n, 2) else 0 end"; count].join(" + "),
    ]
}

#[test]
fn deep_expressions_are_planned_and_run_on_any_thread() {
    for sql in chains(DEPTH_MAX - 12) {
        compiled(&sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    }
}

#[test]
fn what_is_too_deep_is_refused_at_its_place() {
    for sql in chains(DEPTH_MAX + 4).into_iter().chain(chains(200_000)) {
        let error = compiled(&sql).expect_err("it is too deep");
        assert!(error.message.starts_with("more than 500 operators work on"), "{}", error.message);
        assert!(error.line == 1 && error.column > 500, "{}", error.column);
    }
}

/// The `and` of a `between` binds as tightly as `=`: what stands before it goes on behind it.
#[test]
fn the_and_of_a_between_ends_nothing() {
    let sql = format!("n{}", " between n and n = n".repeat(30));
    let (real, (bound, _)) = (real_depth(&sql).expect("it can be parsed"), of(&tokens(&sql)));
    assert!(real > 60 && real <= bound, "{real} and {bound}");
    let error = compiled(&format!("n{}", " between n and n = n".repeat(400)));
    let error = error.expect_err("it is too deep");
    assert!(error.message.starts_with("more than 500 operators"), "{}", error.message);
    let ands = vec!["n between 1 and 2"; 400].join(" and ");
    assert!(depth(&ands) < 410, "what is wide is not deep");
}
