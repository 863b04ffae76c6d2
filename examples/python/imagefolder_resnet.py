# SPDX-License-Identifier: Apache-2.0
"""A ResNet-18 on a folder of pictures, on the CPU: pictures are decoded, cut and flipped in C, without worker processes.

    python examples/python/imagefolder_resnet.py --data photographs

`photographs` has a folder for each class, as torchvision's ImageFolder reads it; without --data some are drawn.
"""
import argparse
import logging
import tempfile
import time
from pathlib import Path

import torch
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from torchvision.transforms import v2

from stoker.torch import DataLoader


def draw(folder, pictures):
    """Two classes: discs and squares."""
    from PIL import Image, ImageDraw

    for shape in ("disc", "square"):
        (folder / shape).mkdir(parents=True)
        for i in range(pictures):
            picture = Image.new("RGB", (160, 120), (5 * i % 256, 90, 160))
            box = [20 + i % 30, 10 + i % 20, 90 + i % 40, 80 + i % 30]
            pen = ImageDraw.Draw(picture)
            (pen.ellipse if shape == "disc" else pen.rectangle)(box, fill=(250, 7 * i % 256, 30))
            picture.save(folder / shape / f"{i:03d}.jpg", quality=90)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with a folder for each class")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few small drawn pictures, one epoch")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")  # what the loader says of itself

    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        if given.data is None:
            given.data = Path(folder) / "drawn"
            draw(given.data, 24 if given.quick else 200)
        size = 64 if given.quick else given.size
        transform = v2.Compose([v2.RandomResizedCrop(size), v2.RandomHorizontalFlip(), v2.ToImage(),
                                v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
        pictures = ImageFolder(given.data, transform)
        loader = DataLoader(pictures, batch_size=16, shuffle=True, num_workers=2, drop_last=True)
        model = resnet18(num_classes=len(pictures.classes))
        optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
        for epoch in range(1 if given.quick else given.epochs):
            begin = time.perf_counter()
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            rate = len(loader) * 16 / (time.perf_counter() - begin)
            print(f"epoch {epoch}: {rate:.0f} pictures/s, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
