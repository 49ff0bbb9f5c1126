//! Pages have help and a type for every figure, and an end.

use super::*;

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
