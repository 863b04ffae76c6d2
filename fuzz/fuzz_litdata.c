/* SPDX-License-Identifier: Apache-2.0 */
/* index.json, table of offsets and records of `litdata:`. Input: see tabled_support.h. */
#include "tabled_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_room room = tabled_room(data, size);

    rows_open(room.ctx, "litdata:mem://t");
    rows_open(room.ctx, "litdata:mem://t?fields=x&varying=x");
    rows_open(room.ctx, "litdata:mem://t?block_size=3");
    fuzz_close(&room);
    return 0;
}
