"""What others make of language models' files: the values of blocks, the tokens of texts, the text of chats.

Usage:
  golden.py dequantize FILE OUT     every tensor of a GGUF file as f32, in the order of their names, by the package gguf
  golden.py write FOLDER MODEL      the golden files of apps/llm/tests/golden; MODEL is SmolLM2-135M-Instruct.Q4_1.gguf
  golden.py llama-cpp FOLDER MODEL  compares those tokens with llama.cpp's, by the package xllamacpp
"""

import datetime
import io
import json
import sys
import tempfile
import urllib.request
from pathlib import Path

import gguf
import numpy as np

KINDS = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K"]
KINDS += ["Q5_0", "Q5_1", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS", "MXFP4"]

# where the 16-bit floats of a block are; the others have two at the start
SCALES = {"F32": [], "F16": [], "BF16": [], "MXFP4": [], "Q2_K": [80, 82], "Q3_K": [108], "Q6_K": [208]}
SCALES.update(dict.fromkeys(["Q4_0", "Q5_0", "Q8_0", "IQ4_NL", "IQ4_XS"], [0]))

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "What is the capital of France?",
    "It's they'll we'RE I'D 'ſ don't, y'all've",
    "  leading, double  inside and trailing blanks   ",
    "tabs\tand\t\tlines\n\n\nends\r\n and \r alone\n   \n",
    "0 1 12 123 1234 12345 1234567890 3.14159 1,000,000 ½ ² Ⅳ ٣٤",
    "def f(x):\n    return [i**2 for i in range(x) if i % 2 == 0]  # squares\n",
    "fn main() { let x: &str = \"a\\n\"; println!(\"{x:?}\"); }\n\n\t\tif (a&&b||!c) {}",
    "😀 😃👍🏽 👨‍👩‍👧‍👦 🇫🇷 ❤️",
    "你好，世界。今日は良い天気ですね。안녕하세요 세계",
    "Привет, мир! Γειά σου Κόσμε. שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดี",
    "café cafe\u0301 ﬁne Å A\u030a ǆ \u00a0nbsp\u2003em\u200bzero\u2028line",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|>",
    "https://example.com/a?b=c&d=%20#e user@mail.org $5.00 <tag/> a_b-c+d=e^f~g|h `x` \\ / {}",
    "\u0000\u0001\u007f\u0085\ufeff\ufffd",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa " + " " * 70 + "x" + "\n" * 9 + "=" * 40,
    "naïve coöperation—“quotes” … ‘single’ •bullet ©®™ €¥£",
]

# for a vocabulary that may be committed
SAMPLE = (
    "The morning was cold and the river moved slowly past the mill. A man with a lantern counted 12 boats, then 123 "
    "more; it's what they'd asked for. He wrote it down: total = 12 + 123. Nobody knew why the numbers mattered, but "
    "the keeper of the bridge did not ask. She's seen the water rise, she'll see it fall. def total(a, b):\n    return a "
    "+ b\n\nfor i in range(10):\n    print(i)\n\nDie Brücke über den Fluss. Le café près de la rivière. 你好世界 こんにちは "
    "Привет мир 😀👍\n"
)

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def dequantize(path, out):
    reader = gguf.GGUFReader(path)
    with open(out, "wb") as file:
        for tensor in sorted(reader.tensors, key=lambda tensor: tensor.name):
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            file.write(np.ascontiguousarray(values, dtype=np.float32).tobytes())


