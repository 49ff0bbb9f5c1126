//! Times of far years, which nanoseconds do not know: one such row must not fail a query.

use super::*;
use arrow_array::{Date32Array, TimestampMicrosecondArray};

/// 2024-01-02 and 9999-12-31 as a time and a date, a time that is null, and a near one beside it.
fn batch() -> RecordBatch {
    let micros = |days: i64| days * 86_400_000_000;
    let at = vec![Some(micros(19_724)), Some(micros(2_932_896)), None];
    let at = TimestampMicrosecondArray::from(at).with_timezone("UTC");
    let near = TimestampMicrosecondArray::from(vec![micros(19_723); 3]).with_timezone("UTC");
    RecordBatch::try_from_iter_with_nullable([
        ("at", Arc::new(at) as ArrayRef, true),
        ("d", Arc::new(Date32Array::from(vec![19_724, 2_932_896, 2_932_896])) as _, true),
        ("near", Arc::new(near) as _, true),
    ])
    .unwrap()
}

fn ask(sql: &str) -> Vec<String> {
    let tables = [("state".to_owned(), batch().schema())];
    let query = Query::compile(sql, &tables).unwrap_or_else(|error| panic!("{sql}: {error}"));
    lines(query.run(100).unwrap(), vec![batch()]).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[test]
fn times_are_chosen_and_put_into_zones_whatever_their_year() {
    // A time beside a date has no zone.
    let (near, far) = ("2024-01-02T00:00:00", "9999-12-31T00:00:00");
    for (sql, expected) in [
        ("coalesce(at, d)", [near, far, far]),
        ("greatest(at, d)", [near, far, far]),
        ("coalesce(nullif(at, d), near)", ["2024-01-01T00:00:00Z"; 3]),
        ("case at when d then 1 else 2 end", ["1", "1", "2"]),
        ("at > '2024-01-01T00:00:00.1234567Z'", ["true", "true", "null"]),
        ("date_part('hour', to_local_time(at at time zone '+02:00'))", ["2", "2", "null"]),
        ("coalesce(at at time zone '+02:00', d) = d", ["true", "true", "true"]),
        ("array_length([at, d])", ["2", "2", "2"]),
        ("(at - d) = interval '0 days'", ["true", "true", "null"]),
        ("(at - near) > interval '36 hours'", ["false", "true", "null"]),
        ("d - interval '12 hours' < d", ["true", "true", "true"]),
        ("date_part('hour', d - interval '12 hours')", ["12", "12", "12"]),
    ] {
        assert_eq!(ask(&format!("SELECT {sql} FROM state")), expected, "{sql}");
    }
}

#[test]
fn steps_behind_know_the_types_of_those_before() {
    let (near, far) = ("2024-01-02T00:00:00", "9999-12-31T00:00:00");
    let sql = "SELECT c, count(*) FROM (SELECT coalesce(at, d) AS c FROM state) AS t \
               WHERE c > '2000-01-01' GROUP BY c ORDER BY c DESC";
    assert_eq!(ask(sql), [format!("{far} 2"), format!("{near} 1")]);
    let sql = "SELECT max(coalesce(at, d)) AS m, count(DISTINCT greatest(at, d)) FROM state \
               HAVING max(coalesce(at, d)) > '9000-01-01'";
    assert_eq!(ask(sql), [format!("{far} 2")]);
    let sql = "SELECT DISTINCT coalesce(at, d) AS c FROM state ORDER BY c LIMIT 1";
    assert_eq!(ask(sql), [near]);
    let sql =
        "SELECT at AT TIME ZONE '+02:00' AS c FROM state ORDER BY near, c DESC NULLS LAST LIMIT 1";
    assert_eq!(ask(sql), ["9999-12-31T02:00:00+02:00"]);
}
