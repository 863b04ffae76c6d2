/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards of `tfrecord:`. Input: a byte of bits; (2) a list of the records, with its length in two
 * bytes in front; a shard, or (1) the data of records, each with its length in front, which get
 * heads and checksums that are right.
 */
#include "base/bytes.h"
#include "base/crc32c.h"
#include "fuzz_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool put_record(stk__bytes *to, const uint8_t *data, uint64_t length)
{
    uint8_t head[8];

    for (int i = 0; i < 8; i++)
        head[i] = (uint8_t)(length >> (8 * i));
    const uint32_t of_head = stk__crc32c_masked(stk__crc32c(0, head, sizeof head));
    const uint32_t of_data = stk__crc32c_masked(stk__crc32c(0, data, length));
    return stk__bytes_put(to, head, sizeof head) && stk__bytes_put(to, &of_head, 4) &&
           stk__bytes_put(to, data, length) && stk__bytes_put(to, &of_data, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length = 0;

    if (size < 1)
        return 0;
    const int bits = *data++;
    size--;
    fuzz_room room = fuzz_open("mem://shards");
    stk__bytes shard = {.ctx = room.ctx};
    if (bits & 2) {
        const uint8_t *list = fuzz_take(&data, &size, &length);
        fuzz_put(room.store, "a.tfrecord.idx", list, length);
    }
    while (bits & 1 && size) {
        const uint8_t *record = fuzz_take(&data, &size, &length);
        FUZZ_CHECK(put_record(&shard, record, length));
    }
    if (bits & 1)
        fuzz_put(room.store, "a.tfrecord", (const uint8_t *)shard.data, shard.length);
    else
        fuzz_put(room.store, "a.tfrecord", data, size);
    stk__bytes_release(&shard);
    fuzz_ready(&room);
    fuzz_dataset(room.ctx, "tfrecord:mem://shards/a.tfrecord?index=auto&"
                           "schema=image/encoded:image,image/class/label:int64");
    fuzz_dataset(
        room.ctx,
        "tfrecord:mem://shards?index=auto&pad=-1&schema=embedding:float[3],tokens:int16[5]");
    fuzz_close(&room);
    return 0;
}
