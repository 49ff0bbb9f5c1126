//! The budget, and frames that become more than they are.

use super::*;
use tidemill_wire::kafka::{
    ApiKey,
    message::{DescribeGroupsRequestData, ProduceRequestData, TopicProduceData},
    request_frame, text,
};
use tokio::{io::AsyncWriteExt, net::TcpListener};

#[test]
fn one_at_a_time_goes_beyond_the_budget() {
    let budget = MemoryBudget::new(100);
    let charges = || MemoryCharge::new(&budget);
    let (mut small, mut first, mut second) = (charges(), charges(), charges());
    assert!(small.set(60) && !first.set(50));
    assert!(first.set_in_turn(50), "the first does not wait for room");
    assert!(!second.set_in_turn(50), "the next does");
    assert_eq!(budget.used(), 110);
    first.shrink(45);
    assert!(!second.set_in_turn(50), "there is still more than there may be");
    first.shrink(40);
    assert!(second.set_in_turn(50), "it is another's turn");
    drop(first);
    assert!(!charges().set_in_turn(100));
    drop(second);
    assert!(charges().set_in_turn(100));
    assert_eq!(budget.used(), 60);
    drop(small);
    assert_eq!(budget.used(), 0);
}

#[test]
fn long_frames_leave_room_for_short_ones() {
    let budget = MemoryBudget::with_reserve(8 << 20, 4 << 20);
    let charges = || MemoryCharge::new(&budget);
    let (mut long, mut next, mut short) = (charges(), charges(), charges());
    assert!(long.set(4 << 20) && next.set(3 << 20));
    assert!(!next.set((3 << 20) + 1), "an eighth is for others");
    assert!(short.set(LITTLE_BYTES));
    assert!(!short.set(LITTLE_BYTES + 1), "unless they want more");
    drop(long);
    assert!(short.set(LITTLE_BYTES + 1));
    // The longest frame that there may be has room, whatever that leaves.
    assert!(MemoryCharge::new(&MemoryBudget::with_reserve(8 << 20, 8 << 20)).set(8 << 20));
    assert!(MemoryCharge::new(&MemoryBudget::with_reserve(8 << 20, 9 << 20)).set(8 << 20));
}

/// Frames of a client that has sent so many bytes.
async fn frames(bytes: &[u8], budget: &Arc<MemoryBudget>) -> (tokio::net::TcpStream, Frames) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (socket, _) = listener.accept().await.unwrap();
    let (reading, _writing) = socket.into_split();
    client.write_all(bytes).await.unwrap();
    (client, Frames::new(reading, budget, &Limits::default()))
}

fn names(count: usize) -> BytesMut {
    let request = DescribeGroupsRequestData::default().with_groups(vec![text("0123456789"); count]);
    request_frame(&request, 5, 1, &text("test")).unwrap()
}

#[tokio::test]
async fn a_frame_that_becomes_much_waits_for_room() {
    let frame = names(10_000);
    let budget = MemoryBudget::new(8 << 20);
    let (_client, mut frames) = frames(&frame, &budget).await;
    let mut other = MemoryCharge::new(&budget);
    assert!(other.set_in_turn(9 << 20), "somebody else is beyond the budget");
    {
        let mut next = std::pin::pin!(frames.next());
        let early = timeout(Duration::from_millis(50), &mut next).await;
        assert!(early.is_err(), "there is no room");
        drop(other);
        let (content, charge) = next.await.unwrap();
        assert_eq!(content.len(), frame.len() - FRAME_HEAD_BYTES);
        assert!(charge.bytes >= 300 * content.len(), "what it becomes is charged");
        assert_eq!(budget.used(), charge.bytes);
    }
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_list_of_names_that_is_too_long_is_refused_by_its_length() {
    let budget = MemoryBudget::new(100 << 20);
    let mut head = BytesMut::new();
    head.extend_from_slice(&((1 << 20) + 1_i32).to_be_bytes());
    head.extend_from_slice(&(ApiKey::DescribeGroups as i16).to_be_bytes());
    let (_client, mut refused) = frames(&head, &budget).await;
    let error = refused.next().await.unwrap_err();
    assert!(matches!(error, FrameError::TooLong { max, .. } if max == 1 << 20), "{error}");
    assert!(budget.used() < 64 << 10, "nothing was waited for");
}

#[tokio::test]
async fn a_produce_request_that_becomes_too_much_is_refused_and_keeps_no_charge() {
    let topics = vec![TopicProduceData::default(); 100_000];
    let request = ProduceRequestData::default().with_topic_data(topics);
    let frame = request_frame(&request, 9, 1, &text("test")).unwrap();
    let budget = MemoryBudget::new(8 << 20);
    let (_client, mut refused) = frames(&frame, &budget).await;
    let error = refused.next().await.unwrap_err();
    assert!(matches!(error, FrameError::TooMany { topics: 100_000, .. }), "{error}");
    drop(refused);
    assert_eq!(budget.used(), 0);
    // With more of a budget it is read.
    let budget = MemoryBudget::new(64 << 20);
    let (_client, mut taken) = frames(&frame, &budget).await;
    let (content, charge) = taken.next().await.unwrap();
    assert!(charge.bytes >= content.len() + 100_000 * 400, "what it becomes is charged");
}
