# SPDX-License-Identifier: Apache-2.0
"""The loop of the well-known MNIST article, with PyTorch's DataLoader or with Stoker's: one import differs, nothing else.

    python examples/python/mnist.py --data data --loader torch
    python examples/python/mnist.py --data data --loader stoker

`data` is torchvision's root (data/MNIST/raw); without --data drawn digits take its place. Order and seeds are the same. Stoker
reads MNIST in C, where pixels differ by rounding (4e-7), and so does the accuracy a little; with --exact it runs the dataset's
Python in its workers, and all is the same to the bit.
"""
import argparse
import time

import torch
from torch import nn


def datasets(root, quick):
    """Training and test set."""
    if root:
        from torchvision import datasets, transforms

        transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
        return tuple(datasets.MNIST(root, train=train, transform=transform) for train in (True, False))
    return tuple(drawn(part, size) for part, size in (("train", 2000 if quick else 20000), ("test", 1000)))


def drawn(part, size):
    import stoker

    with stoker.Loader(f"digits:?size={size}&split={part}", batch_size=size, output="torch") as loader:
        batch = next(iter(loader))
        images = (batch["image"].float() / 255).reshape(-1, 1, 28, 28)
        return torch.utils.data.TensorDataset(images, batch["label"].long())


def accuracy(model, loader):
    model.eval()
    with torch.inference_mode():
        right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    model.train()
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="root of torchvision's MNIST")
    parser.add_argument("--loader", choices=("stoker", "torch"), default="stoker")
    parser.add_argument("--exact", action="store_true", help="nothing of Stoker's in C but the workers")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few drawn digits, one epoch")
    given = parser.parse_args()

    if given.loader == "torch":
        from torch.utils.data import DataLoader
    else:
        from stoker.torch import DataLoader  # the import that is changed

    options = {"native": False} if given.exact and given.loader == "stoker" else {}
    torch.manual_seed(42)
    train, test = datasets(given.data, given.quick)
    loader = DataLoader(train, batch_size=64, shuffle=True, num_workers=given.workers, **options)
    held_out = DataLoader(test, batch_size=256, num_workers=given.workers, **options)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(1 if given.quick else given.epochs):
        begin = time.perf_counter()
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        took = time.perf_counter() - begin
        print(f"epoch {epoch}: {took:.2f} s, loss {loss.item():.6f}, accuracy {accuracy(model, held_out):.4f}")


if __name__ == "__main__":
    main()
