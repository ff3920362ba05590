"""A folder of safetensors of the weights and tokens of a GGUF file: what its converter began with, rounded to BF16.

    python apps/llm/benches/make_checkpoint.py MODEL.gguf FOLDER

For models of architecture llama with byte-level tokens that are cut as SmolLM's. Needs NumPy and the package gguf (`cargo xtask
vendor gguf` has both in target/venv-llm). Any program that reads such folders can then be asked what the model says.
"""

import json
import pathlib
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def name_of(name):
    whole = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in whole:
        return whole[name]
    _, layer, part, end = name.split(".")
    return f"model.layers.{layer}.{PARTS[part]}.{end}"


def bf16(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def main():
    source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(source)
    key = lambda name: reader.fields[name].contents()
    llama = lambda name: key(f"llama.{name}")
    heads, kv_heads = llama("attention.head_count"), llama("attention.head_count_kv")
    header, data = {}, b""
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        count = {"attn_q": heads, "attn_k": kv_heads}.get(tensor.name.split(".")[-2])
        if count:
            # the converter laid the two values of each pair side by side
            size = len(values) // count
            values = values.reshape(count, size // 2, 2, -1).swapaxes(1, 2).reshape(values.shape)
        raw = bf16(values).tobytes()
        place = [len(data), len(data) + len(raw)]
        header[name_of(tensor.name)] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": place}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    tokens, kinds = key("tokenizer.ggml.tokens"), key("tokenizer.ggml.token_type")
    bos, eos = key("tokenizer.ggml.bos_token_id"), key("tokenizer.ggml.eos_token_id")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": llama("embedding_length"),
        "intermediate_size": llama("feed_forward_length"),
        "num_hidden_layers": llama("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": llama("context_length"),
        "rms_norm_eps": float(llama("attention.layer_norm_rms_epsilon")),
        "rope_theta": float(llama("rope.freq_base")),
        "rope_scaling": None,
        "attention_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": len(tokens),
        "bos_token_id": bos,
        "eos_token_id": eos,
    }
    of_control = [
        {"id": i, "content": token, "special": True, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
        for i, (token, kind) in enumerate(zip(tokens, kinds))
        if kind == 3
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": of_control,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": key("tokenizer.ggml.merges"),
        },
    }
    of_tokenizer = {
        "tokenizer_class": "GPT2Tokenizer",
        "bos_token": tokens[bos],
        "eos_token": tokens[eos],
        "chat_template": key("tokenizer.chat_template"),
    }
    for name, value in [("config", config), ("tokenizer", tokenizer), ("tokenizer_config", of_tokenizer)]:
        (folder / f"{name}.json").write_text(json.dumps(value))


if __name__ == "__main__":
    main()
