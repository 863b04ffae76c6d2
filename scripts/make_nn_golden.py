#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/nn/golden.json and finetuning.json with torch and torchvision: what their layers, losses, optimizers and schedules give.

usage: make_nn_golden.py FOLDER

Weights, inputs and targets are a small hash of their place, made alike by tests/golden/nn/test_torch.c, so that only
results are stored. Written with torch 2.x; the values do not depend on the version.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torchvision
from torch import nn

BATCH = 5


def uniform(stream, n):
    """n numbers in [0, 1) of 24 bits: a hash of (stream, place)."""
    with np.errstate(over="ignore"):
        h = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(stream) * np.uint32(40503) + np.uint32(12345)
        for _ in range(2):
            h = (h ^ (h >> np.uint32(16))) * np.uint32(0x45D9F3B)
        h ^= h >> np.uint32(16)
    return (h >> np.uint32(8)).astype(np.float64) * 2.0 ** -24


def set_weights(model):
    """Parameters in the order of the state: uniform within 1 / sqrt(fan in); of norms about 1, biases about 0."""
    with torch.no_grad():
        for k, (name, p) in enumerate(t for t in model.named_parameters()):
            u = uniform(k, p.numel()) - 0.5
            if p.dim() > 1 and "norm" not in name:
                u *= 2 / math.sqrt(p[0].numel())
            elif name.endswith("weight"):
                u = u * 0.5 + 1
            else:
                u *= 0.2
            p.copy_(torch.from_numpy(u.reshape(p.shape)).to(p.dtype))


def data(shape, dtype=torch.float64, step=0):
    n = int(np.prod(shape))
    return torch.from_numpy((uniform(1000 + step, n) * 2 - 1).astype(np.float32).reshape(shape)).to(dtype)


def labels(n, classes, step=0):
    return torch.from_numpy((uniform(2000 + step, n) * classes).astype(np.int64))


class Add(nn.Module):
    """name = add(other): the sum with what another layer gave."""

    def __init__(self, other):
        super().__init__()
        self.other = other


class Global(nn.AdaptiveAvgPool2d):
    def __init__(self):
        super().__init__(1)


class Net(nn.Module):
    """Layers under the names that stoker gives them."""

    def __init__(self, layers):
        super().__init__()
        self.order = []
        for i, layer in enumerate(layers):
            name = str(i)
            if isinstance(layer, tuple):
                name, layer = layer
            self.order.append(name)
            self.add_module(name, layer)

    def forward(self, x):
        seen = {}
        for name in self.order:
            layer = self._modules[name]
            x = x + seen[layer.other] if isinstance(layer, Add) else layer(x)
            seen[name] = x
        return x


