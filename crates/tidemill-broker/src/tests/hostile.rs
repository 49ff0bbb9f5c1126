//! Bytes that no client sends, through the same dispatch as those of a connection: requests of
//! every kind in every version, with bits flipped, numbers replaced, cut short, and joined.
//!
//! The target `broker` in `fuzz/` does the same with bytes that a fuzzer chooses.

use super::client::*;
use crate::{
    Broker, BrokerSettings, DirectClient,
    requests::{REQUESTS, RequestKind},
};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use std::{path::Path, sync::Arc, time::Duration};
use tidemill_env::{SimWorld, World};
use tidemill_log::{Log, LogOptions};
use tidemill_types::ByteSize;
use tidemill_wire::kafka::{
    ApiKey, FRAME_HEAD_BYTES, Message, Request, message::*, read_response_head, request_frame, text,
};

/// A broker in memory, with one topic.
fn broker(sim: &SimWorld) -> (Arc<Log>, Arc<Broker>) {
    let options = LogOptions { streamlets_max: 64, ..LogOptions::default() };
    let log = Arc::new(Log::open(&sim.world, Path::new("/data/log"), options).unwrap());
    let mut settings = BrokerSettings::default();
    settings.limits.inflated_bytes = ByteSize(4 << 20);
    settings.groups.initial_delay_ms = 0;
    let broker = Broker::open(&sim.world, Arc::clone(&log), Path::new("/data"), settings).unwrap();
    log.create("t", tidemill_log::StreamSpec { streamlets: 2, ..Default::default() }).unwrap();
    (log, broker)
}

/// The content of a request's frame; none if this version cannot say it.
fn content<R: Request>(request: &R, version: i16) -> Option<Bytes> {
    let frame = request_frame(request, version, 7, &text("hostile")).ok()?;
    Some(frame.freeze().slice(FRAME_HEAD_BYTES..))
}

/// The answer to a request, as text; it must be one, whole.
fn shown<R: Request>(version: i16, mut answer: Bytes) -> String
where
    R::Response: std::fmt::Debug,
{
    let said = i32::from_be_bytes(answer[..FRAME_HEAD_BYTES].try_into().unwrap());
    assert_eq!(said as usize, answer.len() - FRAME_HEAD_BYTES, "its length is right");
    let mut rest = answer.split_off(FRAME_HEAD_BYTES);
    read_response_head(&mut rest, R::KEY, version).unwrap();
    let answer = R::Response::read(&mut rest, version).unwrap();
    assert!(rest.is_empty());
    format!("{answer:?}")
}

macro_rules! kinds {
    ($($request:ident)*) => {
        /// A frame of each kind in each version that is answered, with nothing in it.
        fn plain_frames() -> Vec<Bytes> {
            let mut frames = Vec::new();
            for (key, (from, to)) in REQUESTS.iter().map(|it| (it.key, it.versions())) {
                for version in from..=to {
                    frames.extend(match key {
                        $(<$request as Request>::KEY => content(&$request::default(), version),)*
                        other => panic!("{other:?} is not in this test's list"),
                    });
                }
            }
            frames
        }

        /// The answer to a request of this kind, as text.
        fn shown_of(key: ApiKey, version: i16, answer: Bytes) -> String {
            match key {
                $(<$request as Request>::KEY => shown::<$request>(version, answer),)*
                other => panic!("{other:?} is not in this test's list"),
            }
        }
    };
}

kinds! {
    ProduceRequestData FetchRequestData ListOffsetsRequestData MetadataRequestData
    ApiVersionsRequestData OffsetCommitRequestData OffsetFetchRequestData
    FindCoordinatorRequestData JoinGroupRequestData HeartbeatRequestData LeaveGroupRequestData
    SyncGroupRequestData DescribeGroupsRequestData ListGroupsRequestData DeleteGroupsRequestData
    OffsetDeleteRequestData CreateTopicsRequestData DeleteTopicsRequestData
    DeleteRecordsRequestData InitProducerIdRequestData OffsetForLeaderEpochRequestData
    AddPartitionsToTxnRequestData AddOffsetsToTxnRequestData EndTxnRequestData
    TxnOffsetCommitRequestData DescribeConfigsRequestData AlterConfigsRequestData
    AlterReplicaLogDirsRequestData DescribeQuorumRequestData
    DescribeLogDirsRequestData CreatePartitionsRequestData IncrementalAlterConfigsRequestData
    ConsumerGroupHeartbeatRequestData DescribeAclsRequestData CreateAclsRequestData
    DeleteAclsRequestData ElectLeadersRequestData AlterPartitionReassignmentsRequestData
    ListPartitionReassignmentsRequestData DescribeClientQuotasRequestData
    DescribeClusterRequestData DescribeProducersRequestData DescribeTransactionsRequestData
    ListTransactionsRequestData ListConfigResourcesRequestData DescribeTopicPartitionsRequestData
}

