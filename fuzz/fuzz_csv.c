/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of `csv:` and `tsv:`: learning, scanning, decoding. Input: the file. */
#include "rows_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_room room = fuzz_open("mem://t");

    fuzz_put(room.store, "a.csv", data, size);
    fuzz_ready(&room);
    rows_open(room.ctx, "csv:mem://t/a.csv");
    rows_open(room.ctx, "csv:mem://t/a.csv?nulls=mask&learn=1&text=bytes");
    rows_open(room.ctx, "tsv:mem://t/a.csv?header=false&nulls=drop&types=c0:int8,c1:float32");
    fuzz_close(&room);
    return 0;
}
