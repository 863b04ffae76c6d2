# SPDX-License-Identifier: Apache-2.0
"""The options of commands alone: written by scripts/make_python_options.py from the option tables."""

INFO = """\
  --stats WORD   Read pictures for mean, std, sizes, formats and broken files. auto: encoded
                 pictures, 20,000 evenly spread where there are more. all: every picture, of any
                 dataset. The result is kept for the next time. Of arrays: all reads the values and
                 keeps what it finds next to them, auto shows what was kept. (default: auto; auto |
                 all | none)
  --sample N     Read N pictures, evenly spread over the dataset; 0: as --stats says. (default: 0)
  --[no-]store   Measure the store at a URL or path instead: latency, reads a second, bandwidth, in
                 order and at random. (default: false)
"""

CHUNKS = """\
  --chunks AxB,...           Chunk shapes to count. Without them: an eighth of the window to sixteen
                             windows, and a recommendation.
  --extent AxB               Elements of the array; * for an axis whose end does not matter.
                             Default: no axis ends.
  --stride AxB               Windows begin at its multiples. Default: 1 on every axis.
  --itemsize BYTES           Bytes of an element; 0: those of dtype, or 1. (default: 0;
                             0..1073741824)
  --dtype NAME               Data type of an element, as float32, in the place of itemsize.
  --ratio X                  Codec ratio: decoded bytes / stored bytes. Of an ARRAY, if not given:
                             what is stored. (default: 1; 0.001..1000000)
  --access WORD              Recommend chunks for windows at random, in sequence, or by block
                             shuffle. (default: random; random | sequential | block)
  --shuffle-buffer N         access block: blocks mixed at a time. (default: 16; 1..1048576)
  --memory-budget SIZE       Decoded chunks that may be kept in memory. (default: 1GiB; at least 1)
  --store NAME               Recommend chunks for a store: ssd, disk, nfs or s3, with the figures
                             that follow in place of its own; auto: the one that is like the store
                             of ARRAY, ssd without one. (default: auto)
  --latency TIME[..TIME]     Time until the first byte of a request, or the range it is in:
                             20ms..200ms.
  --bandwidth RATE[..RATE]   Bytes a second of all requests together: 100MB/s..1GB/s.
  --io-depth N               Requests in flight; 0: the store's. (default: 0; 0..65536)
  --request-cost DOLLARS     Price of a million requests; -1: the store's. (default: -1;
                             -1..1000000)
  --decode-rate RATE         Decoded bytes a second; 0: 1GB/s where ratio is above 1, else no
                             decoding. (default: 0)
  --top N                    Recommended shapes to show. (default: 5; 1..8)
  --[no-]measure             Write a sample of ARRAY again with its own chunks, those of --chunks
                             and those recommended, and time windows of it. (default: false)
  --sample SIZE              measure: bytes of the sample, decoded. (default: 64MiB; 1..1TiB)
"""

TUNE = """\
  --step KIND:CONFIG       train: the real training step of this configuration instead of a
                           simulated one; fit: its whole training, with epochs, losses and accuracy.
                           What the setting does not say is the configuration's; 'fit' alone: all of
                           it is in the setting.
  --train-step-time TIME   Length of the simulated training step, in seconds; 0: none. (default:
                           0.01; 0..3600s)
  --[no-]spin              The step computes on all cores kept for it (--compute-threads) instead of
                           sleeping. (default: false)
  --min-seconds TIME       Measure a setting for at least so long, ... (default: 3; 0..86400s)
  --min-batches N          ... and at least so many batches, unless num_epochs ends it before.
                           (default: 20; 1..1000000000000)
  --max-seconds TIME       End the measurement of a setting after so long, whatever it has reached;
                           0: never. Where nothing is said: twice min_seconds; with min_batches or
                           num_epochs as of a bench. (0..1000000s)
  --num-epochs N           Epochs of a run; 0: as many as min_seconds and min_batches ask for.
                           (default: 0; 0..1000000000)
  --num-batches N          Batches of an epoch, after which the next begins; 0: all of them.
                           (default: 0; 0..1000000000000)
  --warmup N               Batches taken before the measured window; where num_epochs or num_batches
                           is given, the run begins again after them. (default: 5; 0..1000000000)
  --ranks N                Processes that share each global batch on this machine, measured
                           together. (default: 1; 1..256)
  --all-reduce SIZE        Bytes that all ranks combine at the end of each step, as gradients are:
                           its ranks are then started by mpirun, whose MPI carries them. With ranks;
                           0: none. (default: 0; 0..1TB)
  --[no-]published         The defaults of the published benchmark: num_epochs 2, num_batches 3,
                           batch_size 16, train_step_time 0.1. (default: false)
  --trace FILE             Write a trace of workers, reads, batches and steps for ui.perfetto.dev; a
                           further setting's goes to FILE.2, ...
  --trace-every N          Keep every N-th batch of the trace. (default: 1; 1..1000000000)
  --[no-]drop-cache        Ask the kernel to forget the dataset's files before each run
                           (posix_fadvise). (default: false)
"""
