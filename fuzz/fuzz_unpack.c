/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are compressed as a whole: the input is one. Its beginning says by what. */
#include "codec/codec.h"
#include "fuzz_support.h"

#define MOST (UINT64_C(4) << 20) /* bytes that are taken */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct file {
    const uint8_t *data;
    size_t size;
} file;

static stk_status give(void *user, uint64_t offset, uint64_t length, void *out, stk_error *err)
{
    const file *f = user;

    (void)err;
    FUZZ_CHECK(offset <= f->size && length <= f->size - offset);
    memcpy(out, f->data + offset, length);
    return STK_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const stk__stream kind = stk__stream_kind(data, size);
    file f = {data, size};
    uint8_t bytes[5000];
    stk__unpack *unpack = NULL;
    stk_error err;

    if (kind == STK__STREAM_NOT)
        return 0;
    fuzz_room room = fuzz_open("mem://unpack");
    fuzz_ready(&room);
    stk_error_init(&err);
    FUZZ_CHECK(stk__unpack_create(room.ctx, kind, give, &f, size, "a", &unpack, &err) == STK_OK);
    stk_status status = STK_OK;
    uint64_t got = sizeof bytes, all = 0;
    while (status == STK_OK && got == sizeof bytes && all < MOST) {
        status = stk__unpack_read(unpack, bytes, sizeof bytes, &got, &err);
        FUZZ_CHECK(got <= sizeof bytes);
        all += got;
    }
    if (status != STK_OK)
        FUZZ_CHECK(err.status == status && err.text[0]);
    stk__unpack_destroy(&unpack);
    fuzz_close(&room);
    return 0;
}
