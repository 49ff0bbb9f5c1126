//! Messages of etcd's JSON gateway: bytes are base64, 64-bit numbers are text, zero values are absent.
//!
//! Answers are bytes from outside: unknown fields are passed over, and missing ones are zero.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(D::Error::custom)
}

/// A number that the gateway writes as text, or as a number.
fn number<'de, D: Deserializer<'de>, N: TryFrom<i64>>(deserializer: D) -> Result<N, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Number(i64),
    }
    let value = match Form::deserialize(deserializer)? {
        Form::Text(text) => text.parse().map_err(D::Error::custom)?,
        Form::Number(value) => value,
    };
    N::try_from(value).map_err(|_| D::Error::custom(format!("{value} is out of range")))
}

/// An id of 64 bits without a sign.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// The head of each answer.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Header {
    #[serde(default, deserialize_with = "id")]
    pub(super) cluster_id: u64,
    #[serde(default, deserialize_with = "number")]
    pub(super) revision: u64,
}

#[derive(Serialize)]
pub(super) struct RangeRequest {
    #[serde(serialize_with = "to_base64")]
    pub(super) key: Vec<u8>,
    #[serde(serialize_with = "to_base64", skip_serializing_if = "Vec::is_empty")]
    pub(super) range_end: Vec<u8>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RangeAnswer {
    pub(super) header: Header,
    pub(super) kvs: Vec<EtcdEntry>,
}

/// A key with its value, as etcd has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EtcdEntry {
    #[serde(deserialize_with = "from_base64")]
    pub(super) key: Vec<u8>,
    #[serde(deserialize_with = "from_base64")]
    pub(super) value: Vec<u8>,
    #[serde(deserialize_with = "number")]
    pub(super) mod_revision: u64,
    #[serde(deserialize_with = "number")]
    pub(super) lease: i64,
}

#[derive(Serialize)]
pub(super) struct Compare {
    pub(super) target: &'static str,
    pub(super) result: &'static str,
    #[serde(serialize_with = "to_base64")]
    pub(super) key: Vec<u8>,
    pub(super) mod_revision: String,
}

#[derive(Serialize)]
pub(super) enum TxnOperation {
    #[serde(rename = "request_put")]
    Put(PutRequest),
    #[serde(rename = "request_delete_range")]
    DeleteRange(DeleteRequest),
}

#[derive(Serialize)]
pub(super) struct PutRequest {
    #[serde(serialize_with = "to_base64")]
    pub(super) key: Vec<u8>,
    #[serde(serialize_with = "to_base64")]
    pub(super) value: Vec<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<String>,
}

#[derive(Serialize)]
pub(super) struct DeleteRequest {
    #[serde(serialize_with = "to_base64")]
    pub(super) key: Vec<u8>,
}

#[derive(Serialize)]
pub(super) struct TxnRequest {
    pub(super) compare: Vec<Compare>,
    pub(super) success: Vec<TxnOperation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TxnAnswer {
    pub(super) header: Header,
    pub(super) succeeded: bool,
}

#[derive(Serialize)]
pub(super) struct LeaseRequest {
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(rename = "TTL", skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LeaseAnswer {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub(super) id: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct KeepAliveAnswer {
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub(super) ttl: i64,
}

/// One message of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct StreamItem<T> {
    pub(super) result: Option<T>,
    #[serde(default)]
    pub(super) error: Option<StreamError>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamError {
    pub(super) message: String,
}

#[derive(Serialize)]
pub(super) struct WatchRequest {
    pub(super) create_request: WatchCreate,
}

#[derive(Serialize)]
pub(super) struct WatchCreate {
    #[serde(serialize_with = "to_base64")]
    pub(super) key: Vec<u8>,
    #[serde(serialize_with = "to_base64")]
    pub(super) range_end: Vec<u8>,
    pub(super) start_revision: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WatchAnswer {
    pub(super) header: Header,
    pub(super) canceled: bool,
    #[serde(deserialize_with = "number")]
    pub(super) compact_revision: u64,
    pub(super) cancel_reason: String,
    pub(super) events: Vec<WatchEvent>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WatchEvent {
    /// Absent for a put.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) kv: EtcdEntry,
}

/// An error of the gateway.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GatewayError {
    /// The code of gRPC.
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) error: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_texts_and_zero_is_absent() {
        let text = r#"{"header":{"cluster_id":"14841639068965178418","revision":"7"},
            "kvs":[{"key":"dGlkZW1pbGwvYQ==","mod_revision":"7"}],"count":"1","later":{}}"#;
        let answer: RangeAnswer = serde_json::from_str(text).expect("as etcd 3.4 writes it");
        assert_eq!(answer.header.cluster_id, 14_841_639_068_965_178_418);
        let entry = &answer.kvs[0];
        assert_eq!((entry.key.as_slice(), entry.value.len()), (b"tidemill/a".as_slice(), 0));
        assert_eq!((entry.mod_revision, entry.lease), (7, 0));
    }

    #[test]
    fn a_number_out_of_range_is_an_error() {
        for text in [r#"{"ID":"x"}"#, r#"{"ID":"99999999999999999999"}"#] {
            assert!(serde_json::from_str::<LeaseAnswer>(text).is_err(), "{text}");
        }
        let negative = r#"{"header":{"revision":"-1"}}"#;
        assert!(serde_json::from_str::<TxnAnswer>(negative).is_err());
    }

    #[test]
    fn a_transaction_is_written_as_the_gateway_reads_it() {
        let put = PutRequest { key: b"a".to_vec(), value: Vec::new(), lease: Some("5".into()) };
        let request = TxnRequest { compare: Vec::new(), success: vec![TxnOperation::Put(put)] };
        let text = serde_json::to_string(&request).expect("has an encoding");
        let expected =
            r#"{"compare":[],"success":[{"request_put":{"key":"YQ==","value":"","lease":"5"}}]}"#;
        assert_eq!(text, expected);
    }
}
