/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zip archives as stores. Input: an archive. Every folder is listed, every file is read as a whole,
 * in part and without waiting; what comes is the same each way.
 */
#include "fuzz_contained.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_room room = fuzz_open("mem://z");

    fuzz_put(room.store, "a.zip", data, size);
    fuzz_container(room.ctx, "zip:mem://z/a.zip!/");
    stk_store_close(&room.store);
    stk_context_destroy(&room.ctx);
    return 0;
}