/// Frames that have something in them.
fn full_frames() -> Vec<Bytes> {
    let mut frames = Vec::new();
    for version in 3..=12 {
        frames.extend(content(&produce("t", 0, chunk(&["a", "b"]), -1), version));
        frames.extend(content(&produce("t", 1, chunk(&["c"]), 1), version));
    }
    for version in 4..=12 {
        frames.extend(content(&fetch("t", 0, 0, 0), version));
    }
    let topics = vec![new_topic("made", 3, &[("retention.ms", "1000")])];
    let create = CreateTopicsRequestData::default().with_topics(topics).with_validate_only(true);
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(Bytes::from_static(&[0, 0, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff]));
    let join = JoinGroupRequestData::default()
        .with_group_id(text("g"))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let end = EndTxnRequestData::default()
        .with_transactional_id(text("x"))
        .with_producer_id(1)
        .with_committed(true);
    let begin = InitProducerIdRequestData::default()
        .with_transactional_id(Some(text("x")))
        .with_transaction_timeout_ms(10_000)
        .with_producer_id(-1)
        .with_producer_epoch(-1);
    for version in 0..=9 {
        frames.extend(content(&create, version.max(2)));
        frames.extend(content(&join, version));
        frames.extend(content(&end, version.min(5)));
        frames.extend(content(&begin, version.min(5)));
    }
    frames
}

/// What is done to a frame.
#[derive(Clone, Debug)]
enum Change {
    Flip {
        at: usize,
        bits: u8,
    },
    /// Two or four bytes become a number that a decoder may believe.
    Number {
        at: usize,
        number: i32,
        short: bool,
    },
    Cut {
        at: usize,
    },
    Insert {
        at: usize,
        bytes: Vec<u8>,
    },
    /// The rest is that of another frame.
    Join {
        at: usize,
        other: usize,
    },
    Version {
        version: i16,
    },
}

fn change() -> impl Strategy<Value = Change> {
    let number = prop_oneof![
        Just(-1),
        Just(-2),
        Just(0),
        Just(i32::MAX),
        Just(i32::MIN),
        Just(0x7fff),
        -10..2_000_000i32,
    ];
    prop_oneof![
        4 => (any::<usize>(), 1..=255u8).prop_map(|(at, bits)| Change::Flip { at, bits }),
        4 => (any::<usize>(), number, any::<bool>())
            .prop_map(|(at, number, short)| Change::Number { at, number, short }),
        1 => any::<usize>().prop_map(|at| Change::Cut { at }),
        1 => (any::<usize>(), proptest::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, bytes)| Change::Insert { at, bytes }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(at, other)| Change::Join { at, other }),
        1 => (-1..20i16).prop_map(|version| Change::Version { version }),
    ]
}

impl Change {
    fn apply(&self, frame: &mut Vec<u8>, all: &[Bytes]) {
        let room = frame.len() + 1;
        match self {
            // Key and version are left as they are, so that most frames come further.
            Self::Flip { at, bits } if frame.len() > 4 => {
                let at = 4 + at % (frame.len() - 4);
                frame[at] ^= bits;
            }
            Self::Number { at, number, short } if frame.len() > 8 => {
                let at = 4 + at % (frame.len() - 7);
                if *short {
                    frame[at..at + 2].copy_from_slice(&number.to_be_bytes()[2..]);
                } else {
                    frame[at..at + 4].copy_from_slice(&number.to_be_bytes());
                }
            }
            Self::Cut { at } => frame.truncate(at % room),
            Self::Insert { at, bytes } => {
                let at = at % room;
                frame.splice(at..at, bytes.iter().copied());
            }
            Self::Join { at, other } => {
                let at = at % room;
                let other = &all[other % all.len()];
                frame.truncate(at);
                frame.extend_from_slice(&other[at.min(other.len())..]);
            }
            Self::Version { version } if frame.len() >= 4 => {
                frame[2..4].copy_from_slice(&version.to_be_bytes());
            }
            _ => {}
        }
    }
}

/// What became of requests.
#[derive(Debug, Default)]
struct Counts {
    answered: usize,
    refused: usize,
    silent: usize,
    waiting: usize,
}

