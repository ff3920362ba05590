"""A GGUF model of Q4_0 blocks as a folder for ONNX Runtime GenAI: the same weights in MatMulNBits, attention as GroupQueryAttention.

    python apps/llm/benches/genai_model.py MODEL.gguf FOLDER --threads N

Q4_0 and Q8_0 matrices keep their bits; norms and the embedding are f32. The head computes the last row only. Activations are int8
(accuracy_level 4) by default; the KV cache is f32, as the CPU kernels require. Needs NumPy, onnx and gguf.
"""

import argparse
import json
import pathlib

import numpy as np
import onnx
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader
from gguf.quants import dequantize
from onnx import TensorProto, helper, numpy_helper


class Builder:
    def __init__(self, path, accuracy):
        self.accuracy = accuracy
        self.reader = GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}
        self.nodes, self.constants = [], []
        name = self.field("general.architecture")
        assert name == "llama", f"{name} is not written here"
        self.layers = self.field("llama.block_count")
        self.width = self.field("llama.embedding_length")
        self.heads = self.field("llama.attention.head_count")
        self.kv_heads = self.field("llama.attention.head_count_kv")
        self.epsilon = self.field("llama.attention.layer_norm_rms_epsilon")
        self.context = min(self.field("llama.context_length"), 4096)
        self.size = self.width // self.heads
        base = "llama.rope.freq_base"
        self.base = self.field(base) if base in self.reader.fields else 10_000.0

    def field(self, name):
        return self.reader.fields[name].contents()

    def constant(self, name, value):
        if all(known.name != name for known in self.constants):
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def values(self, name):
        tensor = self.tensors[name]
        shape = [int(size) for size in reversed(tensor.shape)]
        return self.constant(name, dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape))

    def node(self, op, inputs, name, outputs=1, domain="", **attributes):
        outs = [f"{name}.{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, inputs, outs, name=name, domain=domain, **attributes))
        return outs[0] if len(outs) == 1 else outs

    def linear(self, x, name, label=None):
        tensor = self.tensors[name]
        depth, columns = (int(size) for size in tensor.shape)
        blocks = np.asarray(tensor.data).reshape(columns, depth // 32, -1)
        scales = blocks[:, :, :2].copy().view(np.float16).astype(np.float32)[..., 0]
        if tensor.tensor_type == Type.Q4_0:
            bits, stored = 4, blocks[:, :, 2:]
            codes = np.concatenate([stored & 15, stored >> 4], -1)
            data = codes[..., 0::2] | codes[..., 1::2] << 4
        elif tensor.tensor_type == Type.Q8_0:
            bits, data = 8, (blocks[:, :, 2:].view(np.int8).astype(np.int16) + 128).astype(np.uint8)
        else:
            raise SystemExit(f"{name} is of {tensor.tensor_type.name}: only Q4_0 and Q8_0 are written here")
        inputs = [x, self.constant(name, data), self.constant(name + ".scales", scales.reshape(-1))]
        shape = {"K": depth, "N": columns, "bits": bits, "block_size": 32, "accuracy_level": self.accuracy}
        return self.node("MatMulNBits", inputs, label or name, domain="com.microsoft", **shape)

    def build(self):
        angles = np.arange(self.context)[:, None] * self.base ** (-np.arange(0, self.size, 2) / self.size)
        cosines = self.constant("cosines", np.cos(angles).astype(np.float32))
        sines = self.constant("sines", np.sin(angles).astype(np.float32))
        axis = self.constant("axis", np.array([1], np.int64))
        total = self.node("ReduceSum", ["attention_mask", axis], "total")
        seen = self.node("Sub", [total, self.constant("one", np.array([1], np.int64))], "seen")
        seqlens = self.node("Cast", [seen], "seqlens", to=TensorProto.INT32)
        shape = self.node("Shape", ["attention_mask"], "mask_shape")
        length = self.node("Gather", [shape, self.constant("second", np.array(1, np.int64))], "length", axis=0)
        length = self.node("Cast", [length], "total_length", to=TensorProto.INT32)
        x = self.node("Gather", [self.values("token_embd.weight"), "input_ids"], "embedded")
        normal = {"epsilon": self.epsilon, "axis": -1}
        y = self.node("SimplifiedLayerNormalization", [x, self.values("blk.0.attn_norm.weight")], "first_norm", **normal)
        skip = {"epsilon": self.epsilon, "domain": "com.microsoft"}
        for layer in range(self.layers):
            part = lambda part: f"blk.{layer}.{part}.weight"
            q, k, v = (self.linear(y, part(f"attn_{which}")) for which in "qkv")
            past = [f"past_key_values.{layer}.{which}" for which in ("key", "value")]
            present = [f"present.{layer}.{which}" for which in ("key", "value")]
            attended, *_ = self.node(
                "GroupQueryAttention",
                [q, k, v, *past, seqlens, length, cosines, sines],
                f"attention.{layer}",
                [f"attended.{layer}", *present],
                "com.microsoft",
                num_heads=self.heads,
                kv_num_heads=self.kv_heads,
                do_rotary=1,
                rotary_interleaved=1,
                scale=self.size**-0.5,
            )
            attended = self.linear(attended, part("attn_output"))
            norm = self.values(part("ffn_norm"))
            y, _, _, x = self.node("SkipSimplifiedLayerNormalization", [x, attended, norm], f"ffn_norm.{layer}", 4, **skip)
            gate, up = self.linear(y, part("ffn_gate")), self.linear(y, part("ffn_up"))
            sigmoid = self.node("Sigmoid", [gate], f"sigmoid.{layer}")
            swish = self.node("Mul", [gate, sigmoid], f"swish.{layer}")
            down = self.linear(self.node("Mul", [swish, up], f"gated.{layer}"), part("ffn_down"))
            last = layer + 1 == self.layers
            norm = self.values("output_norm.weight" if last else f"blk.{layer + 1}.attn_norm.weight")
            y, _, _, x = self.node("SkipSimplifiedLayerNormalization", [x, down, norm], f"next_norm.{layer}", 4, **skip)
        y = self.node("Gather", [y, self.constant("last", np.array([-1], np.int64))], "last_row", axis=1)
        head = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        logits = self.linear(y, head, "head") if head == "output.weight" else self.tied(y)
        self.nodes[-1].output[0] = "logits"
        return logits

    def tied(self, y):
        # the embedding is a constant of its own, in f32
        tensor = self.tensors["token_embd.weight"]
        self.tensors["head.weight"] = tensor
        return self.linear(y, "head.weight", "head")

    def save(self, folder, threads):
        self.build()
        value = helper.make_tensor_value_info
        past = lambda name, length: [
            value(f"{name}.{layer}.{which}", TensorProto.FLOAT, ["batch", self.kv_heads, length, self.size])
            for layer in range(self.layers)
            for which in ("key", "value")
        ]
        vocabulary = int(self.tensors["token_embd.weight"].shape[1])
        graph = helper.make_graph(
            self.nodes,
            "model",
            [
                value("input_ids", TensorProto.INT64, ["batch", "rows"]),
                value("attention_mask", TensorProto.INT64, ["batch", "all"]),
                *past("past_key_values", "past"),
            ],
            [value("logits", TensorProto.FLOAT, ["batch", 1, vocabulary]), *past("present", "all_rows")],
            self.constants,
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save_model(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
        names = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
        decoder = {
            "session_options": {"intra_op_num_threads": threads, "provider_options": []},
            "filename": "model.onnx",
            "head_size": self.size,
            "hidden_size": self.width,
            "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **names},
            "outputs": {
                "logits": "logits",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
            },
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
        }
        config = {
            "model": {
                "bos_token_id": 1,
                "eos_token_id": 2,
                "pad_token_id": 2,
                "context_length": self.context,
                "decoder": decoder,
                "type": "llama",
                "vocab_size": vocabulary,
            },
            "search": {"max_length": self.context, "past_present_share_buffer": True, "do_sample": False},
        }
        (folder / "genai_config.json").write_text(json.dumps(config, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--accuracy-level", type=int, default=4, help="1 multiplies in f32, 4 rounds what is multiplied to 8 bits")
    options = parser.parse_args()
    Builder(options.model, options.accuracy_level).save(options.folder, options.threads)


if __name__ == "__main__":
    main()
