"""Small networks with random weights, as Optimum and PyTorch export them."""
import pathlib
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Callable

import torch
from torch import nn

WORDS = 60


@dataclass
class Network:
    name: str
    #: `export(path)`
    export: Callable
    #: sizes of named axes
    sizes: dict
    #: the optimiser's name of its kind, its heads and its width
    kind: str | None = None
    heads: int = 0
    hidden: int = 0
    more: dict = field(default_factory=dict)


def varied(model):
    """The network with no two parameters alike, which an exporter would make one."""
    torch.manual_seed(7)
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model.eval()


def by_optimum(model, task, file, key, **sizes):
    """Exports a network of transformers by Optimum, which writes several files for some; this is one of them."""
    def export(path):
        from optimum.exporters.onnx import onnx_export_from_model

        folder = pathlib.Path(tempfile.gettempdir()) / f"polychip-export-{key}"
        if not (folder / file).exists():
            onnx_export_from_model(varied(model()), folder, task=task, do_validation=False, opset=17, no_post_process=True, **sizes)
        shutil.copy(folder / file, path)

    return export


def config(name, **more):
    import transformers

    return getattr(transformers, name)(**more)


def network(name, of):
    import transformers

    of._attn_implementation = "eager"
    return getattr(transformers, name)(of)


def bert():
    return network("BertModel", config("BertConfig", vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                       intermediate_size=64, max_position_embeddings=32))  # fmt: skip


def gpt2():
    return network("GPT2LMHeadModel", config("GPT2Config", vocab_size=WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=4))


def vit():
    return network("ViTForImageClassification", config("ViTConfig", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                                       intermediate_size=64, image_size=32, patch_size=8, num_labels=10))  # fmt: skip


def attended(module, query, key, value, attention_mask, **more):
    """Attention in the steps that the optimiser looks for; the query is scaled already."""
    scores = torch.matmul(query, key.transpose(2, 3))
    if attention_mask is not None:
        scores = scores + attention_mask[:, :, :, : key.shape[-2]]
    weights = nn.functional.softmax(scores, dim=-1)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


def whisper():
    from transformers.models.whisper import modeling_whisper

    modeling_whisper.eager_attention_forward = attended
    return network("WhisperForConditionalGeneration", config(
        "WhisperConfig", vocab_size=WORDS, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=30,
        max_target_positions=32, decoder_start_token_id=1, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        suppress_tokens=None, begin_suppress_tokens=None))  # fmt: skip


def t5():
    return network("T5ForConditionalGeneration", config(
        "T5Config", vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0,
        feed_forward_proj="gated-gelu"))  # fmt: skip


