/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of `jsonl:`: learning, scanning, decoding. Input: the file. */
#include "table_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_room room = fuzz_open("mem://t");

    fuzz_put(room.store, "a.jsonl", data, size);
    fuzz_ready(&room);
    table_open(room.ctx, "jsonl:mem://t/a.jsonl");
    table_open(room.ctx, "jsonl:mem://t/a.jsonl?nulls=mask&learn=1");
    table_open(room.ctx, "jsonl:mem://t/a.jsonl?nulls=zero&types=a:int8,l:float32,t:bytes");
    fuzz_close(&room);
    return 0;
}
