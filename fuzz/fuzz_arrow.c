/* SPDX-License-Identifier: Apache-2.0 */
/* Files and streams of Arrow IPC: the input is one. */
#include "fuzz_deliver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_room room = fuzz_open("mem://arrow");

    fuzz_put(room.store, "x.arrow", data, size);
    fuzz_ready(&room);
    fuzz_try(room.ctx, "arrow:mem://arrow/x.arrow?nulls=zero");
    fuzz_close(&room);
    return 0;
}
