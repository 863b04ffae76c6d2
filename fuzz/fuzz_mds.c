/* SPDX-License-Identifier: Apache-2.0 */
/* index.json, table of offsets and records of `mds:`. Input: see tabled_support.h. */
#include "tabled_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_room room = tabled_room(data, size);

    rows_open(room.ctx, "mds:mem://t");
    rows_open(room.ctx, "mds:mem://t?fields=x&varying=x");
    rows_open(room.ctx, "mds:mem://t?hashes=check");
    fuzz_close(&room);
    return 0;
}
