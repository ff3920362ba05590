//! Constants: in nodes, initialisers, the model's file and files beside it.

use super::*;

#[test]
fn constants_in_every_form() {
    let tensor = Attribute {
        name: "value".to_owned(),
        r#type: kind::TENSOR,
        t: Some(Box::new(f32s("", &[2], &[1.5, 2.5]))),
        ..Attribute::default()
    };
    let list = |name: &str, kind: i32| Attribute {
        name: name.to_owned(),
        r#type: kind,
        ..Attribute::default()
    };
    let texts = Attribute {
        strings: vec![Bytes::from("a"), Bytes::from("b")],
        ..list("value_strings", kind::STRINGS)
    };
    let sparse = Attribute {
        sparse_tensor: Some(Box::new(messages::SparseTensor {
            values: Some(f32s("s", &[1], &[7.0])),
            indices: Some(i64s("", &[1], &[1])),
            dims: vec![3],
        })),
        ..list("sparse_value", kind::SPARSE_TENSOR)
    };
    for (attribute, expected) in [
        (tensor, "f32[2] = [1.5, 2.5]"),
        (int("value_int", -3), "i64[] = [-3]"),
        (float("value_float", 0.5), "f32[] = [0.5]"),
        (
            Attribute {
                ints: vec![1, 2],
                ..list("value_ints", kind::INTS)
            },
            "i64[2] = [1, 2]",
        ),
        (
            Attribute {
                floats: vec![1.0],
                ..list("value_floats", kind::FLOATS)
            },
            "f32[1] = [1.0]",
        ),
        (string("value_string", "hi"), "string[] = [\"hi\"]"),
        (texts, "string[2] = [\"a\", \"b\"]"),
        (sparse, "f32[3] = [0.0, 7.0, 0.0]"),
        (list("value_ints", kind::INTS), "i64[0] = []"),
    ] {
        assert_eq!(
            converted(13, node("Constant", "", "y", &[attribute]), &[], &[]),
            format!("const t0 \"y\": {expected}\n")
        );
    }
    let message = error(Graph {
        node: vec![node("Constant", "", "y", &[])],
        ..small()
    })
    .1;
    assert_eq!(message, "node Constant of \"y\" has 0 attributes instead of 1");
}

#[test]
fn weights_stay_where_they_are() {
    let mut graph = small();
    graph.initializer = vec![Tensor {
        name: "w".to_owned(),
        data_type: 1,
        dims: vec![1024],
        raw_data: Some(Bytes::from(vec![3; 4096])),
        ..Tensor::default()
    }];
    graph.node = vec![node("Mul", "w w", "y", &[])];
    let owner: std::sync::Arc<[u8]> = model(13, graph).encode_to_vec().into();
    let graph = import(
        Bytes::from_owner(owner.clone()),
        &NoExternalData,
        &Options::default(),
    )
    .unwrap();
    let (_, tensor) = graph.tensors().find(|(_, tensor)| tensor.name == "w").unwrap();
    let data = tensor.data.as_ref().unwrap();
    assert!(
        owner.as_ptr_range().contains(&data.bytes.as_ptr()),
        "the weights were copied"
    );
    let file = data.file.unwrap();
    let offset = usize::try_from(file.offset).unwrap();
    assert_eq!(file.file, 0);
    assert_eq!(owner[offset..offset + 4096], data.bytes[..]);
    assert_eq!(graph.files, [""]);
}

struct Folder(Bytes);

impl ExternalData for Folder {
    fn open(&self, location: &str) -> std::io::Result<Bytes> {
        match location {
            "w.bin" => Ok(self.0.clone()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        }
    }
}

#[test]
fn external_weights_are_slices_of_their_file() {
    let pair = |key: &str, value: &str| StringPair {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let outside = |location: &str, offset: &str| Tensor {
        name: "w".to_owned(),
        data_type: 1,
        dims: vec![2],
        data_location: EXTERNAL,
        external_data: vec![
            pair("location", location),
            pair("offset", offset),
            pair("length", "8"),
        ],
        ..Tensor::default()
    };
    let graph = |tensor: Tensor| Graph {
        node: vec![node("Mul", "w w", "y", &[])],
        initializer: vec![tensor],
        ..small()
    };
    let folder = Folder(Bytes::from_owner([7u8; 64]));
    let read = |tensor: Tensor| {
        let bytes = model(13, graph(tensor)).encode_to_vec();
        import(Bytes::from(bytes), &folder, &Options::default())
    };
    let imported = read(outside("w.bin", "16")).unwrap();
    let (_, tensor) = imported.tensors().find(|(_, tensor)| tensor.name == "w").unwrap();
    let data = tensor.data.as_ref().unwrap();
    assert_eq!(data.bytes.as_ptr().addr() - folder.0.as_ptr().addr(), 16);
    assert_eq!(imported.files, ["", "w.bin"]);
    assert_eq!(data.file.map(|file| (file.file, file.offset)), Some((1, 16)));
    for (location, offset, message) in [
        (
            "../w.bin",
            "0",
            "tensor \"w\": external data location \"../w.bin\" leaves the model's folder",
        ),
        (
            "/w.bin",
            "0",
            "tensor \"w\": external data location \"/w.bin\" is absolute",
        ),
        (
            "w.bin",
            "60",
            "tensor \"w\": external data at 60, 8 bytes, reaches beyond file \"w.bin\" of 64 bytes",
        ),
    ] {
        let error = read(outside(location, offset)).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::ExternalData, message)
        );
    }
    let error = read(outside("none.bin", "0")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("external data file \"none.bin\" cannot be opened"),
        "{error}"
    );
}

#[test]
fn initialisers_that_are_inputs_too_are_constants() {
    let mut inputs = x();
    inputs.push(value("w", DType::F32, &[4]));
    let graph = Graph {
        node: vec![node_of("Mul", "x w", "y")],
        input: inputs,
        initializer: vec![f32s("w", &[4], &[1.0; 4])],
        ..small()
    };
    let graph = read(&model(9, graph)).unwrap();
    let names: Vec<&str> = graph
        .inputs
        .iter()
        .map(|&id| graph.tensor(id).name.as_str())
        .collect();
    assert_eq!(names, ["x"]);
}
