#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the models of tests/golden/nn/onnx with the onnx package, and their weights as safetensors.

    python3 scripts/make_onnx_golden.py [FOLDER]

tests/golden/nn/test_onnx.c describes the same layers and compares the bytes of its files with NAME.onnx. Each is held against
PyTorch by onnxruntime here. Needs torch, onnx, onnxruntime and safetensors; made with onnx 1.23 and onnxruntime 1.32.
"""
import math
import pathlib
import sys

import numpy
import onnx
import onnxruntime
import safetensors.torch
import torch
from onnx import TensorProto, helper
from torch import nn

DEFAULT = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "nn" / "onnx"


class Model:
    """A graph that grows layer by layer; `x` is the value of the layer before."""

    def __init__(self, state):
        self.state, self.nodes, self.initializers, self.x = state, [], [], "input"

    def parameter(self, name):
        if name not in self.state:
            return None
        self.constant(name, self.state[name].numpy())
        return name

    def constant(self, name, value):
        value = numpy.asarray(value, dtype="<f4")
        self.initializers.append(helper.make_tensor(name, TensorProto.FLOAT, value.shape, value.tobytes(), raw=True))
        return name

    def op(self, layer, op, inputs, part=None, output=None, **attributes):
        output = output or f"/{layer}/output"
        node = helper.make_node(op, [i for i in inputs if i], [output], f"/{layer}/{part or op}")
        for name, value in attributes.items():
            node.attribute.append(helper.make_attribute(name, value))
        self.nodes.append(node)
        self.x = output

    def chain(self, layer, steps):
        """Operations one after another, each on the value of the one before."""
        for k, (op, other) in enumerate(steps):
            last = k + 1 == len(steps)
            self.op(layer, op, [self.x, other], f"{op}_{k}", None if last else f"/{layer}/{op}_{k}_output")

    def norm(self, layer, role, shape):
        own = self.parameter(f"{layer}.{role}")
        name, value = ("ones", 1) if role == "weight" else ("zeros", 0)
        return own or self.constant(f"/{layer}/{name}", numpy.full(shape, value))

    def gelu(self, layer, tanh):
        x, one, half = self.x, self.constant(f"/{layer}/one", 1), self.constant(f"/{layer}/half", 0.5)
        scale = self.constant(f"/{layer}/scale", math.sqrt(2 / math.pi) if tanh else math.sqrt(0.5))
        steps = []
        if tanh:
            steps = [("Mul", x), ("Mul", x), ("Mul", self.constant(f"/{layer}/cubed", 0.044715)), ("Add", x)]
        self.chain(layer, steps + [("Mul", scale), ("Tanh" if tanh else "Erf", None), ("Add", one), ("Mul", x), ("Mul", half)])

    def file(self, shape, out):
        last = self.nodes[-1].output[0]
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = ["output" if name == last else name for name in names]
        value = lambda name, sides: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *sides])
        graph = helper.make_graph(self.nodes, "model", [value("input", shape)], [value("output", out)], self.initializers)
        return helper.make_model(graph, producer_name="stoker", ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
        self.bn = nn.BatchNorm2d(4, eps=1e-3)
        self.plain = nn.BatchNorm2d(4, affine=False)
        self.side = nn.Conv2d(4, 4, 1, bias=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.relu(self.bn(self.conv(x)))
        x = x + self.side(self.plain(x))
        x = nn.functional.max_pool2d(x, 3, 2, 1)
        x = nn.functional.gelu(nn.functional.silu(nn.functional.avg_pool2d(x, 2, 1, 1, count_include_pad=False)))
        x = nn.functional.avg_pool2d(x, 2)
        return self.fc(torch.flatten(x, 1))


def pictures(m):
    window = lambda kernel, pads, strides: {"kernel_shape": kernel, "pads": pads * 2, "strides": strides}
    m.op("conv", "Conv", ["input", m.parameter("conv.weight"), m.parameter("conv.bias")], **window([3, 2], [1, 0], [2, 1]),
         dilations=[1, 2], group=2)
    roles = ("running_mean", "running_var")
    norm = lambda layer: [m.norm(layer, "weight", 4), m.norm(layer, "bias", 4), *(m.parameter(f"{layer}.{r}") for r in roles)]
    m.op("bn", "BatchNormalization", [m.x, *norm("bn")], epsilon=1e-3)
    m.op("act", "Relu", [m.x])
    m.op("plain", "BatchNormalization", [m.x, *norm("plain")], epsilon=1e-5)
    m.op("side", "Conv", [m.x, m.parameter("side.weight")], **window([1, 1], [0, 0], [1, 1]), dilations=[1, 1], group=1)
    m.op("sum", "Add", [m.x, "/act/output"])
    m.op("max", "MaxPool", [m.x], **window([3, 3], [1, 1], [2, 2]))
    m.op("mean", "AveragePool", [m.x], **window([2, 2], [1, 1], [1, 1]), count_include_pad=0)
    m.chain("silu", [("Sigmoid", None), ("Mul", m.x)])
    m.gelu("gelu", False)
    m.op("mean2", "AveragePool", [m.x], **window([2, 2], [0, 0], [2, 2]), count_include_pad=1)
    m.op("flat", "Flatten", [m.x])
    m.op("fc", "Gemm", [m.x, m.parameter("fc.weight"), m.parameter("fc.bias")], transB=1)


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 4)
        self.n = nn.LayerNorm(4)
        self.b = nn.Linear(4, 3, bias=False)
        self.both = nn.LayerNorm((6, 3), elementwise_affine=False, eps=1e-4)

    def forward(self, x):
        return self.both(self.b(nn.functional.gelu(self.n(self.a(x)), approximate="tanh")))


def rows(m):
    def linear(layer, *names):
        turned = f"/{layer}/Transpose_output"
        weight, bias, x = m.parameter(f"{layer}.weight"), m.parameter(f"{layer}.bias"), m.x
        m.op(layer, "Transpose", [weight], output=turned, perm=[1, 0])
        m.x = x
        m.chain(layer, [("MatMul", turned)] + ([("Add", bias)] if bias else []))

    linear("a")
    m.op("n", "LayerNormalization", [m.x, m.parameter("n.weight"), m.parameter("n.bias")], axis=-1, epsilon=1e-5)
    m.gelu("g", True)
    linear("b")
    m.op("both", "LayerNormalization", [m.x, m.norm("both", "weight", (6, 3))], axis=-2, epsilon=1e-4)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    folder.mkdir(exist_ok=True)
    for name, kind, build, shape in (("pictures", Pictures, pictures, [2, 8, 10]), ("rows", Rows, rows, [6, 5])):
        torch.manual_seed(0)
        module = kind().eval()
        with torch.no_grad():
            for key, value in module.state_dict().items():
                if value.is_floating_point():
                    value.uniform_(0.5 if key.endswith("var") else -1, 1)
            x = torch.randn(3, *shape)
            wanted = module(x).numpy()
        m = Model(module.state_dict())
        build(m)
        model = m.file(shape, wanted.shape[1:])
        onnx.checker.check_model(model, full_check=True)
        got = onnxruntime.InferenceSession(model.SerializeToString()).run(["output"], {"input": x.numpy()})[0]
        assert abs(got - wanted).max() < 1e-5, (name, abs(got - wanted).max())
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
        safetensors.torch.save_file(module.state_dict(), folder / f"{name}.safetensors")


main()