L, C, BN = nn.Linear, nn.Conv2d, nn.BatchNorm2d
OPS = [
    ("linear(5)", (7,), lambda: [L(7, 5)]),
    ("linear(5, bias=false), relu, linear(3)", (7,), lambda: [L(7, 5, bias=False), nn.ReLU(), L(5, 3)]),
    ("linear(4, 5), relu, flatten, linear(2)", (3, 4), lambda: [L(4, 5), nn.ReLU(), nn.Flatten(), L(15, 2)]),
    ("conv2d(6, 3, stride=2, padding=1), conv2d(4, 3, dilation=2, padding=2, groups=2, bias=false)", (3, 9, 8),
     lambda: [C(3, 6, 3, 2, 1), C(6, 4, 3, 1, 2, 2, groups=2, bias=False)]),
    ("conv2d(8, 3x1, padding=1x0), relu, conv2d(8, 3, groups=8), conv2d(2, 1)", (2, 6, 7),
     lambda: [C(2, 8, (3, 1), 1, (1, 0)), nn.ReLU(), C(8, 8, 3, groups=8), C(8, 2, 1)]),
    ("conv2d(17, 3, stride=2), conv2d(33, 1), conv2d(3, 2, stride=2)", (1, 12, 11),
     lambda: [C(1, 17, 3, 2), C(17, 33, 1), C(33, 3, 2, 2)]),
    ("conv2d(4, 3), batch_norm2d, relu, conv2d(2, 1), batch_norm2d(affine=false)", (3, 6, 6),
     lambda: [C(3, 4, 3), BN(4), nn.ReLU(), C(4, 2, 1), BN(2, affine=False)]),
    ("linear(6), layer_norm, linear(4)", (3, 8), lambda: [L(8, 6), nn.LayerNorm(6), L(6, 4)]),
    ("linear(6), layer_norm(3x6), gelu, linear(4), layer_norm(elementwise_affine=false)", (3, 8),
     lambda: [L(8, 6), nn.LayerNorm((3, 6)), nn.GELU(), L(6, 4), nn.LayerNorm(4, elementwise_affine=False)]),
    ("linear(9), gelu(tanh), linear(9), silu, linear(9), gelu, linear(3)", (8,),
     lambda: [L(8, 9), nn.GELU("tanh"), L(9, 9), nn.SiLU(), L(9, 9), nn.GELU(), L(9, 3)]),
    ("conv2d(4, 3), max_pool2d(3, 2, 1), conv2d(4, 1), avg_pool2d(2), conv2d(2, 1)", (2, 10, 9),
     lambda: [C(2, 4, 3), nn.MaxPool2d(3, 2, 1), C(4, 4, 1), nn.AvgPool2d(2), C(4, 2, 1)]),
    ("conv2d(4, 3), avg_pool2d(3, 2, 1), conv2d(4, 1), avg_pool2d(3, 1, padding=1, count_include_pad=false), "
     "conv2d(5, 1), global_avg_pool2d, flatten, linear(3)", (2, 10, 9),
     lambda: [C(2, 4, 3), nn.AvgPool2d(3, 2, 1), C(4, 4, 1), nn.AvgPool2d(3, 1, 1, count_include_pad=False), C(4, 5, 1),
              Global(), nn.Flatten(), L(5, 3)]),
    ("a=conv2d(4, 3, padding=1), relu, b=conv2d(4, 3, padding=1), batch_norm2d, add(a), relu, flatten, linear(3)",
     (2, 5, 4),
     lambda: [("a", C(2, 4, 3, 1, 1)), nn.ReLU(), ("b", C(4, 4, 3, 1, 1)), BN(4), Add("a"), nn.ReLU(), nn.Flatten(),
              L(80, 3)]),
    ("a=linear(6), add(a), r=relu, linear(6), s=add(r), silu, add(s), add(a), linear(2)", (5,),
     lambda: [("a", L(5, 6)), Add("a"), ("r", nn.ReLU()), L(6, 6), ("s", Add("r")), nn.SiLU(), Add("s"), Add("a"),
              L(6, 2)]),
    ("lenet(num_classes=7)", (1, 28, 28),
     lambda: [("conv1", C(1, 6, 5, 1, 2)), nn.ReLU(), nn.MaxPool2d(2), ("conv2", C(6, 16, 5)), nn.ReLU(),
              nn.MaxPool2d(2), nn.Flatten(), ("fc1", L(400, 120)), nn.ReLU(), ("fc2", L(120, 84)), nn.ReLU(),
              ("fc3", L(84, 7))]),
]


def summary(t):
    """Of a tensor: its sum, its sum weighted by place, and its norm."""
    a = t.detach().double().reshape(-1).numpy()
    return [float(a.sum()), float((a * np.cos(np.arange(a.size))).sum()), float(np.sqrt((a * a).sum()))]


def ops():
    out = []
    for text, shape, make in OPS:
        torch.manual_seed(0)
        model = Net(make()).double().train()
        set_weights(model)
        x = data((BATCH, *shape))
        y = model(x)
        target = data(y.shape, step=7)
        loss = nn.functional.mse_loss(y, target)
        loss.backward()
        case = {"layers": text, "shape": shape, "loss": loss.item(), "output": summary(y),
                "gradients": {n: summary(p.grad) for n, p in model.named_parameters()},
                "buffers": {n: summary(b) for n, b in model.named_buffers()}}
        model.eval()
        with torch.no_grad():
            case["eval_loss"] = nn.functional.mse_loss(model(x), target).item()
        out.append(case)
    return out


LOSSES = [("cross_entropy", {}), ("cross_entropy", {"label_smoothing": 0.1}),
          ("cross_entropy", {"label_smoothing": 0.2, "ignore_index": 1}), ("mse", {}), ("bce_with_logits", {}),
          ("l1", {}), ("huber", {}), ("huber", {"delta": 0.3}), ("smooth_l1", {"delta": 0.4}),
          ("mse", {"masked": True}), ("l1", {"masked": True}), ("huber", {"delta": 0.3, "masked": True}),
          ("smooth_l1", {"delta": 0.4, "masked": True}), ("bce_with_logits", {"masked": True}),
          ("cross_entropy", {"picture": True}), ("cross_entropy", {"picture": True, "ignore_index": 2}),
          ("cross_entropy", {"picture": True, "ignore_index": 0, "label_smoothing": 0.1}), ("l1", {"picture": True, "masked": True})]


