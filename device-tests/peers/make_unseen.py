#!/usr/bin/env python3
"""Write networks on which nothing of Polychip was tuned, with deterministic random weights, into a folder.

    make_unseen.py OUT

`cargo xtask predict` holds predictions against them: the rules by which models are cut and laws are fitted were chosen
without them. Architectures after their papers, in the sizes that the names say; weights do not matter for time.
Needs onnx and numpy only.
"""
import math, os, sys
import numpy as np
import onnx
from make_models import G, T


def basic_resnet(blocks):
    """He et al. 2015, the networks of two 3 x 3 convolutions a block."""
    def make(g):
        x = g.maxpool(g.conv(g.input("input", [1, 3, 224, 224]), 64, 7, 2, act="relu"), 3, 2, 1)
        for stage, n in enumerate(blocks):
            for i in range(n):
                s, w = (2 if stage and not i else 1), 64 << stage
                y = g.conv(g.conv(x, w, 3, s, act="relu"), w, 3, gain=0.2)
                x = g.act(g.add(y, g.conv(x, w, 1, s, gain=1.0) if g.ch[x] != w else x), "relu")
        g.output(g.classifier(x, 1000), "output", [1, 1000])
    return make


def vgg11(g):
    """Simonyan and Zisserman 2014, configuration A, with the pooled head of later exporters."""
    x = g.input("input", [1, 3, 224, 224])
    for width, n in [(64, 1), (128, 1), (256, 2), (512, 2), (512, 2)]:
        for _ in range(n):
            x = g.conv(x, width, 3, act="relu")
        x = g.maxpool(x, 2, 2)
    g.output(g.classifier(x, 1000), "output", [1, 1000])


def mobilenet_v1(g):
    """Howard et al. 2017, width 1.0."""
    x = g.conv(g.input("input", [1, 3, 224, 224]), 32, 3, 2, act="relu6")
    for c, s in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]:
        x = g.conv(g.conv(x, g.ch[x], 3, s, groups=g.ch[x], act="relu6"), c, act="relu6")
    g.output(g.classifier(x, 1000), "output", [1, 1000])


