/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of `jsonl:`: learning, scanning, decoding. Input: the file. */
#include "rows_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_room room = fuzz_open("mem://t");

    fuzz_put(room.store, "a.jsonl", data, size);
    fuzz_ready(&room);
    rows_open(room.ctx, "jsonl:mem://t/a.jsonl");
    rows_open(room.ctx, "jsonl:mem://t/a.jsonl?nulls=mask&learn=1");
    rows_open(room.ctx, "jsonl:mem://t/a.jsonl?nulls=mask&learn=1&types=l:int32[]");
    rows_open(room.ctx, "jsonl:mem://t/a.jsonl?nulls=zero&types=a:int8,l:float32,t:bytes");
    fuzz_close(&room);
    return 0;
}
