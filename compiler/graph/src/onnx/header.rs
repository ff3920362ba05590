//! The header of a model file: versions, producer and metadata, without building the graph.
//!
//! Invariant: nothing here is trusted or checked; [`import`](super::import) does that.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::messages::OperatorSetId;
use super::opsets::domain;
use crate::Error;

/// The header of a model file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Version of the file format.
    pub ir_version: Option<i64>,
    /// Opset version by domain. The default domain (`ai.onnx`) has the key `""`.
    pub opsets: BTreeMap<String, i64>,
    /// The tool that wrote the file.
    pub producer: String,
    /// Version of that tool.
    pub producer_version: String,
    /// Named texts that the producer added.
    pub metadata: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Wire {
    #[prost(int64, optional, tag = "1")]
    ir_version: Option<i64>,
    #[prost(string, tag = "2")]
    producer_name: String,
    #[prost(string, tag = "3")]
    producer_version: String,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<OperatorSetId>,
    #[prost(message, repeated, tag = "14")]
    metadata_props: Vec<Entry>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// Reads the header of a model. The graph in it is skipped.
///
/// # Errors
/// The bytes are not readable as ONNX protobuf.
pub fn read_header(bytes: Bytes) -> Result<Header, Error> {
    let wire = Wire::decode(bytes).map_err(Error::wire)?;
    Ok(Header {
        ir_version: wire.ir_version,
        opsets: wire
            .opset_import
            .iter()
            .map(|import| (domain(&import.domain).to_owned(), import.version))
            .collect(),
        producer: wire.producer_name,
        producer_version: wire.producer_version,
        metadata: wire
            .metadata_props
            .into_iter()
            .map(|entry| (entry.key, entry.value))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_read_and_the_graph_skipped() {
        let wire = Wire {
            ir_version: Some(8),
            producer_name: "maker".into(),
            producer_version: "2".into(),
            opset_import: vec![
                OperatorSetId {
                    domain: "ai.onnx".into(),
                    version: 17,
                },
                OperatorSetId {
                    domain: "com.x".into(),
                    version: 1,
                },
            ],
            metadata_props: vec![Entry {
                key: "k".into(),
                value: "v".into(),
            }],
        };
        let mut bytes = wire.encode_to_vec();
        bytes.extend([0x3a, 2, 0xff, 0xff]); // field 7, the graph: rubbish that must not be looked at
        let header = read_header(bytes.into()).unwrap();
        assert_eq!(
            (header.ir_version, &*header.producer, &*header.producer_version),
            (Some(8), "maker", "2")
        );
        assert_eq!(
            header.opsets,
            BTreeMap::from([(String::new(), 17), ("com.x".to_owned(), 1)])
        );
        assert_eq!(header.metadata["k"], "v");
        assert!(read_header(Bytes::from_static(&[0x3a, 200])).is_err());
    }
}