/// Asks; what is answered is an answer of that request, and says no unknown error.
async fn ask(client: &mut DirectClient, frame: Bytes, counts: &mut Counts) {
    let head = frame
        .first_chunk::<4>()
        .map(|it| (i16::from_be_bytes([it[0], it[1]]), i16::from_be_bytes([it[2], it[3]])));
    let asked = tokio::time::timeout(Duration::from_millis(40), client.ask(frame)).await;
    match asked {
        Err(_) => counts.waiting += 1,
        Ok(Err(_)) => counts.refused += 1,
        Ok(Ok(None)) => counts.silent += 1,
        Ok(Ok(Some(answer))) => {
            counts.answered += 1;
            let (key, version) = head.expect("it has a head");
            let kind = RequestKind::of(key).unwrap();
            let (from, to) = kind.versions();
            // An unknown version of the question for versions is answered in the oldest.
            let version = if (from..=to).contains(&version) { version } else { 0 };
            let shown = shown_of(kind.key, version, answer);
            assert!(!shown.contains("error_code: -1,"), "UNKNOWN_SERVER_ERROR: {shown}");
        }
    }
}

/// R6 too: whatever is sent, no answer is an unknown error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_34_no_bytes_hurt_a_broker() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let sim = World::simulated(34);
    let (log, broker) = broker(&sim);
    let mut client = DirectClient::new(&broker);
    let mut frames = plain_frames();
    let plain = frames.len();
    frames.extend(full_frames());
    assert!(plain > 150 && frames.len() > plain + 40);
    let mut counts = Counts::default();
    for frame in &frames {
        ask(&mut client, frame.clone(), &mut counts).await;
    }
    assert_eq!(counts.refused, 0, "nothing is wrong with these: {counts:?}");
    let changes = proptest::collection::vec(change(), 1..4);
    let mut runner = TestRunner::deterministic();
    for round in 0..4_000 {
        // Every other one from those that have something in them.
        let from = if round % 2 == 0 { 0..plain } else { plain..frames.len() };
        let at = from.start + (round / 2) % from.len();
        let mut frame = frames[at].to_vec();
        for change in changes.new_tree(&mut runner).unwrap().current() {
            change.apply(&mut frame, &frames);
        }
        ask(&mut client, frame.into(), &mut counts).await;
    }
    assert!(counts.answered > 1_000 && counts.refused > 300, "{counts:?}");
    assert!(counts.waiting < 400, "{counts:?}");
    // It serves as before.
    let mut after = DirectClient::new(&broker);
    let good = content(&produce("t", 0, chunk(&["good"]), -1), 9).unwrap();
    let answer = after.ask(good).await.unwrap().unwrap();
    assert!(shown_of(ApiKey::Produce, 9, answer).contains("error_code: 0,"));
    broker.close();
    log.close();
}

/// What the log says of a request that is refused is about that request.
#[tokio::test]
async fn a_request_without_an_answer_is_told_of_in_its_own_numbers() {
    let sim = World::simulated(1);
    let (log, broker) = broker(&sim);
    let mut client = DirectClient::new(&broker);
    let mut why = async |key: i16, version: i16| {
        let mut frame = BytesMut::new();
        frame.extend_from_slice(&key.to_be_bytes());
        frame.extend_from_slice(&version.to_be_bytes());
        // A correlation id, and no client id.
        frame.extend_from_slice(&[0, 0, 0, 1, 0xff, 0xff, 0]);
        client.ask(frame.freeze()).await.unwrap_err()
    };
    let produce = ApiKey::Produce as i16;
    assert_eq!(why(produce, 1).await, "is not answered: versions 3 to 13 of it are");
    assert_eq!(why(produce, 14).await, "is not answered: versions 3 to 13 of it are");
    let scram = ApiKey::DescribeUserScramCredentials as i16;
    for nothing in [scram, -1, 999] {
        assert_eq!(why(nothing, 0).await, "is not answered, in no version");
    }
    assert!(why(produce, 3).await.starts_with("cannot be read: "));
    broker.close();
    log.close();
}

proptest! {
    /// Bytes that are nothing at all, in front of any kind.
    #[test]
    fn row_34_any_bytes_are_an_answer_or_a_refusal(
        key in -1..80i16, version in -1..20i16, bytes: Vec<u8>,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let sim = World::simulated(0);
            let (log, broker) = broker(&sim);
            let mut frame = BytesMut::new();
            frame.extend_from_slice(&key.to_be_bytes());
            frame.extend_from_slice(&version.to_be_bytes());
            frame.extend_from_slice(&bytes);
            let mut counts = Counts::default();
            ask(&mut DirectClient::new(&broker), frame.freeze(), &mut counts).await;
            broker.close();
            log.close();
        });
    }
}
