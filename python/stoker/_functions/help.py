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
