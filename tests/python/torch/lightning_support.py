# SPDX-License-Identifier: Apache-2.0
"""A model, its trainings and what they are trained on, for the tests of stoker.lightning."""
import hashlib
import logging
import random
import warnings

import numpy
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything

import stoker
from stoker.lightning import StokerDataModule

warnings.filterwarnings("ignore", module="lightning")
warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)

torch.set_num_threads(1)

TRAIN = {"dataset": "digits:?size=200", "shuffle": True, "seed": 4}  # 13 batches of 16
VAL = "digits:?size=40&split=test"


class Model(LightningModule):
    """Draws from all generators of the process in each step, and says which samples it saw."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 8), torch.nn.Dropout(0.3),
                                       torch.nn.ReLU(), torch.nn.Linear(8, 10))
        self.seen = []
        self.validated = []

    def loss(self, batch, noise):
        images = batch["image"].float() / 255 + noise + batch.get("noise", torch.zeros(1)).reshape(-1, 1, 1, 1)
        return torch.nn.functional.cross_entropy(self.net(images), batch["label"].long())

    def training_step(self, batch, batch_idx):
        self.seen.append(batch["index"].tolist())
        return self.loss(batch, 1e-2 * (random.random() + numpy.random.rand() + torch.rand(1)))

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.validated.append((dataloader_idx, batch["index"].tolist()))
        self.log("val_loss", self.loss(batch, 0))

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return batch["index"]

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)

    def digest(self):
        values = b"".join(value.numpy().tobytes() for value in self.state_dict().values())
        return hashlib.sha256(values).hexdigest()


def train(data, folder, ckpt=None, callbacks=(), **options):
    seed_everything(3, verbose=False)
    model = Model()
    options = {"max_epochs": 3, "num_sanity_val_steps": 0} | options
    trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                      enable_model_summary=False, default_root_dir=folder, callbacks=list(callbacks), **options)
    trainer.fit(model, datamodule=data, ckpt_path=ckpt)
    return model


def digits():
    with stoker.Loader("digits:?size=120", batch_size=120) as loader:
        return next(iter(loader))


class Places(torch.utils.data.Dataset):
    def __init__(self):
        self.all = digits()

    def __len__(self):
        return len(self.all["index"])

    def __getitem__(self, place):
        return {"image": self.all["image"][place].copy(), "label": self.all["label"][place].item(), "index": place,
                "noise": torch.rand(1)}


class Stateful:
    """The least that has a state: an order of each epoch from a generator of its own."""

    def __init__(self, length=True):
        self.generator = torch.Generator().manual_seed(8)
        self.before = self.generator.get_state()
        self.places = Places()
        self.step = 0
        self.loaded = False
        if not length:
            self.__class__ = Endless

    def __iter__(self):
        if not self.loaded:
            self.before, self.step = self.generator.get_state(), 0
        self.generator.set_state(self.before)
        self.loaded = False
        order = torch.randperm(len(self.places), generator=self.generator).tolist()
        while self.step < 8:
            self.step += 1
            yield torch.utils.data.default_collate([self.places[i] for i in order[15 * self.step - 15:15 * self.step]])

    def state_dict(self):
        return {"before": self.before, "step": self.step}

    def load_state_dict(self, state):
        self.before, self.step, self.loaded = state["before"], state["step"], state["step"] < 8
        self.generator.set_state(self.before)
        if not self.loaded:
            torch.randperm(len(self.places), generator=self.generator)


class Sized(Stateful):
    def __len__(self):
        return 8


class Endless(Stateful):
    pass


def spec(**options):
    return lambda: StokerDataModule(train=TRAIN | options, val=VAL, batch_size=16)
