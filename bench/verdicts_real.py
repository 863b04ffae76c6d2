# SPDX-License-Identifier: Apache-2.0
"""Cases with real codecs, capped processors, two causes at once and nothing wrong at all: for verdicts.py.

How long a batch takes without a step is measured first, so that the step can be given the share of it that is wanted.
"""
import json
import math
import os
import random
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

from machine import cores
from verdicts_planted import us

KINDS = ("jpeg_decode", "png_decode", "gzip_work", "zstd_work", "over_read", "jpeg_one_core", "jpeg_latency", "jpeg_bandwidth",
         "zarr_latency", "zarr_bandwidth", "over_read_bandwidth", "capped_decode", "capped_work", "two_waits", "two_decode",
         "two_bytes", "healthy_jpeg", "healthy_zarr", "healthy_capped", "healthy_waits")
MARGIN = 1.5        # of two causes that differ by less, either may be named
PICTURES, SIDE, FILES = 96, 256, 4000
SHAPE, CHUNK, PAYLOADS = (256, 1024, 1024), (4, 128, 128), 64
PHOTOGRAPHS = Path(os.environ.get("STOKER_TEST_DATA", Path(__file__).resolve().parent.parent.parent / "shared/data")) / "imagenet-sample"
CROP = ("--transforms", "random_resized_crop(224),horizontal_flip")


