# SPDX-License-Identifier: Apache-2.0
"""stoker.lightning: a run that goes on is the run that was not interrupted; loaders as the trainer wants them."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy
import torch
from lightning.pytorch import Callback, Trainer, seed_everything
from torch.utils.data import DataLoader, TensorDataset

import stoker
import stoker.torch
from lightning_support import TRAIN, VAL, Endless, Model, Places, Sized, digits, spec, train
from stoker.lightning import BatchTransform, StokerDataModule


class Save(Callback):
    """Keeps the checkpoint of one moment."""

    def __init__(self, path, hook, step):
        self.path, self.step = path, step
        self.seen = None  # batches that were trained on
        setattr(self, hook, self.save)

    def save(self, trainer, model, *_):
        if trainer.global_step == self.step and self.seen is None:
            trainer.save_checkpoint(self.path)
            self.seen = len(model.seen)


def torchs(workers, **options):
    """With a sampler that draws from the training's generator, or one of its own."""
    def data():
        if "generator" in options:
            options["generator"] = torch.Generator().manual_seed(6)
        return StokerDataModule(train=stoker.torch.DataLoader(Places(), batch_size=16, shuffle=True, num_workers=workers,
                                                              native=False, **options), val=VAL, batch_size=16)
    return data


def in_c():
    """A dataset of PyTorch that is read in C."""
    batch = digits()
    tensors = TensorDataset(torch.from_numpy(batch["image"]), torch.from_numpy(batch["label"].astype("int64")),
                            torch.arange(120))
    loader = stoker.torch.DataLoader(tensors, batch_size=16, shuffle=True, native=True)
    named = BatchTransform(lambda batch: dict(zip(("image", "label", "index"), batch)))
    return StokerDataModule(train=loader, batch_transform=named)


# Name: the data, the data it goes on with, the hook and step that save, options of the trainer.
RESUMES = {
    "in the middle of an epoch": (spec(), spec(num_workers=0), "on_train_batch_end", 20, {}),
    "before the first batch": (spec(), spec(), "on_train_start", 0, {}),
    "behind the last batch": (spec(), spec(), "on_train_batch_end", 13, {}),
    "behind an epoch": (spec(), spec(), "on_train_epoch_end", 26, {}),
    "behind an epoch of max_steps": (spec(), spec(), "on_train_epoch_end", 13, {"max_epochs": -1, "max_steps": 30}),
    "of max_steps": (spec(), spec(), "on_train_batch_end", 17, {"max_epochs": -1, "max_steps": 30}),
    "behind a validation": (spec(), spec(), "on_validation_end", 18, {"val_check_interval": 5}),
    "in epochs cut short": (spec(), spec(), "on_train_batch_end", 7, {"limit_train_batches": 5}),
    "behind one cut short": (spec(), spec(), "on_train_batch_end", 5, {"limit_train_batches": 5}),
    "behind one cut to a share": (spec(), spec(), "on_train_epoch_end", 6, {"limit_train_batches": 0.5}),
    "of several batches a step": (spec(), spec(), "on_train_batch_end", 10, {"accumulate_grad_batches": 2}),
    "of a loader": (lambda: StokerDataModule(train=stoker.Loader(TRAIN["dataset"], shuffle=True, batch_size=16)), ) * 2
    + ("on_train_batch_end", 15, {}),
    "of a stateful loader": (lambda: StokerDataModule(train=Sized()),) * 2 + ("on_train_batch_end", 11, {}),
    "behind its epoch": (lambda: StokerDataModule(train=Sized()),) * 2 + ("on_train_epoch_end", 8, {}),
    "behind its last batch": (lambda: StokerDataModule(train=Sized()),) * 2 + ("on_train_batch_end", 16, {}),
    "behind its epoch cut short": (lambda: StokerDataModule(train=Sized()),) * 2
    + ("on_train_epoch_end", 5, {"limit_train_batches": 5}),
    "of one without a length": (lambda: StokerDataModule(train=Endless()),) * 2 + ("on_train_batch_end", 11, {}),
    "of torch's in this process": (torchs(0),) * 2 + ("on_train_batch_end", 11, {}),
    "of torch's with workers": (torchs(2),) * 2 + ("on_train_batch_end", 11, {}),
    "of another number of workers": (torchs(2, rng="stoker"), torchs(1, rng="stoker"), "on_train_batch_end", 11, {}),
    "of torch's with a generator": (torchs(2, generator=True),) * 2 + ("on_train_batch_end", 11, {}),
    "of torch's behind an epoch": (torchs(0, generator=True),) * 2 + ("on_train_epoch_end", 8, {}),
    "of torch's behind the last batch": (torchs(0, generator=True),) * 2 + ("on_train_batch_end", 16, {}),
    "of torch's behind an epoch cut short": (torchs(0, generator=True),) * 2
    + ("on_train_epoch_end", 10, {"limit_train_batches": 5}),
    "of torch's in C": (in_c,) * 2 + ("on_train_batch_end", 11, {}),
    "of torch's in C behind an epoch": (in_c,) * 2 + ("on_train_epoch_end", 8, {}),
    "of one of a function": (lambda: StokerDataModule(train=Sized),) * 2 + ("on_train_batch_end", 11, {}),
}