def losses():
    functions = {"mse": nn.functional.mse_loss, "bce_with_logits": nn.functional.binary_cross_entropy_with_logits,
                 "l1": nn.functional.l1_loss, "huber": nn.functional.huber_loss, "smooth_l1": nn.functional.smooth_l1_loss}
    out = []
    for name, options in LOSSES:
        picture = "picture" in options
        model = Net([C(6, 4, 3, padding=1)] if picture else [L(6, 4)]).double()
        set_weights(model)
        # 9 x 13 places: more than one block of the loops, and the last not a whole one.
        y = model(data((9, 6, 9, 13) if picture else (9, 6)) * 4)
        given = {k: v for k, v in options.items() if k in ("label_smoothing", "ignore_index")}
        if name == "cross_entropy":
            target = labels(y.numel() // 4, 4).reshape(y[:, 0].shape)
            loss = nn.functional.cross_entropy(y, target, **given)
        else:
            target = data(y.shape, step=7)
            if name == "bce_with_logits":
                target = (target + 1) / 2
            if "delta" in options:
                given = {"beta" if name == "smooth_l1" else "delta": options["delta"]}
            if "masked" in options:
                valid = labels(y.numel(), 3, 5).reshape(y.shape) > 0
                y, target = y[valid], target[valid]
            loss = functions[name](y, target, **given)
        loss.backward()
        out.append({"loss": name, **options, "value": loss.item(),
                    "gradients": {n: summary(p.grad) for n, p in model.named_parameters()}})
    return out


OPTIMIZERS = [
    ("sgd", {"lr": 0.1}), ("sgd", {"lr": 0.1, "momentum": 0.9}),
    ("sgd", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("sgd", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("adam", {"lr": 0.01}), ("adam", {"lr": 0.02, "weight_decay": 0.1, "beta1": 0.8, "beta2": 0.99, "eps": 1e-6}),
    ("adamw", {"lr": 0.01}), ("adamw", {"lr": 0.02, "weight_decay": 0.3}),
]


def optimizers():
    out = []
    for name, options in OPTIMIZERS:
        model = Net([L(6, 5), nn.ReLU(), L(5, 4)]).double()
        set_weights(model)
        o = {k: v for k, v in options.items() if k not in ("beta1", "beta2")}
        if "beta1" in options:
            o["betas"] = (options["beta1"], options["beta2"])
        kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
        # Group 0: all others; group 1: the last layer's weight, with values of its own.
        own = [model._modules["2"].weight]
        rest = [p for p in model.parameters() if p is not own[0]]
        opt = kind([{"params": rest}, {"params": own, "lr": options["lr"] * 2, "weight_decay": 0.02}], **o)
        values = []
        for step in range(6):
            opt.zero_grad()
            # Two micro-batches, then clipping by norm.
            for micro in range(2):
                x = data((BATCH, 6), step=10 * step + micro)
                (nn.functional.cross_entropy(model(x), labels(BATCH, 4, 10 * step + micro)) / 2).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.3).item()
            opt.step()
            values.append(norm)
        out.append({"name": name, **options, "norms": values,
                    "weights": {n: summary(p) for n, p in model.named_parameters()}})
    return out


def schedules():
    cases = [
        ("constant", {}, lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: 1.0)),
        ("step", {"step_size": 4, "gamma": 0.5}, lambda o: torch.optim.lr_scheduler.StepLR(o, 4, 0.5)),
        ("multi_step", {"milestones": "3, 5, 11", "gamma": 0.3},
         lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [3, 5, 11], 0.3)),
        ("exponential", {"gamma": 0.9}, lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9)),
        ("cosine", {"t_max": 15, "eta_min": 0.01}, lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 15, 0.01)),
        ("one_cycle", {"total_steps": 16, "max_lr": 0.5},
         lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=16)),
        ("constant", {"warmup_steps": 5, "warmup_start": 0.2},
         lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.2, 1.0, 5)),
        ("cosine", {"t_max": 12, "warmup_steps": 4, "warmup_start": 0.1},
         lambda o: torch.optim.lr_scheduler.SequentialLR(
             o, [torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 4), torch.optim.lr_scheduler.CosineAnnealingLR(o, 12)],
             [4])),
    ]
    out = []
    for name, options, make in cases:
        p = nn.Parameter(torch.zeros(1))
        opt = torch.optim.SGD([p], lr=0.3, momentum=0.9)
        s = make(opt)
        lr, momentum = [], []
        for _ in range(16):
            lr.append(opt.param_groups[0]["lr"])
            momentum.append(opt.param_groups[0]["momentum"])
            opt.step()
            if len(lr) < 16:
                s.step()
        out.append({"name": name, **options, "lr": lr, "momentum": momentum})
    p = nn.Parameter(torch.zeros(1))
    opt = torch.optim.SGD([p], lr=0.3)
    s = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=1, cooldown=2, min_lr=0.02, threshold=0.01)
    metrics = [1.0, 0.9, 0.895, 0.894, 0.893, 0.892, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
    lr = []
    for m in metrics:
        s.step(m)
        lr.append(opt.param_groups[0]["lr"])
    out.append({"name": "reduce_on_plateau", "factor": 0.5, "patience": 1, "cooldown": 2, "min_lr": 0.02,
                "threshold": 0.01, "metrics": metrics, "lr": lr})
    return out


def run(model, shape, steps, batch, lr, classes, fixed):
    """Losses of some steps of SGD in float32, every step with a batch of its own unless `fixed`.

    ResNets keep theirs: with changing ones float32 and float64 part by more than a percent within ten steps.
    """
    model = model.float().train()
    set_weights(model)
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    out = []
    for step in (0 if fixed else i for i in range(steps)):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(data((batch, *shape), torch.float32, step)),
                                           labels(batch, classes, step))
        loss.backward()
        opt.step()
        out.append(loss.item())
    return out