def efficientnet_b0(g):
    """Tan and Le 2019: inverted residuals with squeeze and excitation."""
    def excite(x, squeezed):
        c = g.ch[x]
        y = g.op("GlobalAveragePool", [x])
        g.ch[y] = c
        y = g.op("Sigmoid", [g.conv(g.conv(y, squeezed, act="silu"), c)])
        y = g.op("Mul", [x, y])
        g.ch[y] = c
        return y
    x = g.conv(g.input("input", [1, 3, 224, 224]), 32, 3, 2, act="silu")
    for t, c, n, s, k in [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
                          (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]:
        for i in range(n):
            ic, st, y = g.ch[x], s if i == 0 else 1, x
            if t != 1:
                y = g.conv(y, ic * t, act="silu")
            y = g.conv(y, ic * t, k, st, groups=ic * t, act="silu")
            y = g.conv(excite(y, max(1, ic // 4)), c, gain=1.0)
            x = g.add(x, y) if st == 1 and ic == c else y
    g.output(g.classifier(g.conv(x, 1280, act="silu"), 1000), "output", [1, 1000])


def resnext(g):
    """Xie et al. 2016, ResNeXt-50 32x4d: grouped convolutions."""
    x = g.maxpool(g.conv(g.input("input", [1, 3, 224, 224]), 64, 7, 2, act="relu"), 3, 2, 1)
    for w, n, s in [(128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2)]:
        for i in range(n):
            st = s if i == 0 else 1
            y = g.conv(g.conv(g.conv(x, w, act="relu"), w, 3, st, groups=32, act="relu"), w * 2, gain=0.2)
            x = g.act(g.add(y, x if i else g.conv(x, w * 2, 1, st, gain=1.0)), "relu")
    g.output(g.classifier(x, 1000), "output", [1, 1000])


def unet(g, size=128):
    """Ronneberger et al. 2015, padded, a quarter of the widths, at 128 x 128."""
    def double(x, w):
        return g.conv(g.conv(x, w, 3, act="relu"), w, 3, act="relu")

    def up(x):
        y = g.op("Resize", [x, "", g.const(np.array([1, 1, 2, 2], np.float32))], mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        g.ch[y] = g.ch[x]
        return y
    x, kept = g.input("input", [1, 3, size, size]), []
    for w in (16, 32, 64, 128):
        x = double(x, w)
        kept.append(x)
        x = g.maxpool(x, 2, 2)
    x = double(x, 256)
    for w in (128, 64, 32, 16):
        x = double(g.concat([kept.pop(), g.conv(up(x), w, act=None)]), w)
    g.output(g.conv(x, 2), "output", [1, 2, size, size])


def attention(g, x, seq, d, heads, mask=None):
    dh = d // heads
    split = lambda v, perm: g.op("Transpose", [g.op("Reshape", [v, g.i64(1, seq, heads, dh)])], perm=perm)
    q, k, v = (g.linear(x, d, d) for _ in range(3))
    s = g.op("MatMul", [split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1])])
    s = g.op("Mul", [s, g.f32(1 / math.sqrt(dh))])
    s = g.op("Add", [s, mask]) if mask else s
    c = g.op("MatMul", [g.op("Softmax", [s], axis=-1), split(v, [0, 2, 1, 3])])
    return g.linear(g.op("Reshape", [g.op("Transpose", [c], perm=[0, 2, 1, 3]), g.i64(1, seq, d)]), d, d)


def block(g, x, seq, d, heads, mask=None):
    """A layer that normalises before it multiplies."""
    x = g.op("Add", [x, attention(g, g.layernorm(x, d), seq, d, heads, mask)])
    return g.op("Add", [x, g.linear(g.gelu(g.linear(g.layernorm(x, d), d, 4 * d)), 4 * d, d)])


def vit_tiny(g, d=192, heads=3, layers=12):
    """Dosovitskiy et al. 2020, in the size of Touvron et al. 2020: patches of 16, tokens without a class."""
    x = g.conv(g.input("input", [1, 3, 224, 224]), d, 16, 16, p=0)
    x = g.op("Transpose", [g.op("Reshape", [x, g.i64(1, d, 196)])], perm=[0, 2, 1])
    x = g.op("Add", [x, g.const(0.5 * g.rng.standard_normal((1, 196, d), dtype=np.float32))])
    for _ in range(layers):
        x = block(g, x, 196, d, heads)
    x = g.op("ReduceMean", [g.layernorm(x, d)], axes=[1], keepdims=0)
    g.output(g.op("Gemm", [x, g.he((1000, d), d, 1.0), g.const(np.zeros(1000, np.float32))], transB=1), "output", [1, 1000])


def decoder(g, d=512, heads=8, layers=8, seq=64, vocab=4096):
    """A prompt of 64 tokens through a small decoder in the manner of Radford et al. 2019, with its causal mask."""
    ids = g.input("input_ids", [1, seq], T.INT64)
    x = g.op("Gather", [g.const(0.5 * g.rng.standard_normal((vocab, d), dtype=np.float32)), ids])
    x = g.op("Add", [x, g.const(0.5 * g.rng.standard_normal((1, seq, d), dtype=np.float32))])
    mask = g.const(np.triu(np.full((1, 1, seq, seq), -1e4, np.float32), 1))
    for _ in range(layers):
        x = block(g, x, seq, d, heads, mask)
    g.output(g.op("MatMul", [g.layernorm(x, d), g.he((d, vocab), d, 1.0)]), "logits", [1, seq, vocab])


def autoencoder(g):
    """Convolutions down and up with few channels, as for pictures."""
    x = g.input("input", [1, 3, 256, 256])
    for w in (16, 32, 48, 64):
        x = g.conv(x, w, 5, 2, act="relu")
    for w in (48, 32, 16, 12):
        x = g.op("Resize", [x, "", g.const(np.array([1, 1, 2, 2], np.float32))], mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        g.ch[x] = {48: 64, 32: 48, 16: 32, 12: 16}[w]
        x = g.conv(x, w, 3, act="relu")
    g.output(g.conv(x, 3, 3), "output", [1, 3, 256, 256])


UNSEEN = {
    "resnet18": basic_resnet([2, 2, 2, 2]), "resnet34": basic_resnet([3, 4, 6, 3]), "vgg11": vgg11,
    "mobilenet_v1": mobilenet_v1, "efficientnet_b0": efficientnet_b0, "resnext50": resnext, "unet": unet,
    "vit_tiny": vit_tiny, "decoder": decoder, "autoencoder": autoencoder,
}

if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, make in UNSEEN.items():
        g = G(name)
        make(g)
        onnx.save(g.model(), os.path.join(sys.argv[1], name + ".onnx"))
        print(name, len(g.nodes), "nodes")
