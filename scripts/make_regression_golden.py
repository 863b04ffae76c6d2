#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/train/regression: small data sets, the weights a training begins with, and what PyTorch comes to.

usage: make_regression_golden.py FOLDER

Each case is two epochs of SGD over the same 48 samples in their order, 20 a batch (the last one is shorter), then a
validation over the same samples: the means of its losses weigh every sample alike. Of windows with a mask, 4 a batch,
only values count that are there; one batch has none. metrics.json has what torchmetrics gives before any training.
"""
import json
import pathlib
import sys

import numpy as np
import torch
import torchmetrics
from safetensors.numpy import load_file, save_file
from torch import nn

SAMPLES, BATCH, EPOCHS, LR = 48, 20, 2, 0.05
LOSSES = {"mse": nn.functional.mse_loss, "l1": nn.functional.l1_loss,
          "huber": lambda y, t: nn.functional.huber_loss(y, t, delta=0.5),
          "smooth_l1": lambda y, t: nn.functional.smooth_l1_loss(y, t, beta=0.5)}
TARGETS = ["float16", "float32", "float64", "int32"]


def net(outputs, weights):
    model = nn.Sequential(nn.Flatten(), nn.Linear(weights["1.weight"].shape[1], 8), nn.ReLU(), nn.Linear(8, outputs)).double()
    model.load_state_dict({k: torch.from_numpy(v.astype(np.float64)) for k, v in weights.items()})
    return model


def train(x, y, loss_of, weights):
    outputs = 1 if y.dim() == 1 else y[0].numel()
    model = net(outputs, weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    loss = lambda rows: loss_of(model(x[rows]).reshape(y[rows].shape), y[rows])
    for _ in range(EPOCHS):
        for first in range(0, SAMPLES, BATCH):
            optimizer.zero_grad()
            loss(slice(first, first + BATCH)).backward()
            optimizer.step()
    with torch.no_grad():
        return loss(slice(0, SAMPLES)).item()


MASKED = {"mse": lambda d: d ** 2, "l1": torch.abs,
          "huber": lambda d: torch.where(d.abs() <= 0.5, d ** 2 / 2, 0.5 * (d.abs() - 0.25))}


def train_masked(series, kind, weights):
    """Three steps in, the next out; what is missing is 0 among the inputs, and does not count in the target."""
    windows = series.unfold(0, 4, 1).transpose(1, 2)
    x, y = windows[:, :3].nan_to_num(0.0), windows[:, 3]
    model = net(3, weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

    def loss(rows):
        valid = ~y[rows].isnan()
        errors = MASKED[kind](model(x[rows]) - y[rows].nan_to_num(0.0))
        return (errors * valid).sum() / max(int(valid.sum()), 1)

    for _ in range(EPOCHS):
        for first in range(0, len(x), 4):
            optimizer.zero_grad()
            loss(slice(first, first + 4)).backward()
            optimizer.step()
    with torch.no_grad():
        return loss(slice(0, len(x))).item()


def metrics(folder, x, y, r):
    """What torchmetrics gives for models that are not trained, over all samples at once."""
    cases = []
    rows = torch.from_numpy(x.astype(np.float64))

    def case(dataset, outputs, weights, loss, values, **more):
        cases.append({"dataset": dataset, "outputs": outputs, "weights": weights, "loss": loss, "metrics": values, **more})

    for outputs in (1, 3):
        target = torch.from_numpy(y[:, :outputs].astype(np.float32).astype(np.float64)).squeeze(1)
        weights = load_file(folder / f"weights_{outputs}.safetensors")
        with torch.no_grad():
            given = net(outputs, weights)(rows).reshape(target.shape)
        of = {"mae": torchmetrics.MeanAbsoluteError(), "rmse": torchmetrics.MeanSquaredError(squared=False),
              "r2": torchmetrics.R2Score()}
        case(["npy:", f"x.npy?labels=float32_{outputs}.npy"], outputs, f"weights_{outputs}.safetensors", "l1",
             {k: m.double()(given, target).item() for k, m in of.items()})
    # Six classes: one is neither there nor predicted, and there are labels that do not count.
    weights = {"1.weight": r.normal(size=(8, 4)), "1.bias": r.normal(size=8), "3.weight": r.normal(size=(6, 8)),
               "3.bias": np.array([1.5, -1, 2, 0, -2, -50.0])}
    weights = {k: v.astype(np.float32) for k, v in weights.items()}
    save_file(weights, folder / "weights_6.safetensors")
    labels = np.minimum(r.integers(0, 7, SAMPLES), 4).astype(np.int32)
    with torch.no_grad():
        given = net(6, weights)(rows)
    labels = np.where(r.random(SAMPLES) < 0.5, given.argmax(1).numpy(), labels).astype(np.int32)
    np.save(folder / "classes.npy", labels)
    target = torch.from_numpy(labels.astype(np.int64))
    for ignored in (-100, 2):
        to = {"num_classes": 6, "ignore_index": ignored}
        of = {"acc": torchmetrics.classification.MulticlassAccuracy(average="micro", **to),
              "f1": torchmetrics.classification.MulticlassF1Score(average="macro", **to),
              "f1_micro": torchmetrics.classification.MulticlassF1Score(average="micro", **to)}
        matrix = torchmetrics.classification.MulticlassConfusionMatrix(**to)(given, target)
        case(["npy:", "x.npy?labels=classes.npy"], 6, "weights_6.safetensors", "cross_entropy",
             {k: m(given, target).item() for k, m in of.items()}, ignore_index=ignored, matrix=matrix.tolist())
    # Yes and no: of one output, and of three.
    yes = np.random.default_rng(8)
    for outputs in (1, 3):
        weights = load_file(folder / f"weights_{outputs}.safetensors")
        with torch.no_grad():
            given = net(outputs, weights)(rows).squeeze(1)
        right = yes.random(given.shape) < 0.8
        labels = ((given.numpy() > 0) == right).astype(np.float32)
        np.save(folder / f"binary_{outputs}.npy", labels)
        target = torch.from_numpy(labels.astype(np.int64))
        of = torchmetrics.classification.BinaryAccuracy() if outputs == 1 else \
            torchmetrics.classification.MultilabelAccuracy(num_labels=outputs)
        case(["npy:", f"x.npy?labels=binary_{outputs}.npy"], outputs, f"weights_{outputs}.safetensors",
             "bce_with_logits", {"acc": of(given.sigmoid(), target).item()})
    # Windows of yes and no with gaps, which do not count.
    series = (yes.random((43, 3)) < 0.5).astype(np.float32)
    series[yes.random(series.shape) < 0.3] = np.nan
    np.save(folder / "binary_series.npy", series)
    windows = torch.from_numpy(series.astype(np.float64)).unfold(0, 4, 1).transpose(1, 2)
    with torch.no_grad():
        given = net(3, load_file(folder / "weights_series.safetensors"))(windows[:, :3].nan_to_num(0.0))
    of = torchmetrics.classification.BinaryAccuracy(ignore_index=-1)
    case(["array:", "binary_series.npy?input=3&target=1&time=0&stride=0:1&nan=mask"], 3, "weights_series.safetensors",
         "bce_with_logits", {"acc": of(given.sigmoid(), windows[:, 3].nan_to_num(-1.0).long()).item()})
    (folder / "metrics.json").write_text(json.dumps(cases, indent=1) + "\n")


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    r = np.random.default_rng(7)
    x = r.normal(size=(SAMPLES, 4)).astype(np.float32)
    y = x @ r.normal(size=(4, 3)) + 0.1 * r.normal(size=(SAMPLES, 3))
    np.save(folder / "x.npy", x)
    cases = []
    for outputs in (1, 3):
        weights = {"1.weight": r.normal(size=(8, 4)) / 2, "1.bias": r.normal(size=8) / 2,
                   "3.weight": r.normal(size=(outputs, 8)) / 3, "3.bias": r.normal(size=outputs) / 3}
        weights = {k: v.astype(np.float32) for k, v in weights.items()}
        save_file(weights, folder / f"weights_{outputs}.safetensors")
        for dtype in TARGETS:
            target = (y[:, 0] if outputs == 1 else y).astype(dtype)
            name = f"{dtype}_{outputs}.npy"
            np.save(folder / name, target)
            for loss, function in LOSSES.items():
                value = train(torch.from_numpy(x.astype(np.float64)), torch.from_numpy(target.astype(np.float64)),
                              function, weights)
                cases.append({"dataset": ["npy:", "x.npy?labels=" + name], "outputs": outputs, "batch": BATCH,
                              "weights": f"weights_{outputs}.safetensors", "loss": loss, "val_loss": value})
    series = r.normal(size=(43, 3)).astype(np.float32)
    series[r.random(series.shape) < 0.2] = np.nan
    series[15:19] = np.nan  # the targets of windows 12 to 15: one batch
    np.save(folder / "series.npy", series)
    weights = {"1.weight": r.normal(size=(8, 9)) / 3, "1.bias": r.normal(size=8) / 2, "3.weight": r.normal(size=(3, 8)) / 3,
               "3.bias": r.normal(size=3) / 3}
    weights = {k: v.astype(np.float32) for k, v in weights.items()}
    save_file(weights, folder / "weights_series.safetensors")
    for loss in MASKED:
        value = train_masked(torch.from_numpy(series.astype(np.float64)), loss, weights)
        cases.append({"dataset": ["array:", "series.npy?input=3&target=1&time=0&stride=0:1&nan=mask"], "outputs": 3,
                      "batch": 4, "weights": "weights_series.safetensors", "loss": loss, "val_loss": value})
    metrics(folder, x, y, r)
    (folder / "golden.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
