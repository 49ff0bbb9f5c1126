//! Pages have help and a type for every figure, and an end.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// The samples of a page by name and labels, read as strictly as Prometheus does.
pub(super) fn samples(page: &Page) -> BTreeMap<String, f64> {
    let mut text = String::new();
    encode(&mut text, &page.0).unwrap();
    let (mut samples, mut seen, mut of) = (BTreeMap::new(), BTreeSet::new(), (String::new(), ""));
    let lines = text.strip_suffix("# EOF\n").expect("a page has its end").lines();
    for line in lines.filter(|it| !it.starts_with("# HELP ")) {
        if let Some(line) = line.strip_prefix("# TYPE ") {
            let (name, kind) = line.split_once(' ').unwrap();
            assert!(seen.insert(name), "{name} is there once");
            of = (name.to_owned(), kind);
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let expected = if of.1 == "counter" { format!("{}_total", of.0) } else { of.0.clone() };
        assert_eq!(name, expected, "{line}");
        let rest = &series[name.len()..];
        if !rest.is_empty() {
            labels(rest.strip_prefix('{').unwrap().strip_suffix('}').unwrap());
        }
        let before = samples.insert(series.to_owned(), value.parse().unwrap());
        assert!(before.is_none(), "{series} is there once");
    }
    samples
}

/// `name="value",name="value"`, with what must be escaped escaped.
fn labels(mut text: &str) {
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").unwrap();
        assert!(name.bytes().all(|it| it.is_ascii_lowercase()), "{name}");
        let mut end = None;
        let mut bytes = rest.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    end = Some(at);
                    break;
                }
                b'\\' => assert!(matches!(bytes.next(), Some((_, b'\\' | b'"' | b'n')))),
                _ => {}
            }
        }
        text = &rest[end.expect("a value ends") + 1..];
        assert!(text.is_empty() || text.starts_with(','), "{text}");
        text = text.strip_prefix(',').unwrap_or(text);
    }
}

#[test]
fn every_figure_has_help() {
    let mut page = Page(Registry::with_prefix("tidemill"));
    http(&HttpCounts::default(), &mut page);
    page.gauge("some", "Some thing", 1.5);
    let mut text = String::new();
    encode(&mut text, &page.0).unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(text.contains("# HELP tidemill_some Some thing.\n# TYPE tidemill_some gauge\n"));
    assert!(text.contains("tidemill_some 1.5\n"), "{text}");
    assert!(text.contains("tidemill_http_requests_total 0\n"), "{text}");
    for line in text.lines().filter(|it| !it.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let name = name.strip_suffix("_total").unwrap_or(name);
        assert!(text.contains(&format!("# HELP {name} ")), "{line}");
    }
}

#[test]
fn durations_are_a_histogram() {
    let classes = vec![(1_000, 2), (500_000, 3)];
    let figures = SyncFigures { classes, longer: 1, total_us: 2_500_000 };
    let mut registry = Registry::default();
    registry.register("sync_seconds", "How long", Spread(figures));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        "# TYPE sync_seconds histogram",
        "sync_seconds_sum 2.5",
        "sync_seconds_count 6",
        "sync_seconds_bucket{le=\"0.001\"} 2",
        "sync_seconds_bucket{le=\"0.5\"} 5",
        "sync_seconds_bucket{le=\"+Inf\"} 6",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn resident_memory_is_read() {
    assert_eq!(resident_bytes(b"Name:\tx\nVmRSS:\t   42 kB\nThreads:\t3\n"), Some(42 * 1024));
    for bad in
        [&b""[..], b"VmRSS:", b"VmRSS:\t1 MB", b"VmRSS:\t-1 kB", b"VmRSS: 99999999999999999999 kB"]
    {
        assert_eq!(resident_bytes(bad), None);
    }
}
