# SPDX-License-Identifier: Apache-2.0
"""Cases with one cause each, made of `synthetic:`, `slow+` and options of the loader: for verdicts.py."""
import random

from machine import cores

KINDS = ("latency", "small_reads", "bandwidth", "retries", "workers", "one_core", "cores", "oversubscribed", "stragglers",
         "budget", "turn")
FILES, FILE_BYTES = 600, 1 << 20
ROWS, ROW_COUNT, ROW_BYTES = "rows/rows.raw", 4096, 4096


def us(seconds):
    return f"{seconds * 1e6:.0f}us"


def make_files(folder):
    for i in range(FILES):
        with open(f"{folder}/{i:04}", "wb") as f:
            f.truncate(FILE_BYTES)
    # In a folder of its own: what is read of the other files is chosen among all in theirs.
    (folder / ROWS).parent.mkdir()
    with open(folder / ROWS, "wb") as f:
        f.truncate(ROW_COUNT * ROW_BYTES)


class Planter:
    """Random cases. `lost` is the share of the time that the planted cause shall take from the step."""

    def __init__(self, seed, folder):
        self.r, self.folder = random.Random(seed), folder
        self.step = self.r.uniform(0.006, 0.020)
        self.lost = self.r.uniform(0.25, 0.85)
        self.batch = self.r.choice((8, 16, 32))
        self.whole = self.step / (1 - self.lost)  # of a batch

    def case(self, limits, spec, *options, workers=2, batch=None, wrap=(), shape="shape=8x8x1", **more):
        batch = batch or self.batch
        spec += f"{'&' if '?' in spec else '?'}{shape}" if shape else ""
        command = ["--dataset", spec, "--batch-size", str(batch), "--num-workers", str(workers),
                   "--train-step-time", f"{self.step:.6f}", *options]
        return {"limits": limits, "command": command, "seconds": max(1.0, 40 * self.whole), "wrap": list(wrap),
                "step": self.step, **more}

    def slow(self, **options):
        return f"synthetic:slow+file://{self.folder}?" + "&".join(f"{k}={v}" for k, v in options.items())

    def latency(self):
        depth = self.r.choice((2, 4, 8))
        return self.case({"storage latency"},
                         self.slow(read_bytes=self.r.choice((4096, 16384, 65536)), latency=us(self.whole * depth / self.batch),
                                   jitter=us(self.whole * depth / self.batch / 4)),
                         "--io-depth", str(depth), "--shuffle=true", "--prefetch-factor", "4")

    def small_reads(self):
        batch = self.r.choice((128, 256))
        return self.case({"small reads"}, self.slow(read_bytes=self.r.choice((1024, 8192)), latency=us(self.whole * 64 / batch)),
                         "--io-depth", "64", "--shuffle=true", batch=batch)

    def bandwidth(self):
        size = self.r.choice((65536, 131072, 262144))
        return self.case({"storage bandwidth"},
                         self.slow(read_bytes=size, latency=us(self.r.uniform(0, 0.001)), bandwidth=int(self.batch * size / self.whole)),
                         "--io-depth", str(self.r.choice((8, 16, 32))), "--shuffle=true", "--prefetch-factor", "4")

    def workers(self):
        workers = self.r.randint(1, 4)
        return self.case({"workers"}, f"synthetic:?delay={us(self.whole * workers / self.batch)}", workers=workers)

    def one_core(self):
        return self.case({"one core"}, f"synthetic:?delay={us((self.whole - self.step) / self.batch)}", workers=0)

    def cores(self):
        return self.case({"cores"}, f"synthetic:?cpu={us(self.whole / self.batch)}", workers=1,
                         wrap=["taskset", "-c", str(self.r.choice(cores()))])

    def stragglers(self):
        every = self.r.randint(8, 16)
        late = every * self.step * self.lost / (1 - self.lost) + 8 * self.step
        return self.case({"stragglers"}, f"synthetic:?tail_share={1 / every / self.batch:.6f}&tail_delay={us(late)}&seed={self.r.randint(0, 999)}",
                         workers=4)

    def budget(self):
        depth = self.r.choice((3, 5, 8))
        return self.case({"memory budget"}, self.slow(read_bytes=1 << 20, latency=us(1.3 * self.whole * depth / self.batch)),
                         "--io-depth", "64", "--shuffle=true", "--memory-budget", f"{5 * depth // 4 + 2}MiB")

    def turn(self):
        steps = self.r.randint(7, 12)
        return self.case({"epoch turn"},
                         self.slow(read_bytes=4096, size=steps * self.batch, latency=us(steps * self.step * self.lost / (1 - self.lost))),
                         "--persistent-workers=false", "--io-depth", "512", "--prefetch-factor", "8")

    def retries(self):
        # Few of a batch at a time: else the unluckiest of them hold back batches that are finished.
        depth, fail = self.batch // self.r.choice((2, 4)), self.r.uniform(0.6, 0.7)
        tries = 1 / (1 - fail)
        return self.case({"retries"}, f"array:slow+file://{self.folder}/{ROWS}?format=raw&dtype=uint8&window=1x{ROW_BYTES}"
                         f"&fail={fail:.3f}&fail_kind=timeout&seed={self.r.randint(1, 999)}&latency={us(self.whole * depth / self.batch / tries)}",
                         "--io-depth", str(depth), "--shuffle=true", "--retries", "90",
                         shape=f"shape={ROW_COUNT}x{ROW_BYTES}")

    def oversubscribed(self):
        """A step that computes on one core has to share it with workers that have not enough of them."""
        workers = self.r.randint(2, 4)
        self.step = self.r.uniform(0.01, 0.02)
        work = self.step * self.r.uniform(0.25, 0.6)
        return self.case({"oversubscribed"}, f"synthetic:?cpu={us(work / self.batch)}", "--spin", "--prefetch-factor", "8",
                         workers=workers, wrap=["taskset", "-c", str(self.r.choice(cores()))], short=True)