def runs():
    mlp = Net([nn.Flatten(), L(784, 128), nn.ReLU(), L(128, 64), nn.ReLU(), L(64, 10)])
    lenet = Net(OPS[-1][2]()[:-1] + [("fc3", L(84, 10))])
    resnet = torchvision.models.resnet18(num_classes=10)
    resnet.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    resnet.maxpool = nn.Identity()
    resnet50 = torchvision.models.resnet50(num_classes=5)
    cases = [("mlp(128, 64, 10)", mlp, (1, 28, 28), 50, 64, 0.1, 10, False), ("lenet", lenet, (1, 28, 28), 50, 32, 0.05, 10, False),
             ("resnet18(10, cifar)", resnet, (3, 32, 32), 10, 8, 0.0005, 10, True),
             ("resnet50(5)", resnet50, (3, 40, 40), 1, 4, 0.0001, 5, True)]
    return [{"layers": text, "shape": shape, "batch": batch, "lr": lr, "classes": classes,
             "fixed": fixed, "losses": run(model, shape, steps, batch, lr, classes, fixed)}
            for text, model, shape, steps, batch, lr, classes, fixed in cases]


def backbone_rates(epochs, lr, gamma, unfreeze, ratio, multiplier):
    """Rates of head and backbone at each epoch: StepLR(1, gamma), and BackboneFinetuning of Lightning."""
    rates, backbone = [], None
    for epoch in range(epochs):
        head = lr * gamma ** epoch
        if epoch == unfreeze:
            backbone = head * ratio
        elif epoch > unfreeze:
            backbone = min(multiplier * backbone, head)
        rates.append((head, backbone))
    return rates


def finetuning():
    """A torchvision ResNet-18 whose backbone is frozen at first, its batch norms in eval mode; float64."""
    out = []
    for name, options in [("adam", {"lr": 1e-3, "weight_decay": 0.01}), ("sgd", {"lr": 0.01, "momentum": 0.9})]:
        model = torchvision.models.resnet18(num_classes=5).double().train()
        set_weights(model)
        head = list(model.fc.parameters())
        backbone = [p for n, p in model.named_parameters() if not n.startswith("fc.")]
        norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
        kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name]
        opt = kind(head, **options)
        for p in backbone:
            p.requires_grad_(False)
        for m in norms:
            m.eval()
        case = {"name": name, **options, "gamma": 0.5, "unfreeze": 1, "ratio": 0.1, "multiplier": 2, "losses": [],
                "rates": backbone_rates(4, options["lr"], 0.5, 1, 0.1, 2)}
        x, y = data((8, 3, 32, 32)), labels(8, 5)
        for epoch, (lr, own) in enumerate(case["rates"]):
            if epoch == case["unfreeze"]:
                for p in backbone:
                    p.requires_grad_(True)
                for m in norms:
                    m.train()
                opt.add_param_group({"params": backbone})
            opt.param_groups[0]["lr"] = lr
            if own is not None:
                opt.param_groups[1]["lr"] = own
            for at in (0, 4):
                opt.zero_grad()
                loss = nn.functional.cross_entropy(model(x[at:at + 4]), y[at:at + 4])
                loss.backward()
                opt.step()
                case["losses"].append(loss.item())
        case["weights"] = {n: summary(p) for n, p in model.state_dict().items() if n.startswith(("fc.", "conv1", "bn1.", "layer4.1"))}
        out.append(case)
    return out


def main(folder):
    torch.set_num_threads(1)
    golden = {"ops": ops(), "losses": losses(), "optimizers": optimizers(), "schedules": schedules(), "runs": runs()}
    (pathlib.Path(folder) / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    (pathlib.Path(folder) / "finetuning.json").write_text(json.dumps(finetuning(), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
