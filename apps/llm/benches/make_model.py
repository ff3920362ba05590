"""Language models to measure with: of any size, of random weights, or a model in another type of blocks.

    python apps/llm/benches/make_model.py random  SOURCE.gguf OUT.gguf --type q4_k [--layers 24 --embedding 1024 ...]
    python apps/llm/benches/make_model.py convert SOURCE.gguf OUT.gguf --type q4_0

A random model has the tokenizer of the source and the shape that the options say, all matrices in blocks of the type, the
embedding (which is the head too) in Q8_0. A converted one has the source's weights, rounded again, the embedding as it is; of
floats of 16 bits (f16, bf16), which only `convert` writes, the embedding too. Needs
NumPy and the package gguf (`cargo xtask vendor gguf` has both in target/venv-llm).
"""

import argparse

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

# `general.file_type`, which OpenVINO reads
FILE_TYPE = {Type.F16: 1, Type.BF16: 32, Type.Q4_0: 2, Type.Q4_1: 3, Type.Q8_0: 7, Type.Q4_K: 15, Type.Q5_K: 17, Type.Q6_K: 18}

HALVES = (Type.F16, Type.BF16)

# where a block has its f16 scales
SCALES = {Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q8_0: [0], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208]}


def blocks(random, kind, rows, depth):
    """Random blocks with small scales."""
    weights, size = GGML_QUANT_SIZES[kind]
    assert depth % weights == 0, f"{kind.name} blocks of {weights} do not fill rows of {depth}"
    data = random.integers(0, 256, (rows * depth // weights, size), np.uint8)
    for at in SCALES[kind]:
        scale = random.uniform(0.001, 0.002, len(data)) * (1 if at == SCALES[kind][0] else -0.1)
        data[:, at : at + 2] = scale.astype(np.float16)[:, None].view(np.uint8)
    return data.reshape(rows, -1)


def copy_fields(reader, writer, changed):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        value = changed.get(field.name, field.contents())
        if kind == GGUFValueType.ARRAY:
            writer.add_key_value(field.name, value, kind, field.types[1])
        else:
            writer.add_key_value(field.name, value, kind)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_model(options, reader, writer, kind):
    name = reader.fields["general.architecture"].contents()
    layers, width, inner = options.layers, options.embedding, options.feed_forward
    heads, kv_heads = options.heads, options.kv_heads
    size = width // heads
    vocabulary = len(reader.fields["tokenizer.ggml.tokens"].data)
    copy_fields(
        reader,
        writer,
        {
            "general.file_type": FILE_TYPE[kind],
            f"{name}.block_count": layers,
            f"{name}.embedding_length": width,
            f"{name}.feed_forward_length": inner,
            f"{name}.attention.head_count": heads,
            f"{name}.attention.head_count_kv": kv_heads,
            f"{name}.rope.dimension_count": size,
            f"{name}.attention.key_length": size,
            f"{name}.attention.value_length": size,
        },
    )
    random = np.random.default_rng(0)
    matrix = lambda name, kind, rows, depth: writer.add_tensor(name, blocks(random, kind, rows, depth), raw_dtype=kind)
    ones = lambda name: writer.add_tensor(name, np.ones(width, np.float32))
    matrix("token_embd.weight", Type.Q8_0, vocabulary, width)
    ones("output_norm.weight")
    for layer in range(layers):
        part = lambda part: f"blk.{layer}.{part}.weight"
        ones(part("attn_norm"))
        ones(part("ffn_norm"))
        matrix(part("attn_q"), kind, heads * size, width)
        matrix(part("attn_k"), kind, kv_heads * size, width)
        matrix(part("attn_v"), kind, kv_heads * size, width)
        matrix(part("attn_output"), kind, width, heads * size)
        matrix(part("ffn_gate"), kind, inner, width)
        matrix(part("ffn_up"), kind, inner, width)
        matrix(part("ffn_down"), kind, width, inner)


def converted(reader, writer, kind):
    copy_fields(reader, writer, {"general.file_type": FILE_TYPE[kind]})
    for tensor in reader.tensors:
        kept = tensor.name == "token_embd.weight" and kind not in HALVES
        if kept or len(tensor.shape) < 2:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        else:
            values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["random", "convert"])
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("--type", required=True, choices=[kind.name.lower() for kind in FILE_TYPE])
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--embedding", type=int, default=1024)
    parser.add_argument("--feed-forward", type=int, default=4864)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=4)
    options = parser.parse_args()
    kind = Type[options.type.upper()]
    if options.what == "random" and kind in HALVES:
        parser.error(f"a random model is of blocks, not of {options.type}: convert one")
    reader = GGUFReader(options.source)
    writer = GGUFWriter(options.out, reader.fields["general.architecture"].contents())
    if options.what == "random":
        random_model(options, reader, writer, kind)
    else:
        converted(reader, writer, kind)
    finish(writer)


if __name__ == "__main__":
    main()
