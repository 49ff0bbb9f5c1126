//! What a group is behind is that of the streams that are there, and what is left out is counted.

use super::*;
use crate::tests::{client::*, node::Node};
use tidemill_types::{Offset, StreamletIx};

fn lag(group: &str, stream: &str, offsets: u64) -> GroupLag {
    GroupLag { group: group.to_owned(), stream: stream.to_owned(), offsets }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_behind_by_what_it_has_not_committed() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for (name, partitions) in [("a", 2), ("b", 1)] {
        client.create(name, partitions).await;
        for partition in 0..partitions {
            client.produce(name, partition, chunk(&["1", "2", "3"])).await;
        }
    }
    let broker = Arc::clone(&node.broker);
    assert_eq!(broker.group_lags(9), GroupLags::default());
    let commit = move |group: &'static str, stream: &'static str, offsets: Vec<(u32, i64)>| {
        let broker = Arc::clone(&node.broker);
        tokio::task::spawn_blocking(move || {
            let stream = broker.log.get(stream).unwrap();
            let of = |(streamlet, offset)| (StreamletIx(streamlet), Offset(offset));
            let offsets = offsets.into_iter().map(of).collect();
            broker.commit_group_offsets(group, &stream, &offsets).unwrap();
        })
    };
    // A place without an offset does not count.
    commit("g", "a", vec![(1, 1)]).await.unwrap();
    assert_eq!(broker.group_lags(9).lags, [lag("g", "a", 2)]);
    commit("g", "a", vec![(0, 2)]).await.unwrap();
    commit("g", "b", vec![(0, 3)]).await.unwrap();
    commit("h", "b", vec![(0, 0)]).await.unwrap();
    let all = [lag("g", "a", 3), lag("g", "b", 0), lag("h", "b", 3)];
    assert_eq!(broker.group_lags(9), GroupLags { lags: all.to_vec(), left_out: 0, groups: 2 });
    let some = GroupLags { lags: all[..1].to_vec(), left_out: 2, groups: 2 };
    assert_eq!(broker.group_lags(1), some, "what is left out is counted once for a stream");
    client.produce("a", 0, chunk(&["4"])).await;
    assert_eq!(broker.group_lags(9).lags[0], lag("g", "a", 4));
    broker.delete_stream("a").unwrap();
    client.create("a", 2).await;
    assert_eq!(broker.group_lags(9).lags, all[1..], "the stream is another one");
}
