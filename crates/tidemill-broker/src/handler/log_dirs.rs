//! The folder of the log: the size of each partition, and the space on its disk.

use crate::{Broker, api::Context, handler::thread_pool, topic::Topic};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_wire::kafka::{
    ErrorCode,
    message::{
        AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
        AlterReplicaLogDirsRequestData, AlterReplicaLogDirsResponseData, DescribeLogDirsPartition,
        DescribeLogDirsRequestData, DescribeLogDirsResponseData, DescribeLogDirsResult,
        DescribeLogDirsTopic,
    },
    text,
};

/// Describes the one folder. Topics and partitions that are not there are left out.
pub(crate) async fn describe(
    context: &Context<'_>,
    request: DescribeLogDirsRequestData,
) -> DescribeLogDirsResponseData {
    let broker = Arc::clone(context.broker);
    let result = thread_pool::run(move || describe_folder(&broker, &request)).await;
    DescribeLogDirsResponseData { results: vec![result], ..DescribeLogDirsResponseData::default() }
}

/// Moves partitions to folders: there is one folder, and all partitions are in it.
pub(crate) async fn alter(
    context: &Context<'_>,
    request: AlterReplicaLogDirsRequestData,
) -> AlterReplicaLogDirsResponseData {
    let broker = context.broker;
    let here = whole_path(broker.log.folder());
    let mut topics: BTreeMap<String, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for dir in request.dirs {
        let is_here = whole_path(Path::new(dir.path.as_str())) == here;
        for asked in dir.topics {
            let topic = broker.topic(asked.name.as_str());
            let results = topics.entry(asked.name.as_str().to_owned()).or_default();
            results.extend(asked.partitions.into_iter().map(|partition_index| {
                let count = topic.as_ref().map_or(0, |it| it.partition_count());
                let error = match (0..count).contains(&partition_index) {
                    false => ErrorCode::UnknownTopicOrPartition,
                    true if is_here => ErrorCode::None,
                    true => ErrorCode::LogDirNotFound,
                };
                let error_code = error.code();
                AlterReplicaLogDirPartitionResult {
                    partition_index,
                    error_code,
                    ..Default::default()
                }
            }));
        }
    }
    let result = |(name, partitions): (String, _)| AlterReplicaLogDirTopicResult {
        topic_name: text(&name),
        partitions,
        ..AlterReplicaLogDirTopicResult::default()
    };
    AlterReplicaLogDirsResponseData {
        results: topics.into_iter().map(result).collect(),
        ..AlterReplicaLogDirsResponseData::default()
    }
}

/// The absolute form of a path: a client may work in another folder.
fn whole_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn describe_folder(broker: &Broker, request: &DescribeLogDirsRequestData) -> DescribeLogDirsResult {
    let folder = broker.log.folder();
    let log_dir = text(&whole_path(folder).to_string_lossy());
    let space = match broker.world.disk.space(folder) {
        Ok(space) => space,
        Err(error) => {
            tracing::error!(folder = %folder.display(), %error, "the log's disk does not answer");
            return DescribeLogDirsResult {
                error_code: ErrorCode::KafkaStorageError.code(),
                log_dir,
                ..DescribeLogDirsResult::default()
            };
        }
    };
    let signed = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    DescribeLogDirsResult {
        log_dir,
        topics: topics(broker, request),
        total_bytes: signed(space.total_bytes),
        usable_bytes: signed(space.free_bytes),
        ..DescribeLogDirsResult::default()
    }
}

fn topics(broker: &Broker, request: &DescribeLogDirsRequestData) -> Vec<DescribeLogDirsTopic> {
    let Some(asked) = &request.topics else {
        let all = broker.log.list();
        let all = all.iter().filter_map(|it| broker.topic(it.name()));
        return all.map(|it| described(&it, 0..it.partition_count())).collect();
    };
    let mut names: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for topic in asked {
        names.entry(topic.topic.as_str()).or_default().extend(&topic.partitions);
    }
    let one = |(name, mut partitions): (&str, Vec<i32>)| {
        partitions.sort_unstable();
        partitions.dedup();
        Some(described(&*broker.topic(name)?, partitions.into_iter()))
    };
    names.into_iter().filter_map(one).collect()
}

fn described(topic: &Topic, partitions: impl Iterator<Item = i32>) -> DescribeLogDirsTopic {
    let one = |index: i32| {
        let partition = topic.partition(index)?;
        Some(DescribeLogDirsPartition {
            partition_index: index,
            partition_size: i64::try_from(partition.streamlet.bytes()).unwrap_or(i64::MAX),
            ..DescribeLogDirsPartition::default()
        })
    };
    DescribeLogDirsTopic {
        name: text(topic.stream.name()),
        partitions: partitions.filter_map(one).collect(),
        ..DescribeLogDirsTopic::default()
    }
}
