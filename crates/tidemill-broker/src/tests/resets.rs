//! Clients that are killed: their kernel resets the connection, wherever they were in a request.

use super::node::{Node, until};
use std::sync::atomic::Ordering;
use tidemill_wire::kafka::{message::*, request_frame, text};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn a_client_whose_connection_is_reset_is_not_hostile() {
    let node = Node::start().await;
    let counts = &node.broker.counts;
    let request = MetadataRequestData::default();
    let frame = request_frame(&request, 12, 7, &text("killed")).unwrap();
    for sent in [0, 1, 4, frame.len() / 2, frame.len() - 1] {
        let mut client = node.client().await;
        // It is answered, so that it is there, and the next frame is waited for.
        client.ask(&request, 12).await;
        client.socket.write_all(&frame[..sent]).await.unwrap();
        client.socket.set_zero_linger().unwrap();
        drop(client);
        until(|| counts.connections.load(Ordering::Relaxed) == 0).await;
        let hostile = counts.connections_hostile.load(Ordering::Relaxed);
        assert_eq!(hostile, 0, "reset after {sent} bytes of {}", frame.len());
    }
    // One that says what is no request still is.
    let mut client = node.client().await;
    client.socket.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert!(client.is_closed().await);
    until(|| counts.connections_hostile.load(Ordering::Relaxed) == 1).await;
    node.stop().await;
}