def blocks():
    """Blocks of random bytes with finite scales of all sizes, and their values."""
    random = np.random.default_rng(20)
    golden = []
    for name in KINDS:
        kind = gguf.GGMLQuantizationType[name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        count = {1: 64, 32: 6, 256: 3}[block]
        data = random.integers(0, 256, (count, size), dtype=np.uint8)
        for at in SCALES.get(name, [0, 2]):
            values = random.normal(0, 1, count) * 10.0 ** random.integers(-7, 4, count)
            data[:, at : at + 2] = values.astype(np.float16).reshape(-1, 1).view(np.uint8)
        if block == 1:
            values = random.normal(0, 1, count) * 10.0 ** random.integers(-7, 4, count)
            values[:4] = [0.0, -0.0, np.inf, -np.inf]
            data = gguf.quantize(values.astype(np.float32), kind).view(np.uint8).reshape(count, size)
        values = gguf.dequantize(data.reshape(1, -1), kind).astype(np.float32)
        golden.append({"type": name, "blocks": data.tobytes().hex(), "values": values.tobytes().hex()})
    return golden


def byte_level(vocab, merges, pre, specials):
    """A tokenizer as the models' own tokenizer.json files describe it."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

    whole = pre == "llama-bpe"
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=whole))
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    bare = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    if pre == "gpt-2":
        tokenizer.pre_tokenizer = plain
    elif pre == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, plain])
    elif pre == "llama-bpe":
        split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bare])
    elif pre == "qwen2":
        split = pre_tokenizers.Split(Regex(QWEN2), "isolated")
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bare])
    else:
        # llama.cpp's; the library llama.cpp itself confirms it
        patterns = [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, bare])
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in specials])
    return tokenizer


def encode(tokenizer, text, parse):
    tokenizer.encode_special_tokens = not parse
    return tokenizer.encode(text, add_special_tokens=False).ids


def trained():
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=460, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([SAMPLE], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    return tokens, [tuple(pair) for pair in model["merges"]]


def byte_level_golden():
    tokens, merges = trained()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = tokens + specials
    vocab = {token: index for index, token in enumerate(tokens)}
    ids = {}
    for pre in ["gpt-2", "smollm", "llama-bpe", "qwen2", "default"]:
        tokenizer = byte_level(vocab, merges, pre, specials)
        ids[pre] = [encode(tokenizer, text, True) for text in TEXTS]
    as_text = [encode(byte_level(vocab, merges, "smollm", specials), text, False) for text in TEXTS]
    merges = [" ".join(pair) for pair in merges]
    return {"tokens": tokens, "specials": specials, "merges": merges, "texts": TEXTS, "ids": ids, "as_text": as_text}


def sentence_piece_golden():
    """Pieces trained by SentencePiece, whose tokens are the truth."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((SAMPLE * 3).splitlines()),
        model_writer=model,
        model_type="bpe",
        vocab_size=500,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=0.99,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    count = pieces.get_piece_size()
    kinds = []
    for index in range(count):
        kind = 1
        kind = 2 if pieces.is_unknown(index) else kind
        kind = 3 if pieces.is_control(index) else kind
        kind = 6 if pieces.is_byte(index) else kind
        kinds.append(kind)
    texts = [text for text in TEXTS if text and "\u0000" not in text]
    return {
        "tokens": [pieces.id_to_piece(index) for index in range(count)],
        "scores": [pieces.get_score(index) for index in range(count)],
        "kinds": kinds,
        "unknown": pieces.unk_id(),
        "texts": texts,
        "ids": [pieces.encode(text) for text in texts],
        "decoded": [pieces.decode(pieces.encode(text)) for text in texts],
    }


def vocabulary(path):
    reader = gguf.GGUFReader(path)
    field = lambda key: reader.fields[key].contents()
    tokens = field("tokenizer.ggml.tokens")
    kinds = field("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    specials = [token for token, kind in zip(tokens, kinds) if kind == 3]
    return {token: index for index, token in enumerate(tokens)}, merges, specials


def smollm2_golden(path):
    vocab, merges, specials = vocabulary(path)
    tokenizer = byte_level(vocab, merges, "smollm", specials)
    template = gguf.GGUFReader(path).fields["tokenizer.chat_template"].contents()
    return {
        "texts": TEXTS,
        "ids": [encode(tokenizer, text, True) for text in TEXTS],
        "as_text": [encode(tokenizer, text, False) for text in TEXTS],
        "chats": [
            {
                "messages": messages,
                "add_generation_prompt": add,
                "text": render(template, {"messages": messages, "add_generation_prompt": add}),
            }
            for messages in CHATS
            for add in [True, False]
        ],
    }


CHATS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [
        {"role": "system", "content": "Answer in one word.\n"},
        {"role": "user", "content": "  Hi \"there\" & <b>you</b>  "},
        {"role": "assistant", "content": "Hello 😀"},
        {"role": "user", "content": "{{ 1 }} {% raw %}"},
    ],
]

# each uses something else of what chat templates use
TEMPLATES = [
    # blanks around blocks
    "{% for message in messages %}\n    {% if message.role == 'user' %}\n[U]{{ message.content }}\n    {% else %}\n"
    "[O]{{ message['content'] }}\n    {% endif %}\n{% endfor %}\n{% if add_generation_prompt %}[A]{% endif %}\n",
    "{%- for message in messages -%}\n  {{- message.role -}} : {{ message.content | trim }}\n{%- endfor %}\n",
    # a first message taken apart, slices, a namespace, loop variables, break and continue
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}{% else %}"
    "{% set system = '' %}{% set rest = messages %}{% endif %}{% set ns = namespace(last=-1) %}"
    "{% for m in rest %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "S={{ system }} last={{ ns.last }}"
    "{% for m in rest[::-1] %}{% if loop.index == 3 %}{% break %}{% endif %}{% if m.role == 'assistant' %}{% continue %}"
    "{% endif %}{{ loop.index }}/{{ loop.length }} {{ m.content }}{{ '' if loop.last else ', ' }}{% endfor %}",
    # Python's methods, tests and filters
    "{% for m in messages %}{{ m.content.strip() }}|{{ m.content.split(' ') | length }}|{{ m.role.upper() }}|"
    "{{ m.content.startswith('W') }}|{{ m.role.title() }}|{{ m.content.replace('a', 'b') }}|{{ m.get('name', 'none') }}|"
    "{% for key, value in m.items() %}{{ key }}={{ value | length }};{% endfor %}{% endfor %}"
    "{{ tools is defined and tools is not none }}{{ missing is defined }}{{ missing or 'absent' }}"
    "{{ messages | map(attribute='role') | join('+') }}{{ (messages | selectattr('role', 'equalto', 'user') | list) | length }}",
    # tools as JSON
    "{% for tool in tools %}{{ tool | tojson }}\n{{ tool.function | tojson(indent=4) }}\n{% endfor %}"
    "{% if tools is iterable and tools is not string %}{{ tools[0]['function']['name'] }}{% endif %}",
    # macros, dates, sums of strings
    "{% macro turn(role, content) %}<{{ role }}>{{ content }}</{{ role }}>{% endmacro %}"
    "{% for m in messages %}{{ turn(m.role, m.content) }}{% endfor %}{{ strftime_now('%d %b %Y, %H:%M') }}"
    "{{ 'a' ~ 1 ~ 'b' + 'c' }}{{ 7 // 2 }}{{ 7 % 4 }}{{ '%s-%s' | format('x', 3) }}{{ [1, 2] + [3] }}",
    # values as Python prints them
    "{{ true }} {{ false }} {{ none }} {{ 1.0 }} {{ 0.5 }} {{ 12.25 }} {{ [true, none, 'a', 'it\\'s', 1.5] }} "
    "{{ {'k': [1, 'v']} }} {{ messages[0] }} {{ missing }} {{ 'x' ~ true ~ none }} {{ (1, 2) }} {{ (1,) }}",
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The \"weather\" of a town: <5 °C é & 'more'",
            "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": [], "n": [1, 2.5, True, None]},
        },
    }
]
NOW = datetime.datetime(2026, 3, 9, 7, 5)


