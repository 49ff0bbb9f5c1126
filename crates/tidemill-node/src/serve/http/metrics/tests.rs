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
fn resident_memory_is_read() {
    assert_eq!(resident_bytes(b"Name:\tx\nVmRSS:\t   42 kB\nThreads:\t3\n"), Some(42 * 1024));
    for bad in
        [&b""[..], b"VmRSS:", b"VmRSS:\t1 MB", b"VmRSS:\t-1 kB", b"VmRSS: 99999999999999999999 kB"]
    {
        assert_eq!(resident_bytes(bad), None);
    }
}