def ramp_and_noise(r, size, period, mask):
    """Bytes that codecs can do something with: a ramp with noise in some bits."""
    ramp = bytes(range(256)) if period == 256 else bytes(i * 256 // period for i in range(period))
    values = int.from_bytes((ramp * (size // period + 1))[:size], "little")
    noise = int.from_bytes(r.randbytes(size), "little") & int.from_bytes(mask * (size // len(mask)), "little")
    return (values ^ noise).to_bytes(size, "little")


def make_pictures(folder):
    """A folder of PNG files in two classes."""
    r = random.Random(1)
    for i in range(PICTURES):
        lines = [b"\0" + ramp_and_noise(r, 3 * SIDE, 3 * SIDE, b"\x0f") for _ in range(SIDE)]
        parts = [(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b"".join(lines))), (b"IEND", b"")]
        path = folder / f"{i % 2}/{i:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts))


def make_array(folder, codec):
    """Zarr v2 of uint16: some payloads under many names, as their making is what takes long."""
    r, size = random.Random(2), math.prod(CHUNK) * 2
    folder.mkdir(parents=True)
    compressor = {"id": "gzip", "level": 5} if codec == "gzip" else {"id": "zstd", "level": 3}
    (folder / ".zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": SHAPE, "chunks": CHUNK, "dtype": "<u2", "compressor": compressor, "fill_value": 0,
        "order": "C", "filters": None}))
    packed, names = [], []
    for i in range(PAYLOADS):
        # As in nature, some compress better than others.
        data = ramp_and_noise(r, size, 256, (b"\x03\0", b"\x07\0", b"\x0f\0", b"\x1f\0")[i % 4])
        if codec == "gzip":
            deflate = zlib.compressobj(5, zlib.DEFLATED, 31)
            packed.append(deflate.compress(data) + deflate.flush())
        else:
            raw = folder / f"raw{i}"
            raw.write_bytes(data)
            subprocess.run(["zstd", "-q", "-3", "--rm", raw], check=True)
            packed.append(Path(f"{raw}.zst").read_bytes())
            Path(f"{raw}.zst").unlink()
    counts = [n // c for n, c in zip(SHAPE, CHUNK)]
    for i in range(math.prod(counts)):
        t, y, x = i // counts[2] // counts[1], i // counts[2] % counts[1], i % counts[2]
        name = folder / f"{t}.{y}.{x}"
        if i < PAYLOADS:
            name.write_bytes(packed[i])
            names.append(name)
        else:
            os.link(names[i % PAYLOADS], name)


def multiply(folder):
    """Thousands of files of some hundreds: reads that are planned together must not be of the same ones."""
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png"))
    for i in range(1, -(-FILES // len(files))):
        (folder / f"copy{i}").mkdir()
        for n, file in enumerate(files):
            os.link(file, folder / f"copy{i}/{n:05}{file.suffix}")


class Data:
    """What the cases read. Made in a folder of the caller's."""

    def __init__(self, folder, stoker):
        self.folder = Path(folder)
        make_pictures(self.folder / "png")
        make_array(self.folder / "gzip.zarr", "gzip")
        self.codecs, self.notes = ["gzip"], []
        if shutil.which("zstd"):
            make_array(self.folder / "zstd.zarr", "zstd")
            self.codecs.append("zstd")
        else:
            self.notes.append("no zstd command: arrays are packed with gzip alone")
        self.jpeg = self.folder / "jpeg"
        self.jpeg.mkdir()
        if PHOTOGRAPHS.is_dir():
            shutil.copytree(PHOTOGRAPHS, self.jpeg / "0")
        else:
            subprocess.run([stoker, "convert", f"images:{self.folder / 'png'}", self.jpeg / "0", "--quiet"], check=True)
            self.notes.append(f"no {PHOTOGRAPHS}: JPEG files are made ones")
        for pictures in (self.jpeg, self.folder / "png"):
            multiply(pictures)
        # Hidden files are notes about the folder, not of it.
        self.bytes = {name: self._mean(path) for name, path in
                      [("jpeg", self.jpeg), *((c, self.folder / f"{c}.zarr") for c in self.codecs)]}

    @staticmethod
    def _mean(folder):
        sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")]
        return sum(sizes) / len(sizes)


class RealPlanter:
    """Random cases. `free(command, wrap)` measures the seconds of a batch without a step."""

    def __init__(self, seed, data, files, cap, free):
        self.r, self.data, self.files, self.cap, self.free = random.Random(seed), data, files, cap, free
        self.lost = self.r.uniform(0.25, 0.85)
        self.depth = self.r.choice((2, 4, 8))
        self.codec = self.r.choice(data.codecs) if data else ""

    # ---- What is read

    def slow(self, kind, path, **options):
        query = [f"{k}={v}" for k, v in options.items()]
        return f"{kind}:slow+file://{path}?{'&'.join(query)}" if query and "latency" in options or "bandwidth" in options \
            else f"{kind}:{path}?{'&'.join(query)}"

    def jpeg(self, **options):
        return self.slow("images", self.data.jpeg, **options, index="none")

    def zarr(self, window, codec=None, **options):
        return self.slow("array", self.data.folder / f"{codec or self.codec}.zarr", **options, window=window)

    def batch_of(self, codec=None):
        """Some milliseconds of decoding whole chunks."""
        return self.r.choice((32, 48)) if (codec or self.codec) == "gzip" else self.r.choice((96, 128))

    # ---- What is run

    def command(self, spec, batch, workers, *options, prefetch=4):
        return ["--dataset", spec, "--batch-size", str(batch), "--num-workers", str(workers), "--prefetch-factor", str(prefetch),
                "--shuffle=true", *options]

    def case(self, limits, command, wrap=(), free=None, **more):
        """The step gets what is not to be lost of the time that a batch takes without it."""
        whole = free or self.free(command, wrap)
        step = whole * (1 - self.lost)
        return {"limits": limits, "command": [*command, "--train-step-time", f"{step:.6f}"], "wrap": list(wrap),
                "seconds": max(1.5, 60 * whole), "step": step, **more}

    def healthy(self, command, wrap=()):
        whole = self.free(command, wrap)
        step = max(whole / self.r.uniform(0.2, 0.6), 0.004)
        return {"limits": {"step"}, "command": [*command, "--train-step-time", f"{step:.6f}"], "wrap": list(wrap),
                "seconds": max(1.5, 60 * step), "step": step, "healthy": True}

    def one_or_all(self):
        """(workers, wrap) so that no core is left over."""
        if self.r.random() < 0.5:
            return self.r.randint(1, 2), ["taskset", "-c", str(self.r.choice(cores()))]
        return len(cores()), []

    # ---- Codecs

    def jpeg_decode(self):
        workers, wrap = self.one_or_all()
        return self.case({"decode"}, self.command(self.jpeg(), self.r.choice((32, 64)), workers, *CROP), wrap)

    def png_decode(self):
        workers, wrap = self.one_or_all()
        spec = self.slow("images", self.data.folder / "png", index="none")
        return self.case({"decode"}, self.command(spec, self.r.choice((16, 32)), workers, "--transforms", "center_crop(224)"), wrap)

    def work(self, codec):
        workers, wrap = self.one_or_all()
        return self.case({"cores"}, self.command(self.zarr("4x128x128", codec), self.batch_of(codec), workers), wrap)

    def gzip_work(self):
        return self.work("gzip")

    def zstd_work(self):
        return self.work(self.data.codecs[-1])

    def over_read(self):
        workers, wrap = self.one_or_all()
        side = self.r.choice((16, 32))
        return self.case({"over-read"}, self.command(self.zarr(f"1x{side}x{side}", "gzip"), 64, workers), wrap)

    def jpeg_one_core(self):
        # Step and preparation take turns: the step comes on top.
        command = self.command(self.jpeg(), 16, 0, *CROP)
        whole = self.free(command, ())
        return self.case({"one core"}, command, free=whole / self.lost)

    # ---- Storage before a codec

    def reading(self, batch, free):
        """Seconds of a batch's reads that are long beside its preparation."""
        return max(self.r.uniform(2, 4) * free, 0.006)

    def jpeg_latency(self):
        batch = 32
        whole = self.reading(batch, self.free(self.command(self.jpeg(), batch, 2, *CROP), ()))
        spec = self.jpeg(latency=us(whole * self.depth / batch))
        return self.case({"storage latency"}, self.command(spec, batch, 2, *CROP, "--io-depth", str(self.depth)))

    def jpeg_bandwidth(self):
        batch = 32
        whole = self.reading(batch, self.free(self.command(self.jpeg(), batch, 2, *CROP), ()))
        spec = self.jpeg(latency=us(self.r.uniform(0, 0.001)), bandwidth=int(batch * self.data.bytes["jpeg"] / whole))
        return self.case({"storage bandwidth"}, self.command(spec, batch, 2, *CROP, "--io-depth", str(self.r.choice((8, 16, 32)))))

    def zarr_latency(self):
        batch = self.batch_of()
        whole = self.reading(batch, self.free(self.command(self.zarr("4x128x128"), batch, 2), ()))
        spec = self.zarr("4x128x128", latency=us(whole * self.depth / batch))
        return self.case({"storage latency"}, self.command(spec, batch, 2, "--io-depth", str(self.depth)))

    def zarr_bandwidth(self):
        batch = self.batch_of()
        whole = self.reading(batch, self.free(self.command(self.zarr("4x128x128"), batch, 2), ()))
        spec = self.zarr("4x128x128", latency=us(self.r.uniform(0, 0.001)), bandwidth=int(batch * self.data.bytes[self.codec] / whole))
        return self.case({"storage bandwidth"}, self.command(spec, batch, 2, "--io-depth", "16"))

    def over_read_bandwidth(self):
        """Chunks of which a sample takes little, from a store that has little to give."""
        side, batch = self.r.choice((16, 32)), 32
        whole = self.reading(batch, self.free(self.command(self.zarr(f"1x{side}x{side}"), batch, 2), ()))
        spec = self.zarr(f"1x{side}x{side}", latency=us(self.r.uniform(0, 0.001)), bandwidth=int(batch * self.data.bytes[self.codec] / whole))
        return self.case({"over-read"}, self.command(spec, batch, 2, "--io-depth", "16"))

    # ---- Fewer cores than there are

    def quota(self):
        return self.cap.wrap(self.r.uniform(0.4, 0.9) * len(cores()), self.r.choice((10000, 100000)))

    def capped_decode(self):
        return self.case({"decode"}, self.command(self.jpeg(), self.r.choice((32, 64)), 2, *CROP), self.quota(), short=True)

    def capped_work(self):
        return self.case({"cores"}, self.command(self.zarr("4x128x128", "gzip"), 48, 2), self.quota(), short=True)

    def healthy_capped(self):
        return self.healthy(self.command(self.jpeg(), self.r.choice((32, 64)), 2, *CROP), self.quota())

    # ---- Two causes at once

    def two(self, first, second, seconds_of_first, command):
        """`seconds_of_first` of the first cause's work for each second of the second's."""
        likely = {first, second} if 1 / MARGIN < seconds_of_first < MARGIN else {first if seconds_of_first > 1 else second}
        return self.case(likely, command, two=True)

    def times(self):
        return math.exp(self.r.uniform(math.log(0.4), math.log(2.5)))

    def two_waits(self):
        """Reads that take long and workers that sleep: stages of one pipeline, of which the longer decides."""
        batch, part, times = self.r.choice((8, 16, 32)), self.r.uniform(0.01, 0.03), self.times()
        spec = self.slow("synthetic", self.files, read_bytes=4096, latency=us(times * part * self.depth / batch),
                         delay=us(2 * part / batch), shape="8x8x1")
        return self.two("storage latency", "workers", times, self.command(spec, batch, 2, "--io-depth", str(self.depth)))

    def two_decode(self):
        batch, times = 32, self.times()
        decoding = self.free(self.command(self.jpeg(), batch, 2, *CROP), ())
        spec = self.jpeg(latency=us(times * decoding * self.depth / batch))
        return self.two("storage latency", "decode", times, self.command(spec, batch, 2, *CROP, "--io-depth", str(self.depth)))

    def two_bytes(self):
        batch, times = self.batch_of(), self.times()
        decoding = self.free(self.command(self.zarr("4x128x128"), batch, 2), ())
        spec = self.zarr("4x128x128", bandwidth=int(batch * self.data.bytes[self.codec] / decoding / times))
        return self.two("storage bandwidth", "cores", times, self.command(spec, batch, 2, "--io-depth", "16"))

    # ---- Nothing wrong

    def healthy_jpeg(self):
        return self.healthy(self.command(self.jpeg(), self.r.choice((8, 16, 32)), self.r.randint(1, 2), *CROP))

    def healthy_zarr(self):
        window = self.r.choice(("4x128x128", "1x32x32"))
        return self.healthy(self.command(self.zarr(window), self.batch_of(), self.r.randint(1, 2)))

    def healthy_waits(self):
        batch, part = self.r.choice((8, 16, 32)), self.r.uniform(0.003, 0.008)
        spec, options = self.r.choice((
            (f"synthetic:?delay={us(2 * part / batch)}&shape=8x8x1", ()),
            (self.slow("synthetic", self.files, read_bytes=4096, latency=us(8 * part / batch), shape="8x8x1"), ("--io-depth", "8")),
            (self.slow("synthetic", self.files, read_bytes=65536, bandwidth=int(65536 * batch / part), shape="8x8x1"), ()),
        ))
        return self.healthy(self.command(spec, batch, 2, *options, prefetch=8))