def render(template, variables):
    """As transformers renders: sandboxed, blocks trimmed, its functions and its JSON."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(words):
        raise ValueError(words)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment.from_string(template).render(**variables)


def templates_golden():
    golden = []
    for template in TEMPLATES:
        for messages in CHATS:
            variables = {"messages": messages, "add_generation_prompt": True, "tools": TOOLS}
            golden.append({"template": template, "messages": messages, "text": render(template, variables)})
    return {"tools": TOOLS, "chats": golden}


def write(folder, model):
    folder = Path(folder)
    for name, golden in [
        ("blocks", blocks()),
        ("byte_level", byte_level_golden()),
        ("sentence_piece", sentence_piece_golden()),
        ("smollm2", smollm2_golden(model)),
        ("templates", templates_golden()),
    ]:
        text = json.dumps(golden, ensure_ascii=True, separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n")


def tiny(path, tokens, kinds, settings):
    """A model of one layer around a vocabulary, so that llama.cpp loads it."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(512)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    settings(writer)
    for name in ["attn_norm", "ffn_norm"]:
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(32, np.float32))
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]:
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros((32, 32), np.float32))
    writer.add_tensor("output_norm.weight", np.ones(32, np.float32))
    writer.add_tensor("token_embd.weight", np.zeros((len(tokens), 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_cpp_tokens(path, texts):
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = 64
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.port = 0
    server = xllamacpp.Server(params)
    ids = []
    for text in texts:
        body = json.dumps({"content": text, "add_special": False, "parse_special": True}).encode()
        request = urllib.request.Request(
            f"{server.listening_address}/tokenize", body, {"Content-Type": "application/json"}
        )
        ids.append(json.loads(urllib.request.urlopen(request).read())["tokens"])
    return ids


def llama_cpp(folder, model):
    folder = Path(folder)
    read = lambda name: json.loads((folder / f"{name}.json").read_text())
    cases = []
    golden = read("byte_level")
    with tempfile.TemporaryDirectory() as scratch:
        kinds = [3 if token in golden["specials"] else 1 for token in golden["tokens"]]
        for pre, ids in golden["ids"].items():

            def settings(writer, pre=pre):
                writer.add_tokenizer_model("gpt2")
                writer.add_tokenizer_pre(pre)
                writer.add_token_merges(golden["merges"])

            path = Path(scratch) / f"{pre}.gguf"
            tiny(path, golden["tokens"], kinds, settings)
            cases.append((pre, path, golden["texts"], ids))
        pieces = read("sentence_piece")

        def settings(writer):
            writer.add_tokenizer_model("llama")
            writer.add_token_scores(pieces["scores"])
            writer.add_unk_token_id(pieces["unknown"])

        path = Path(scratch) / "pieces.gguf"
        tiny(path, pieces["tokens"], pieces["kinds"], settings)
        cases.append(("llama", path, pieces["texts"], pieces["ids"]))
        smollm2 = read("smollm2")
        cases.append(("smollm2", model, smollm2["texts"], smollm2["ids"]))
        for name, path, texts, ids in cases:
            theirs = llama_cpp_tokens(path, texts)
            differ = [text for text, ours, other in zip(texts, ids, theirs) if ours != other]
            print(f"{name}: {len(texts) - len(differ)} of {len(texts)} texts alike", *map(repr, differ), sep="\n  ")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["dequantize", path, out]:
            dequantize(path, out)
        case ["write", folder, model]:
            write(folder, model)
        case ["llama-cpp", folder, model]:
            llama_cpp(folder, model)
        case _:
            sys.exit(__doc__)
