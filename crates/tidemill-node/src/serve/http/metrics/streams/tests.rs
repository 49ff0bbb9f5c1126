//! Streams and groups with any names, and with more than fit.

use super::{super::tests::samples, *};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use tidemill_env::World;
use tidemill_log::{Log, LogOptions, StreamSpec};

fn page(fill: impl FnOnce(&mut Page)) -> BTreeMap<String, f64> {
    let mut page = Page(Registry::with_prefix("tidemill"));
    fill(&mut page);
    samples(&page)
}

#[test]
fn streams_that_do_not_fit_are_counted() {
    let sim = World::simulated(1);
    let world = World { disk: sim.process().disk, ..World::real() };
    let log = Log::open(&world, std::path::Path::new("/log"), LogOptions::default()).unwrap();
    for (name, streamlets) in [("a", 2), ("b", 9_998), ("c", 3)] {
        let spec = StreamSpec { streamlets, ..StreamSpec::default() };
        log.create(name, spec).unwrap();
    }
    let page = page(|it| streams(it, &log.list()));
    assert_eq!(page["tidemill_log_stream_left_out"], 1.0);
    assert_eq!(page["tidemill_log_stream_end_offset{stream=\"a\",streamlet=\"1\"}"], 0.0);
    assert!(page.contains_key("tidemill_log_stream_bytes{stream=\"c\"}"));
    assert_eq!(page.len(), 1 + 3 + 4);
    log.close();
}

#[test]
fn names_of_groups_are_escaped_and_very_long_ones_left_out() {
    let lag = |group: &str| GroupLag { group: group.into(), stream: "s".into(), offsets: 3 };
    let lags = vec![lag("a\"b\\c\nd"), lag(&"g".repeat(GROUP_BYTES_MAX + 1))];
    let page = page(|it| groups(it, GroupLags { lags, left_out: 4, groups: 6 }));
    let name = "tidemill_kafka_group_lag_offsets{group=\"a\\\"b\\\\c\\nd\",stream=\"s\"}";
    assert_eq!(page.get(name), Some(&3.0), "{page:?}");
    assert_eq!(page["tidemill_kafka_group_lag_left_out"], 5.0);
    assert_eq!(page["tidemill_kafka_groups"], 6.0);
    assert_eq!(page.len(), 3);
}
