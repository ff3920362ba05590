#!/usr/bin/env python3
"""Train the `shapes` classifier on drawn pictures and write it as shapes.onnx.

    train.py [--out FOLDER] [--pictures N] [--held-out N] [--epochs N] [--batch N] [--device cuda|cpu]

A MobileNetV2 of width 0.35 for 96 x 96 RGB pictures. The model's input `image` [1, 3, 96, 96] is a
picture's pixels divided by 255 and nothing else; its output `probabilities` [1, 12] has passed the
softmax. Every picture comes from draw.py; the splits are drawn from different seeds, and nothing is
chosen by looking at the held-out one: the last epoch's weights are the model.
Needs torch, onnx, onnxruntime, numpy and pillow. quantize.py makes the int8 model and the figures.
"""
import argparse
import multiprocessing
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read by cuBLAS when it starts: repeatable sums

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn
from torch.nn import functional as F

import draw

# (expansion, channels before the width multiplier, blocks, stride of the first): MobileNetV2's table 2.
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
WIDTH, LAST, SEED = 0.35, 640, 20


def channels(n):
    """A multiple of 8 near n * WIDTH, never more than a tenth below."""
    c = max(8, int(n * WIDTH + 4) // 8 * 8)
    return c + 8 if c < 0.9 * n * WIDTH else c


def conv(i, o, k=1, stride=1, groups=1, act=True):
    layers = [nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, nn.ReLU6()) if act else nn.Sequential(*layers)


class Block(nn.Module):
    """Widen, filter each channel, narrow; added to its input where the shapes agree."""

    def __init__(self, i, o, expansion, stride):
        super().__init__()
        m = i * expansion
        self.widen = conv(i, m) if expansion > 1 else nn.Identity()
        self.filter = conv(m, m, 3, stride, groups=m)
        self.narrow = conv(m, o, act=False)
        self.residual = stride == 1 and i == o

    def forward(self, x):
        y = self.narrow(self.filter(self.widen(x)))
        return x + y if self.residual else y


class Shapes(nn.Module):
    def __init__(self, classes):
        super().__init__()
        c = channels(32)
        layers = [conv(3, c, 3, 2)]
        for expansion, o, n, stride in STAGES:
            for k in range(n):
                layers.append(Block(c, channels(o), expansion, stride if k == 0 else 1))
                c = channels(o)
        self.features = nn.Sequential(*layers, conv(c, LAST))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.drop = nn.Dropout(0.1)
        self.classify = nn.Linear(LAST, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.classify(self.drop(self.pool(self.features(x)).flatten(1)))


def pictures(split, n):
    """n pictures of a split: (uint8 [n, 3, 96, 96], int64 [n])."""
    step = 250
    with multiprocessing.Pool() as pool:
        parts = pool.starmap(draw.batch, [(split, range(i, min(i + step, n))) for i in range(0, n, step)], chunksize=1)
    x = np.concatenate([p for p, _ in parts])
    return torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2))), torch.from_numpy(np.concatenate([c for _, c in parts]))


def vary(x):
    """Turn, mirror and recolour each picture of a batch by chance; no class changes under these."""
    n = len(x)
    some = lambda p: (torch.rand(n, device=x.device) < p)[:, None, None, None]
    x = torch.where(some(0.5), x.flip(3), x)
    x = torch.where(some(0.5), x.flip(2), x)
    x = torch.where(some(0.5), x.transpose(2, 3), x)
    x = torch.where(some(0.1), 1 - x, x)
    gain = 1 + 0.3 * (torch.rand(n, 3, 1, 1, device=x.device) - 0.5)
    shift = 0.15 * (torch.rand(n, 3, 1, 1, device=x.device) - 0.5)
    return (x * gain + shift + 0.02 * torch.rand(n, 1, 1, 1, device=x.device) * torch.randn_like(x)).clamp(0, 1)


def accuracy(model, x, y, device):
    model.eval()
    right = 0
    with torch.no_grad():
        for i in range(0, len(x), 1000):
            p = model(x[i:i + 1000].to(device).float() / 255).argmax(1)
            right += (p == y[i:i + 1000].to(device)).sum().item()
    model.train()
    return right / len(x)


def train(a):
    torch.manual_seed(SEED)
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    t = time.time()
    x, y = pictures("train", a.pictures)
    hx, hy = pictures("held-out", a.held_out)
    print(f"drew {len(x)} + {len(hx)} pictures in {time.time() - t:.0f} s", flush=True)
    model = Shapes(len(draw.CLASSES)).to(a.device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    x, y = x.to(a.device), y.to(a.device)
    steps = len(x) // a.batch
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}], lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, epochs=a.epochs, steps_per_epoch=steps, pct_start=0.15)
    for epoch in range(a.epochs):
        order, total = torch.randperm(len(x), device=a.device), 0.0
        for i in range(steps):
            k = order[i * a.batch:(i + 1) * a.batch]
            loss = F.cross_entropy(model(vary(x[k].float() / 255)), y[k], label_smoothing=0.03)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.detach()
        note = f", held-out {accuracy(model, hx, hy, a.device):.4f}" if epoch % 5 == 4 or epoch + 1 == a.epochs else ""
        print(f"epoch {epoch + 1}: loss {float(total) / steps:.4f}{note}, {time.time() - t:.0f} s", flush=True)
    return model.eval().cpu(), hx, hy


def export(model, path):
    """Batch-norm folded by the exporter, static shapes, what the input means stated in the file."""
    whole = nn.Sequential(model, nn.Softmax(1)).eval()
    torch.onnx.export(whole, (torch.zeros(1, 3, draw.SIZE, draw.SIZE),), path, dynamo=False, opset_version=17,
                      input_names=["image"], output_names=["probabilities"])
    m = onnx.load(path)
    m.graph.name = "shapes"
    onnx.helper.set_model_props(m, {"polychip.input.image": "rgb/255", "polychip.labels": ",".join(draw.CLASSES)})
    onnx.checker.check_model(m, full_check=True)
    onnx.save(m, path)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    a.add_argument("--pictures", type=int, default=72000)
    a.add_argument("--held-out", type=int, default=12000)
    a.add_argument("--epochs", type=int, default=40)
    a.add_argument("--batch", type=int, default=256)
    a.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a = a.parse_args()
    model, x, y = train(a)
    path = os.path.join(a.out, "shapes.onnx")
    export(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    n = min(len(x), 1200)
    right = sum(session.run(None, {"image": (x[i:i + 1].numpy() / np.float32(255))})[0].argmax() == int(y[i]) for i in range(n))
    with torch.no_grad():
        torch_p = torch.softmax(model(x[:1].float() / 255), 1).numpy()
    off = np.abs(session.run(None, {"image": x[:1].numpy() / np.float32(255)})[0] - torch_p).max()
    print(f"{path}: {os.path.getsize(path)} bytes, {right / n:.4f} of {n} held-out right in ONNX Runtime, off torch by {off:.1e}")


if __name__ == "__main__":
    main()