class Block(nn.Module):
    """Convolution, normalisation, SiLU."""

    def __init__(self, c1, c2, k=1, s=1):
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(c1, c2, k, s, k // 2, bias=False), nn.BatchNorm2d(c2), nn.SiLU()
        self.bn.running_mean.uniform_(-0.3, 0.3)
        self.bn.running_var.uniform_(0.5, 1.5)

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class Split(nn.Module):
    """Halves of the channels, of which one goes through bottlenecks, all joined."""

    def __init__(self, c, n=1, shortcut=True):
        super().__init__()
        self.first, self.last = Block(c, c), Block((2 + n) * c // 2, c)
        self.inner = nn.ModuleList(nn.Sequential(Block(c // 2, c // 2, 3), Block(c // 2, c // 2, 3)) for _ in range(n))
        self.shortcut = shortcut

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for inner in self.inner:
            made = inner(parts[-1])
            parts.append(parts[-1] + made if self.shortcut else made)
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.first, self.last, self.pool = Block(c, c // 2), Block(2 * c, c), nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """A detector: backbone, two scales joined upwards and downwards, boxes by a distribution over distances, classes."""

    BINS, CLASSES = 8, 5

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(Block(3, 8, 3, 2), Block(8, 16, 3, 2), Split(16))
        self.down = nn.Sequential(Block(16, 32, 3, 2), Split(32), Pyramid(32))
        self.up, self.join = nn.Upsample(scale_factor=2, mode="nearest"), nn.Sequential(Block(48, 16), Split(16, shortcut=False))
        self.back, self.join2 = Block(16, 16, 3, 2), nn.Sequential(Block(48, 32), Split(32, shortcut=False))
        head = lambda c, out: nn.Sequential(Block(c, 16, 3), Block(16, 16, 3), nn.Conv2d(16, out, 1))
        self.boxes = nn.ModuleList(head(c, 4 * self.BINS) for c in (16, 32))
        self.classes = nn.ModuleList(head(c, self.CLASSES) for c in (16, 32))
        self.expectation = nn.Conv2d(self.BINS, 1, 1, bias=False)
        self.expectation.weight.data[:] = torch.arange(self.BINS).float().view(1, -1, 1, 1)

    def forward(self, images):
        fine = self.stem(images)
        coarse = self.down(fine)
        fine = self.join(torch.cat([self.up(coarse), fine], 1))
        coarse = self.join2(torch.cat([self.back(fine), coarse], 1))
        found = [torch.cat([box(x), name(x)], 1) for x, box, name in zip((fine, coarse), self.boxes, self.classes)]
        centres, strides = [], []
        for x, stride in zip(found, (4, 8)):
            h, w = x.shape[2:]
            y, x = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            centres.append(torch.stack([x, y], -1).view(-1, 2))
            strides.append(torch.full((h * w, 1), float(stride)))
        centres, strides = torch.cat(centres).T[None], torch.cat(strides).T
        flat = torch.cat([x.flatten(2) for x in found], 2)
        box, name = flat.split((4 * self.BINS, self.CLASSES), 1)
        batch, _, places = box.shape
        box = self.expectation(box.view(batch, 4, self.BINS, places).transpose(2, 1).softmax(1)).view(batch, 4, places)
        low, high = box.chunk(2, 1)
        low, high = centres - low, centres + high
        return torch.cat([torch.cat([(low + high) / 2, high - low], 1) * strides, name.sigmoid()], 1)


def yolo(path):
    torch.manual_seed(7)
    torch.onnx.export(Yolo().eval(), (torch.zeros(1, 3, 64, 64),), str(path), input_names=["images"], output_names=["output0"],
                      opset_version=17, dynamo=False, dynamic_axes={"images": {0: "batch"}})  # fmt: skip


TEXT2TEXT, SPEECH = "text2text-generation-with-past", "automatic-speech-recognition-with-past"
LENGTHS = {
    "batch_size": 2, "sequence_length": 5, "encoder_sequence_length": 7, "decoder_sequence_length": 4, "past_decoder_sequence_length": 3,
    "encoder_sequence_length_out": 7, "past_sequence_length": 3, "past_sequence_length + sequence_length": 8, "total_sequence_length": 8,
    "num_channels": 3, "height": 32, "width": 32, "batch": 2, "feature_size": 16, "encoder_sequence_length / 2": 30,
}  # fmt: skip
WHISPER = LENGTHS | {"encoder_sequence_length": 60, "encoder_sequence_length_out": 30}
NETWORKS = [
    Network("bert", by_optimum(bert, "feature-extraction", "model.onnx", "bert"), LENGTHS | {"padded": True}, "bert", 4, 32),
    Network("gpt2", by_optimum(gpt2, "text-generation-with-past", "model.onnx", "gpt2"), LENGTHS, "gpt2", 4, 32),
    Network("vit", by_optimum(vit, "image-classification", "model.onnx", "vit"), LENGTHS, "vit", 4, 32),
    Network("whisper-encoder", by_optimum(whisper, SPEECH, "encoder_model.onnx", "whisper", nb_max_frames=60), WHISPER, "bart", 4, 32),
    Network("whisper-decoder", by_optimum(whisper, SPEECH, "decoder_model.onnx", "whisper", nb_max_frames=60), WHISPER, "bart", 4, 32),
    Network("whisper-decoder-with-past", by_optimum(whisper, SPEECH, "decoder_with_past_model.onnx", "whisper", nb_max_frames=60), WHISPER, "bart", 4, 32),
    Network("t5-encoder", by_optimum(t5, TEXT2TEXT, "encoder_model.onnx", "t5"), LENGTHS | {"padded": True}, "t5", 4, 32),
    Network("t5-decoder", by_optimum(t5, TEXT2TEXT, "decoder_model.onnx", "t5"), LENGTHS, "t5", 4, 32),
    Network("t5-decoder-with-past", by_optimum(t5, TEXT2TEXT, "decoder_with_past_model.onnx", "t5"), LENGTHS, "t5", 4, 32),
    Network("yolo", yolo, LENGTHS),
]
