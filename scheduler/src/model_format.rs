//! Recognizes models of other formats, and files that are no model, by their first bytes or file name, and states how to
//! convert them to ONNX or what to do.
//!
//! Invariant: it is consulted only for files that are not ONNX models; a name alone refuses
//! nothing.

use std::path::Path;

use polychip_graph::onnx::content;

/// A format.
struct Format {
    /// Description that follows "is" in the message.
    words: &'static str,
    /// Where its mark lies in the file, and the mark; none where files of it have no mark of their own.
    mark: Option<(usize, &'static [u8])>,
    /// Ends of file names.
    ends: &'static [&'static str],
    /// Remedy; `{file}` is replaced by the file, `{onnx}` by the name of the converted one.
    remedy: &'static str,
}

const FORMATS: &[Format] = &[
    Format {
        words: "a TensorFlow Lite (LiteRT) model",
        mark: Some((4, b"TFL3")),
        ends: &["tflite"],
        remedy: "`python -m tf2onnx.convert --tflite {file} --output {onnx}` converts it",
    },
    Format {
        words: "a language model in GGUF",
        mark: Some((0, b"GGUF")),
        ends: &["gguf"],
        remedy: "`polychip generate`, `chat` and `bench-llm` run it, as does the package polychip-llm",
    },
    Format {
        words: "a model in ONNX Runtime's own format",
        mark: Some((4, b"ORTM")),
        ends: &["ort"],
        remedy: "take the .onnx file that it was made of",
    },
    Format {
        words: "a Core ML model",
        mark: None,
        ends: &["mlpackage", "mlmodel", "mlmodelc"],
        remedy: "export the model that it was made of (`torch.onnx.export`, `tf2onnx`); the plugin coreml then runs its parts by Core \
                 ML",
    },
    Format {
        words: "a PyTorch file",
        mark: None,
        ends: &["pt", "pth", "pt2", "ckpt"],
        remedy: "in Python, `torch.onnx.export(model, (example,), \"{onnx}\", dynamo=True)` converts the model",
    },
    Format {
        words: "a file of weights alone (safetensors)",
        mark: None,
        ends: &["safetensors"],
        remedy: "export the model that they belong to, by `torch.onnx.export` or `optimum-cli export onnx --model NAME FOLDER`",
    },
    Format {
        words: "a Keras model",
        mark: None,
        ends: &["keras", "h5"],
        remedy: "in Python, `model.export(\"{onnx}\", format=\"onnx\")` converts it",
    },
    Format {
        words: "a TensorFlow model",
        mark: None,
        ends: &["pb"],
        remedy: "`python -m tf2onnx.convert --saved-model FOLDER --output {onnx}` converts its folder",
    },
    Format {
        words: "a model in OpenVINO's own format",
        mark: None,
        ends: &["xml"],
        remedy: "take the .onnx file that it was made of; the plugin openvino runs its parts by OpenVINO",
    },
];

/// What a file that is no ONNX model is, where that is known, and what to do.
pub(crate) fn of(path: &Path, bytes: &[u8]) -> Option<String> {
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let is_marked = |format: &&Format| {
        let mark = format.mark.filter(|(at, mark)| {
            let rest = bytes.get(*at..);
            rest.is_some_and(|rest| rest.starts_with(mark))
        });
        mark.is_some()
    };
    let is_named = |format: &&Format| format.ends.iter().any(|known| end.eq_ignore_ascii_case(known));
    let file = path.display().to_string();
    let (marked, named) = (FORMATS.iter().find(is_marked), FORMATS.iter().find(is_named));
    let what = content::of(bytes).filter(|what| marked.is_none() && (what.is_certain || named.is_none()));
    if let Some(what) = what {
        return Some(format!(
            "{file} is {}, not an ONNX model: {}",
            what.words, what.remedy
        ));
    }
    let format = marked.or(named)?;
    let onnx = path.with_extension("onnx").display().to_string();
    let remedy = format.remedy.replace("{file}", &file).replace("{onnx}", &onnx);
    Some(format!("{file} is {}, not an ONNX model: {remedy}", format.words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_identified_by_magic_then_extension() {
        let of = |path: &str, bytes: &[u8]| of(Path::new(path), bytes);
        let words = of("dir/net.bin", b"\x1c\0\0\0TFL3\0\0").unwrap();
        assert!(words.starts_with("dir/net.bin is a TensorFlow Lite"), "{words}");
        assert!(
            words.contains("--tflite dir/net.bin --output dir/net.onnx"),
            "{words}"
        );
        let words = of("llm.pt", b"GGUF\x03").unwrap();
        assert!(
            words.contains("GGUF") && words.contains("polychip-llm"),
            "{words}"
        );
        let words = of("net.PT", b"PK\x03\x04").unwrap();
        assert!(
            words.contains("PyTorch") && words.contains("torch.onnx.export"),
            "{words}"
        );
        assert!(of("Net.mlpackage", b"").unwrap().contains("Core ML"));
        let words = of(
            "net.onnx",
            b"version https://git-lfs.github.com/spec/v1\nsize 99\n",
        )
        .unwrap();
        assert!(
            words.contains("Git LFS pointer") && words.contains("git lfs pull"),
            "{words}"
        );
        assert!(of("net.pt", b"<!doctype html><p>").unwrap().contains("HTML page"));
        assert!(of("net.onnx", b"PK\x03\x04").unwrap().contains("zip archive"));
        for (path, bytes) in [("net.onnx", &b"\x08torn"[..]), ("net", b""), ("tflite", b"\0TFL")] {
            assert_eq!(of(path, bytes), None, "{path}");
        }
    }
}
