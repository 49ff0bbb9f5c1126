//! Settings of topics that change what the broker does with their records.

use super::{client::*, node::Node};
use tidemill_types::Micros;
use tidemill_wire::{
    kafka::{
        ErrorCode,
        message::{
            IncrementalAlterConfigsRequestData,
            incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        },
        text,
    },
    records::Compression,
};

fn keyless() -> Vec<u8> {
    chunk_at(&[1_000], b"value", Compression::NONE)
}

async fn set_policy(client: &mut Client, policy: &str) {
    let config = AlterableConfig::default()
        .with_name(text("cleanup.policy"))
        .with_value(Some(text(policy)))
        .with_config_operation(0);
    let resource = AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequestData::default().with_resources(vec![resource]);
    assert_eq!(only(client.ask(&request, 1).await.responses).error_code, 0, "{policy}");
}

#[tokio::test]
async fn a_compacted_topic_wants_keys_and_keeps_all() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let day_ms = "86400000";
    client.create_with("t", 1, &[("retention.ms", day_ms), ("segment.bytes", "65536")]).await;
    let later = || Micros(tidemill_env::World::real().clock.wall_micros() + 3 * 86_400_000_000);
    let old = vec!["x".repeat(1_000); 60];
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let no_key = code(ErrorCode::InvalidRecord);
    for (policy, keys, goes) in
        [("compact", true, false), ("delete", false, true), ("compact,delete", true, true)]
    {
        set_policy(&mut client, policy).await;
        let answer = client.produce("t", 0, keyless()).await;
        assert_eq!(answer.error_code == no_key, keys, "{policy}");
        for _ in 0..3 {
            assert_eq!(client.produce("t", 0, chunk(&old)).await.error_code, 0, "{policy}");
        }
        let gone = node.log.maintain(later()).unwrap();
        assert_eq!(gone > 0, goes, "{policy}");
    }
    node.stop().await;
}