class Resume(unittest.TestCase):
    def test_the_rest_of_a_run_in_another_process(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = {}
            for number, (name, (data, _, hook, step, options)) in enumerate(RESUMES.items()):
                save = Save(f"{folder}/{number}.ckpt", hook, step)
                model = train(data(), folder, callbacks=[save], **options)
                whole[name] = [model.digest(), model.seen[save.seen:]]
            done = subprocess.run([sys.executable, __file__, "resume", folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            rest = json.loads(done.stdout.splitlines()[-1])
        for name, (digest, seen) in whole.items():
            with self.subTest(name):
                self.assertGreater(len(seen), 0)
                self.assertEqual(rest[name][1], seen)
                self.assertEqual(rest[name][0], digest)


def ranks(folder):
    """Which samples each of two processes is given, and what a checkpoint of them has."""
    data = spec()()
    save = Save(f"{folder}/ranks.ckpt", "on_train_batch_end", 3)
    model = train(data, folder, callbacks=[save, Tell(folder)], strategy="ddp_fork", devices=2, max_epochs=1)
    return model


class Tell(Callback):
    def __init__(self, folder):
        self.folder = folder

    def on_train_end(self, trainer, model):
        Path(f"{self.folder}/{trainer.global_rank}.json").write_text(json.dumps([model.seen, model.validated]))


class Loaders(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_epochs_follow_the_order_of_the_loader(self):
        model = train(spec()(), self.folder, max_epochs=2)
        with stoker.Loader(batch_size=16, **TRAIN) as loader:
            expected = [batch["index"].tolist() for _ in range(2) for batch in loader]
        self.assertEqual(model.seen, expected)

    def test_validation_is_the_same_each_time(self):
        model = train(StokerDataModule(train=TRAIN, val=[VAL, {"dataset": VAL, "batch_size": 40}], batch_size=16),
                      self.folder, max_epochs=2, num_sanity_val_steps=1)
        whole = [(0, list(range(16))), (0, list(range(16, 32))), (0, list(range(32, 40))), (1, list(range(40)))]
        self.assertEqual(model.validated, [whole[0], whole[3]] + 2 * whole)

    def test_of_a_function_anew_when_lightning_asks(self):
        made = []

        def make():
            made.append(stoker.Loader(batch_size=16, **TRAIN))
            return made[-1]

        model = train(StokerDataModule(train=make), self.folder, reload_dataloaders_every_n_epochs=1)
        self.assertEqual(len(made), 3)
        self.assertEqual(model.seen, train(spec()(), self.folder).seen)

    def test_batches_learnt_by_heart(self):
        for data in (spec()(), StokerDataModule(train=DataLoader(Places(), shuffle=True, batch_size=16))):
            model = train(data, self.folder, overfit_batches=2)
            self.assertEqual(model.seen, 3 * model.seen[:2])

    def test_predictions(self):
        model = Model()
        trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir=self.folder)
        data = StokerDataModule(predict=["digits:?size=40", DataLoader(Places(), batch_size=16)], batch_size=16)
        first, second = trainer.predict(model, datamodule=data)
        self.assertEqual(torch.cat(first).tolist(), list(range(40)))
        self.assertEqual(torch.cat(second).tolist(), list(range(120)))

    def test_one_of_torch_is_left_to_lightning(self):
        loader = DataLoader(Places(), batch_size=16)
        model = train(StokerDataModule(train=loader), self.folder, max_epochs=1)
        self.assertIs(model.trainer.train_dataloader, loader)

    def test_several_at_once(self):
        class Both(Model):
            def training_step(self, batch, batch_idx):
                self.seen.append([len(batch["a"]["label"]), len(batch["b"]["label"])])
                return self.loss(batch["a"], 0)

        seed_everything(3, verbose=False)
        model = Both()
        data = StokerDataModule(train={"a": TRAIN, "b": {"dataset": "digits:?size=21", "batch_size": 10}}, batch_size=16)
        Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, max_epochs=1,
                enable_model_summary=False, default_root_dir=self.folder).fit(model, datamodule=data)
        self.assertEqual(model.seen[:4], [[16, 10], [16, 10], [16, 1], [16, 10]])
        self.assertEqual(len(model.seen), 13)

    def test_ranks_share_the_samples(self):
        done = subprocess.run([sys.executable, __file__, "ranks", self.folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen, validated = zip(*(json.loads(Path(f"{self.folder}/{rank}.json").read_text()) for rank in (0, 1)))
        samples = [sample for rank in seen for batch in rank for sample in batch]
        self.assertEqual(sorted(samples), list(range(200)))
        self.assertEqual({len(rank) for rank in seen}, {7})
        self.assertEqual(sorted(sample for rank in validated for _, batch in rank for sample in batch), list(range(40)))
        states = torch.load(f"{self.folder}/ranks.ckpt", weights_only=True)["StokerDataModule"]["random"]
        self.assertEqual(len(states), 2)

    def test_ended_with_the_run(self):
        data = spec()()
        train(data, self.folder, max_epochs=1)
        loader = data.trainer.train_dataloader.loader
        with self.assertRaisesRegex(RuntimeError, "closed"):
            loader.num_samples

    def test_what_is_no_source(self):
        loader = DataLoader(Places())
        for sources, kind, words in (
                ({"train": 3}, TypeError, "train is a int"),
                ({"val": [VAL, numpy.zeros(3)]}, TypeError, "val is a ndarray"),
                ({}, stoker.InvalidError, "nothing to load: give some of train, val"),
                ({"trian": TRAIN}, stoker.InvalidError, "unknown option 'trian'; did you mean 'train'"),
                ({"train": loader, "trian": TRAIN}, stoker.InvalidError, "unknown option 'trian'"),
                ({"train": TRAIN, "batchsize": 3}, stoker.InvalidError, "unknown option 'batchsize'; did you mean 'batch_size'"),
                ({"train": {"a": TRAIN | {"shufle": True}}}, stoker.InvalidError, "unknown option 'shufle'; did you mean 'shuffle'"),
                ({"train": loader, "val": [loader], "batch_size": 3}, stoker.InvalidError, "batch_size: options are for specs"),
                ({"train": TRAIN, "batch_transform": abs}, TypeError, "give BatchTransform.function."),
                ({"train": TRAIN, "batch_transform": [3]}, TypeError, "batch_transform has a int")):
            with self.assertRaisesRegex(kind, words):
                StokerDataModule(**sources)
        with self.assertRaisesRegex(TypeError, "train is a int"):
            train(StokerDataModule(train=lambda: 3, batch_size=16), self.folder)
        with self.assertRaisesRegex(stoker.InvalidError, "did you mean 'block'"):
            train(StokerDataModule(train=TRAIN | {"shuffle": "bloc"}), self.folder)

    def test_printed(self):
        self.assertEqual(str(StokerDataModule(val=VAL)), f"StokerDataModule(val={VAL!r})")


class Transforms(unittest.TestCase):
    def run_with(self, *transforms, **sources):
        with tempfile.TemporaryDirectory() as folder:
            sources = {"train": TRAIN, "val": VAL} | sources
            return train(StokerDataModule(**sources, batch_size=16, batch_transform=transforms), folder, max_epochs=1)

    def test_of_training_batches_alone(self):
        def other(batch):
            self.assertFalse(torch.is_grad_enabled())
            return batch | {"index": batch["index"].long() + 1000}

        model = self.run_with(BatchTransform(other))
        self.assertGreaterEqual(min(min(batch) for batch in model.seen), 1000)
        self.assertLess(max(max(batch) for _, batch in model.validated), 1000)

    def test_of_fields_and_stages_in_order(self):
        model = self.run_with(BatchTransform(lambda index: index.long() + 1000, fields="index", stages=("train", "val")),
                              BatchTransform(lambda index: 2 * index, fields=["index"], stages="val"))
        self.assertEqual(sorted(sum(model.seen, [])), list(range(1000, 1200)))
        self.assertEqual(model.validated[-1][1], [2000 + 2 * i for i in range(32, 40)])

    def test_of_a_tuple(self):
        batch = (torch.ones(2), torch.zeros(2))
        first, second = BatchTransform(lambda value: value + 1, fields=0)(batch)
        self.assertEqual((first.tolist(), second.tolist()), ([2, 2], [0, 0]))

    def test_behind_it_the_hook_of_the_model(self):
        class Own(Model):
            def on_after_batch_transfer(self, batch, dataloader_idx):
                return batch | {"index": 2 * batch["index"]}

        with tempfile.TemporaryDirectory() as folder:
            data = StokerDataModule(train=TRAIN, batch_size=16, batch_transform=BatchTransform(
                lambda index: index.long() + 1000, fields="index"))
            model = Own()
            Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, max_epochs=1,
                    enable_model_summary=False, default_root_dir=folder).fit(model, datamodule=data)
        self.assertEqual(sorted(sum(model.seen, [])), list(range(2000, 2400, 2)))

    def test_of_no_such_stage(self):
        with self.assertRaisesRegex(ValueError, "validation"):
            BatchTransform(abs, stages=("train", "validation"))

    def test_of_what_is_none(self):
        with self.assertRaisesRegex(TypeError, "the transform is a int"):
            BatchTransform(3)
        with self.assertRaises(TypeError):
            BatchTransform(abs, fields=2.5)

    def test_of_no_such_field(self):
        with self.assertRaisesRegex(stoker.InvalidError, "fields has 'imgae'.* it has 'image', 'label'"):
            BatchTransform(abs, fields=["label", "imgae"])({"image": torch.ones(2), "label": torch.ones(2)})
        for batch in ((torch.ones(2), torch.zeros(2)), [torch.ones(2), torch.zeros(2)]):
            for field in (2, -3, "image"):
                with self.assertRaisesRegex(stoker.InvalidError, f"fields has {field!r}.* it has places 0 to 1"):
                    BatchTransform(abs, fields=field)(batch)
            self.assertEqual(BatchTransform(torch.neg, fields=-2)(batch)[0].tolist(), [-1, -1])


class Recreated(unittest.TestCase):
    """stoker.torch.DataLoader where Lightning makes it anew with another sampler: of its class, with its options."""

    OPTIONS = {"rng": "stoker", "native": False, "on_worker_error": "fail", "workers": "thread"}

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def check(self, loader):
        self.assertIs(type(loader), stoker.torch.DataLoader)
        self.assertEqual({name: getattr(loader, name) for name in self.OPTIONS}, self.OPTIONS)

    def made(self, **options):
        return stoker.torch.DataLoader(Places(), batch_size=16, **self.OPTIONS, **options)

    def sources(self):
        """Given, and made by a function within Lightning's hook, where it notes the arguments."""
        return (lambda **options: self.made(**options)), (lambda **options: lambda: self.made(**options))

    def test_of_batches_learnt_by_heart(self):
        for source in self.sources():
            model = train(StokerDataModule(train=source(shuffle=True)), self.folder, overfit_batches=2)
            self.assertEqual(model.seen, 3 * [list(range(16)), list(range(16, 32))])
            self.check(model.trainer.train_dataloader)

    def test_of_predictions(self):
        for source in self.sources():
            model = Model()
            trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir=self.folder)
            found = trainer.predict(model, datamodule=StokerDataModule(predict=source()))
            self.assertEqual(torch.cat(found).tolist(), list(range(120)))
            self.check(trainer.predict_dataloaders)
            self.assertEqual(type(trainer.predict_dataloaders.batch_sampler).__name__, "_IndexBatchSamplerWrapper")

    def test_of_ranks(self):
        done = subprocess.run([sys.executable, __file__, "torch_ranks", self.folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen, validated = zip(*(json.loads(Path(f"{self.folder}/{rank}.json").read_text()) for rank in (0, 1)))
        epochs = [sorted(sample for rank in seen for batch in rank[4 * epoch:4 * epoch + 4] for sample in batch)
                  for epoch in (0, 1)]
        self.assertEqual(epochs, 2 * [list(range(120))])
        self.assertNotEqual(seen[0][:4], seen[0][4:])
        self.assertEqual(sorted(sample for rank in validated for _, batch in rank for sample in batch),
                         sorted(2 * list(range(120))))


def torch_ranks(folder):
    def make(**options):
        return stoker.torch.DataLoader(Places(), batch_size=16, **Recreated.OPTIONS, **options)

    data = StokerDataModule(train=make(shuffle=True), val=make())
    train(data, folder, callbacks=[Tell(folder)], strategy="ddp_fork", devices=2, max_epochs=2)


def resume(folder):
    found = {}
    for number, (name, (_, data, _, _, options)) in enumerate(RESUMES.items()):
        model = train(data(), folder, ckpt=f"{folder}/{number}.ckpt", **options)
        found[name] = [model.digest(), model.seen]
    print(json.dumps(found))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("resume", "ranks", "torch_ranks"):
        globals()[sys.argv[1]](sys.argv[2])
    else:
        unittest.main()
