# SPDX-License-Identifier: Apache-2.0
"""PyTorch Lightning fed by Stoker: batches from C, a run that goes on to the bit in the middle of an epoch, and what it waits
for.

    python examples/python/lightning_mnist.py --data mnist:data/mnist
    python examples/python/lightning_mnist.py --data mnist:data/mnist --resume runs/lightning_logs/version_0/checkpoints/last.ckpt

Without --data the digits are drawn.
"""
import argparse

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn

from stoker.lightning import BatchTransform, StallMonitor, StokerDataModule


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))

    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self.net(batch["image"]), batch["label"].long())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        right = self.net(batch["image"]).argmax(1) == batch["label"]
        self.log("val_acc", right.float().mean(), batch_size=len(right), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def noisy(images):
    """On the batch's device: of training batches alone."""
    return images + 0.05 * torch.randn_like(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits:", help="the spec of a dataset with the splits train and test")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--resume", help="a checkpoint to go on from")
    parser.add_argument("--output", default="runs")
    parser.add_argument("--quick", action="store_true", help="a few batches")
    given = parser.parse_args()

    seed_everything(1)
    data = StokerDataModule(train={"dataset": f"{given.data}?split=train", "shuffle": True},
                            val=f"{given.data}?split=test", batch_size=64, transforms="normalize(mnist)",
                            batch_transform=BatchTransform(noisy, fields="image"))
    trainer = Trainer(
        accelerator="auto", devices=1, max_epochs=given.epochs, default_root_dir=given.output,
        limit_train_batches=30 if given.quick else 1.0, limit_val_batches=5 if given.quick else 1.0, log_every_n_steps=10,
        logger=CSVLogger(given.output),
        callbacks=[StallMonitor(), ModelCheckpoint(every_n_train_steps=20, save_last=True, save_on_train_epoch_end=False)],
    )
    trainer.fit(model := Model(), datamodule=data, ckpt_path=given.resume)
    digest = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"val_acc {trainer.callback_metrics['val_acc'].item():.4f}, sum of weights {digest:.12f}")


if __name__ == "__main__":
    main()
