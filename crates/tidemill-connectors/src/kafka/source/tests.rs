//! What is wrong is said when the job is planned, with where and what to do.

mod cluster;
mod seek;

use super::*;
use crate::error::ConnectorErrorKind;
use tidemill_types::job::{Format, MetaSpec, Named, StartSpec, UntilSpec};

fn spec(format: Format) -> RecordSourceSpec {
    RecordSourceSpec {
        format,
        schema: Named::new(),
        sample: None,
        start: StartSpec::Earliest,
        until: UntilSpec::Latest,
        isolation: Isolation::Committed,
        meta: MetaSpec::default(),
        time: None,
        note: None,
        resume: false,
        from_checkpoint: false,
    }
}

#[test]
fn a_cluster_that_is_not_there_is_refused_with_its_address_and_the_setting() {
    let world = World::real();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let brokers = format!("127.0.0.1:{port}");
    let error = RecordSource::of_topic(&world, &brokers, "t", spec(Format::Json)).err().unwrap();
    assert_eq!(error.kind, ConnectorErrorKind::Away);
    assert!(error.message.contains(&brokers), "{error}");
    assert!(error.message.contains("`brokers`"), "{error}");
}

#[test]
fn what_is_no_list_of_addresses_is_refused_before_anybody_is_asked() {
    let world = World::real();
    for brokers in ["", " , ", "localhost", "localhost:", ":9092", "a:9092,b", "a:0", "a:70000"] {
        let error = RecordSource::of_topic(&world, brokers, "t", spec(Format::Text)).err().unwrap();
        assert_eq!(error.kind, ConnectorErrorKind::Unreachable, "{brokers}");
        assert!(error.message.contains("HOST:PORT"), "{error}");
    }
}

#[test]
fn formats_of_whole_files_are_refused() {
    let world = World::real();
    let refused = RecordSource::of_topic(&world, "a:1", "t", spec(Format::Parquet)).err().unwrap();
    assert!(refused.message.contains("json, csv, text or influx"), "{refused}");
}
