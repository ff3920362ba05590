"""Logits of tiny random models of each architecture, by the package transformers on the CPU in f32.

Usage:
  architectures.py FILE     writes the golden file apps/llm/tests/golden/architectures.json

Needs torch and transformers (the file was written with 2.15 and 5.24), which `cargo xtask vendor gguf` does not install.

Weights are not stored: both sides draw them with the same integers (`weights` here, `drawn` in
apps/llm/tests/architectures.rs). A model in the file is the keys and the tensors of a GGUF file, some tokens, and the logits
behind some of them. Here the tensors become those of transformers: rows of queries and keys in the order of training where
GGUF has pairs side by side, norms of Gemma less 1, and matrices of experts as one.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers as hf

VOCABULARY = 40
TOKENS = 44
# positions whose logits are kept
KEPT = [0, 3, 9, 15, 16, 22, 31, 43]


def weights(name, shape, center, amplitude, seed):
    """Uniform numbers around a center, of 24 bits each."""
    mask = (1 << 64) - 1
    start = 0xCBF29CE484222325
    for byte in name.encode():
        start = ((start ^ byte) * 0x100000001B3) & mask
    count = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.uint64(start ^ seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    unit = (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)
    return (unit * np.float32(2 * amplitude) + np.float32(center)).reshape(shape)


class Model:
    """A file under construction, and its tensors."""

    def __init__(self, architecture, size, seed, **keys):
        self.architecture, self.size, self.seed = architecture, size, seed
        self.tensors, self.values = [], {}
        self.keys = {
            "block_count": size["layers"],
            "context_length": 256,
            "embedding_length": size["width"],
            "feed_forward_length": size["inner"],
            "attention.head_count": size["heads"],
            "attention.head_count_kv": size["kv_heads"],
            "attention.key_length": size["head"],
            "attention.value_length": size["head"],
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.freq_base": 10000.0,
            **keys,
        }

    def add(self, name, *dims, center=0.0, amplitude=None):
        """Dimensions innermost first, as in the file."""
        if amplitude is None:
            amplitude = 1.4 * (3.0 / dims[0]) ** 0.5
        amplitude = float(np.float32(amplitude))
        self.tensors.append([name, list(dims), center, amplitude])
        self.values[name] = weights(name, dims[::-1], center, amplitude, self.seed)

    def norm(self, name, width):
        self.add(name, width, center=1.0, amplitude=0.3)

    def bias(self, name, *dims):
        self.add(name, *dims, amplitude=0.3)


SIZES = [
    dict(layers=4, width=32, inner=48, heads=4, kv_heads=2, head=8),
    dict(layers=6, width=48, inner=40, heads=6, kv_heads=3, head=16),
]
BEFORE = ["attn_norm", "ffn_norm"]
AROUND = ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"]


def build(architecture, size, seed, *, norms=BEFORE, qk_norm=None, qkv_bias=False, output_bias=False, fused=False, tied=True,
          experts=None, shared=None, expert_bias=False, sinks=False, keys=None):
    model = Model(architecture, size, seed, **(keys or {}))
    width, inner, head = size["width"], size["inner"], size["head"]
    q, kv = size["heads"] * head, size["kv_heads"] * head
    model.add("token_embd.weight", width, VOCABULARY, amplitude=0.5)
    model.norm("output_norm.weight", width)
    if not tied:
        model.add("output.weight", width, VOCABULARY)
    for layer in range(size["layers"]):
        blk = f"blk.{layer}."
        for norm in norms:
            model.norm(f"{blk}{norm}.weight", width)
        if fused:
            model.add(f"{blk}attn_qkv.weight", width, q + 2 * kv)
        else:
            for part, rows in [("q", q), ("k", kv), ("v", kv)]:
                model.add(f"{blk}attn_{part}.weight", width, rows)
                if qkv_bias:
                    model.bias(f"{blk}attn_{part}.bias", rows)
        model.add(f"{blk}attn_output.weight", q, width)
        if output_bias:
            model.bias(f"{blk}attn_output.bias", width)
        if qk_norm:
            for part, rows in [("q", q), ("k", kv)]:
                model.norm(f"{blk}attn_{part}_norm.weight", head if qk_norm == "head" else rows)
        if sinks:
            model.add(f"{blk}attn_sinks.weight", size["heads"], amplitude=2.0)
        if experts:
            count, own = experts
            model.add(f"{blk}ffn_gate_inp.weight", width, count)
            for part, dims in [("gate", (width, own)), ("up", (width, own)), ("down", (own, width))]:
                model.add(f"{blk}ffn_{part}_exps.weight", *dims, count)
                if expert_bias:
                    model.bias(f"{blk}ffn_{part}_exps.bias", dims[1], count)
            if expert_bias:
                model.bias(f"{blk}ffn_gate_inp.bias", count)
            if shared:
                model.add(f"{blk}ffn_gate_inp_shexp.weight", width)
                for part, dims in [("gate", (width, shared)), ("up", (width, shared)), ("down", (shared, width))]:
                    model.add(f"{blk}ffn_{part}_shexp.weight", *dims)
        elif fused:
            model.add(f"{blk}ffn_up.weight", width, 2 * inner)
            model.add(f"{blk}ffn_down.weight", inner, width)
        else:
            model.add(f"{blk}ffn_gate.weight", width, inner)
            model.add(f"{blk}ffn_up.weight", width, inner)
            model.add(f"{blk}ffn_down.weight", inner, width)
    return model


def trained(rows, heads, size):
    """Rows of queries or keys in the order of training."""
    rest = rows.shape[1:]
    pairs = rows.reshape(heads, size // 2, 2, *rest)
    return pairs.swapaxes(1, 2).reshape(rows.shape)


# names of a layer's tensors in most models
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
AROUND_NAMES = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def translated(model, *, names=None, pairs=False, less_one=False, experts="fused"):
    """The state of the model of transformers."""
    names = {**NAMES, **(names or {})}
    state, size = {}, model.size
    for name, value in model.values.items():
        if name == "token_embd.weight":
            state["model.embed_tokens.weight"] = value
            continue
        if name.startswith("rope_factors"):
            continue
        if less_one and name.endswith("norm.weight"):
            value = value - np.float32(1.0)
        if name == "output_norm.weight":
            state["model.norm.weight"] = value
            continue
        if name == "output.weight":
            state["lm_head.weight"] = value
            continue
        _, layer, part, end = name.split(".")
        if "_exps" in part:
            continue
        if pairs and part in ("attn_q", "attn_k"):
            value = trained(value, size["heads" if part == "attn_q" else "kv_heads"], size["head"])
        if part == "attn_sinks":
            state[f"model.layers.{layer}.self_attn.sinks"] = value
            continue
        if part == "ffn_gate_inp_shexp":
            value = value[None, :]
        state[f"model.layers.{layer}.{names[part]}.{end}"] = value
    for layer in range(size["layers"]):
        blk, to = f"blk.{layer}.", f"model.layers.{layer}."
        if f"{blk}ffn_gate_exps.weight" not in model.values:
            continue
        gate, up, down = (model.values[f"{blk}ffn_{part}_exps.weight"] for part in ("gate", "up", "down"))
        if experts == "fused":
            state[f"{to}mlp.experts.gate_up_proj"] = np.concatenate([gate, up], 1)
            state[f"{to}mlp.experts.down_proj"] = down
        elif experts == "granite":
            state[f"{to}block_sparse_moe.experts.gate_up_proj"] = np.concatenate([gate, up], 1)
            state[f"{to}block_sparse_moe.experts.down_proj"] = down
        elif experts == "turns":
            both = np.stack([gate, up], 2).reshape(gate.shape[0], -1, gate.shape[2])
            state[f"{to}mlp.experts.gate_up_proj"] = both.swapaxes(1, 2)
            state[f"{to}mlp.experts.down_proj"] = down.swapaxes(1, 2)
            gate, up, down = (model.values[f"{blk}ffn_{part}_exps.bias"] for part in ("gate", "up", "down"))
            state[f"{to}mlp.experts.gate_up_proj_bias"] = np.stack([gate, up], 2).reshape(gate.shape[0], -1)
            state[f"{to}mlp.experts.down_proj_bias"] = down
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in state.items()}


def rope(base=10000.0, **more):
    return {"rope_type": "default", "rope_theta": base, **more}


def common(size, tied=True, **more):
    return dict(
        vocab_size=VOCABULARY,
        hidden_size=size["width"],
        intermediate_size=size["inner"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        num_key_value_heads=size["kv_heads"],
        head_dim=size["head"],
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        tie_word_embeddings=tied,
        pad_token_id=None,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation="eager",
        **more,
    )


def layer_types(size, full_every):
    return [
        "full_attention" if full_every and (layer + 1) % full_every == 0 else "sliding_attention"
        for layer in range(size["layers"])
    ]


def models():
    """Each model, its configuration and its state for transformers."""
    for index, size in enumerate(SIZES):
        tied, window = index == 0, [16, 9][index]
        base = dict(tied=tied)

        model = build("llama", size, 1, **base)
        yield model, hf.LlamaConfig(**common(size, tied, rope_parameters=rope())), translated(model, pairs=True)

        model = build("llama", size, 2, **base, keys={"attention.sliding_window": window})
        config = hf.MistralConfig(**common(size, tied, sliding_window=window, rope_parameters=rope()))
        yield model, config, translated(model, pairs=True)

        keys = {"expert_count": 5, "expert_used_count": 2}
        model = build("llama", size, 3, **base, experts=(5, size["inner"]), keys=keys)
        config = hf.MixtralConfig(
            **common(size, tied, num_local_experts=5, num_experts_per_tok=2, sliding_window=None, rope_parameters=rope())
        )
        yield model, config, translated(model, pairs=True)

        model = build("qwen2", size, 4, **base, qkv_bias=True)
        # head_dim follows from the width unless it is stated
        config = hf.Qwen2Config(**common(size, tied, rope_parameters=rope()))
        yield model, config, translated(model)

        yarn = dict(factor=4.0, original_max_position_embeddings=32)
        keys = {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 32,
        }
        model = build("qwen3", size, 5, **base, qk_norm="head", keys=keys)
        config = hf.Qwen3Config(**common(size, tied, rope_parameters=rope(**{"rope_type": "yarn"}, **yarn)))
        yield model, config, translated(model)

        # a head of the width's size is not stated for these
        narrow = {**size, "head": size["width"] // size["heads"]}
        # the first size is within the positions of the first training, the second rotates a part and is not
        dims, original = [(8, 4096), (6, 32)][index]
        keys = {
            "rope.dimension_count": dims,
            "rope.scaling.original_context_length": original,
            "rope.scaling.attn_factor": 1.25,
            "attention.sliding_window": [12, 200][index],
        }
        model = build("phi3", narrow, 6, **base, fused=True, keys=keys)
        model.add("rope_factors_long.weight", dims // 2, center=3.0, amplitude=1.5)
        model.add("rope_factors_short.weight", dims // 2, center=1.5, amplitude=0.4)
        scaling = {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": model.values["rope_factors_short.weight"].tolist(),
            "long_factor": model.values["rope_factors_long.weight"].tolist(),
            "attention_factor": 1.25,
            "original_max_position_embeddings": original,
            "partial_rotary_factor": dims / narrow["head"],
        }
        config = hf.Phi3Config(
            **common(
                narrow,
                tied,
                sliding_window=[12, 200][index],
                rope_parameters=scaling,
                original_max_position_embeddings=original,
            )
        )
        names = {"ffn_up": "mlp.gate_up_proj"}
        yield model, config, translated(model, names=names)

        # Gemma's embeddings are always the output's
        model = build("gemma", size, 7)
        config = hf.GemmaConfig(**common(size, hidden_activation="gelu_pytorch_tanh", rope_parameters=rope()))
        yield model, config, translated(model, less_one=True)

        keys = {
            "attention.sliding_window": window,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 7.0,
        }
        model = build("gemma2", size, 8, norms=AROUND, keys=keys)
        config = hf.Gemma2Config(
            **common(
                size,
                hidden_activation="gelu_pytorch_tanh",
                query_pre_attn_scalar=size["head"],
                sliding_window=window,
                attn_logit_softcapping=5.0,
                final_logit_softcapping=7.0,
                rope_parameters=rope(),
            )
        )
        yield model, config, translated(model, names=AROUND_NAMES, less_one=True)

        deep = {**size, "layers": 7}
        keys = {
            "attention.sliding_window": window,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        }
        model = build("gemma3", deep, 9, norms=AROUND, qk_norm="head", keys=keys)
        config = hf.Gemma3TextConfig(
            **common(
                deep,
                hidden_activation="gelu_pytorch_tanh",
                query_pre_attn_scalar=size["head"],
                sliding_window=window,
                layer_types=layer_types(deep, 6),
                rope_parameters={
                    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                    "sliding_attention": rope(),
                },
            )
        )
        yield model, config, translated(model, names=AROUND_NAMES, less_one=True)

        scales = {
            "embedding_scale": 6.0,
            "residual_scale": 0.5,
            "logit_scale": 3.0,
            "attention.scale": 0.25,
        }
        of_granite = dict(
            embedding_multiplier=6.0, residual_multiplier=0.5, logits_scaling=3.0, attention_multiplier=0.25
        )
        model = build("granite", narrow, 10, **base, keys=scales)
        config = hf.GraniteConfig(**common(narrow, tied, rope_parameters=rope(), **of_granite))
        yield model, config, translated(model, pairs=True)

        keys = {**scales, "expert_count": 5, "expert_used_count": 3}
        model = build("granitemoe", narrow, 11, **base, experts=(5, size["inner"]), keys=keys)
        config = hf.GraniteMoeConfig(
            **common(
                narrow, tied, num_local_experts=5, num_experts_per_tok=3, rope_parameters=rope(), **of_granite
            )
        )
        names = {"ffn_gate_inp": "block_sparse_moe.router"}
        yield model, config, translated(model, names=names, pairs=True, experts="granite")

        model = build("olmo2", narrow, 12, **base, norms=["post_attention_norm", "post_ffw_norm"], qk_norm="all")
        config = hf.Olmo2Config(**common(narrow, tied, rope_parameters=rope()))
        yield model, config, translated(model, names=AROUND_NAMES)

        keys = {"expert_count": 6, "expert_used_count": 2}
        model = build("olmoe", narrow, 13, **base, qk_norm="all", experts=(6, size["inner"]), keys=keys)
        config = hf.OlmoeConfig(
            **common(
                narrow, tied, num_experts=6, num_experts_per_tok=2, norm_topk_prob=False, rope_parameters=rope()
            )
        )
        yield model, config, translated(model)

        model = build("smollm3", narrow, 14, **base)
        config = hf.SmolLM3Config(
            **common(narrow, tied, no_rope_layer_interval=4, use_sliding_window=False, rope_parameters=rope())
        )
        yield model, config, translated(model, pairs=True)

        own, shared = [(24, 40), (16, 56)][index]
        keys = {
            "expert_count": 6,
            "expert_used_count": 2,
            "expert_feed_forward_length": own,
            "expert_shared_feed_forward_length": shared,
        }
        model = build("qwen2moe", narrow, 15, **base, qkv_bias=True, experts=(6, own), shared=shared, keys=keys)
        config = hf.Qwen2MoeConfig(
            **common(
                narrow,
                tied,
                num_experts=6,
                num_experts_per_tok=2,
                norm_topk_prob=False,
                moe_intermediate_size=own,
                shared_expert_intermediate_size=shared,
                use_sliding_window=False,
                rope_parameters=rope(),
            )
        )
        yield model, config, translated(model)

        keys = {"expert_count": 8, "expert_used_count": 3, "expert_feed_forward_length": own}
        model = build("qwen3moe", size, 16, **base, qk_norm="head", experts=(8, own), keys=keys)
        config = hf.Qwen3MoeConfig(
            **common(
                size,
                tied,
                num_experts=8,
                num_experts_per_tok=3,
                norm_topk_prob=True,
                moe_intermediate_size=own,
                rope_parameters=rope(),
            )
        )
        yield model, config, translated(model)

        keys = {
            "expert_count": 5,
            "expert_used_count": 2,
            "expert_feed_forward_length": size["inner"],
            "attention.sliding_window": window,
            "rope.freq_base": 150000.0,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 8.0,
            "rope.scaling.original_context_length": 32,
        }
        model = build(
            "gpt-oss",
            size,
            17,
            tied=False,
            norms=["attn_norm", "post_attention_norm"],
            qkv_bias=True,
            output_bias=True,
            experts=(5, size["inner"]),
            expert_bias=True,
            sinks=True,
            keys=keys,
        )
        config = hf.GptOssConfig(
            **common(
                size,
                False,
                num_local_experts=5,
                num_experts_per_tok=2,
                sliding_window=window,
                layer_types=layer_types(size, 2),
                rope_parameters={
                    "rope_type": "yarn",
                    "rope_theta": 150000.0,
                    "factor": 8.0,
                    "beta_fast": 32.0,
                    "beta_slow": 1.0,
                    "truncate": False,
                    "original_max_position_embeddings": 32,
                },
            )
        )
        names = {"post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"}
        yield model, config, translated(model, names=names, experts="turns")


def answer(config, state):
    """The logits behind each token."""
    network = hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    wanted = dict(network.state_dict())
    if config.tie_word_embeddings:
        wanted.pop("lm_head.weight", None)
    unknown, missing = set(state) - set(wanted), set(wanted) - set(state)
    if unknown or missing:
        raise SystemExit(f"{config.model_type}: unknown {sorted(unknown)[:9]}, missing {sorted(missing)[:9]}")
    with torch.no_grad():
        for name, value in state.items():
            if wanted[name].shape != value.shape:
                raise SystemExit(f"{config.model_type}: {name} is {value.shape}, not {wanted[name].shape}")
            wanted[name].copy_(value)
        tokens = [(7 * index + 3 + index * index) % VOCABULARY for index in range(TOKENS)]
        logits = network(torch.tensor([tokens])).logits[0].numpy()
    return tokens, logits


def main():
    golden = []
    for model, config, state in models():
        tokens, logits = answer(config, state)
        spread = logits.std(axis=1).mean()
        print(f"{model.architecture:12} {config.model_type:12} spread of logits {spread:.2f}")
        golden.append(
            {
                "of": f"{config.model_type}, {model.size['layers']} layers of {model.size['width']}",
                "architecture": model.architecture,
                "seed": model.seed,
                "keys": model.keys,
                "tensors": model.tensors,
                "tokens": tokens,
                "kept": KEPT,
                "logits": [[float(f"{value:.6g}") for value in logits[at]] for at in KEPT],
            }
        )
    text = json.dumps(golden, separators=(",", ":"))
    Path(sys.argv[1]).write_text(text + "\n")
    print(f"{len(golden)} models, {len(text)} bytes")


main()
