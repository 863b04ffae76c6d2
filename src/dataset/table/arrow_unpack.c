/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of a batch that is packed [Message.fbs, BodyCompression]: 8 bytes say how many bytes it
 * becomes, or -1 that it is as it is, then one frame of LZ4 or zstd follows. A buffer of no bytes
 * is not packed.
 */
#include "dataset/table/arrow.h"

enum { LZ4 = 1, ZSTD };
#define PREFIX 8u

static stk_status fail(stk_status status, const char *text, const char **reason)
{
    *reason = text;
    return status;
}

static stk_status unpack(stk__arrow_unpacker *u, const uint8_t *data, uint64_t length, void *out,
                         uint64_t size, const char **reason)
{
    uint64_t got = 0;

    if (u->codec == LZ4)
        return stk__lz4_frame_decode(data, length, out, size, reason);
    if (!u->state && stk__codec_state_create(u->context, &u->state, NULL) != STK_OK)
        return fail(STK_ENOMEM, "no memory to unpack a buffer", reason);
    STK_TRY(stk__block_decode(STK__BLOCK_ZSTD, u->state, data, length, out, size, &got, reason));
    return got == size ? STK_OK
                       : fail(STK_EFORMAT, "a packed buffer has fewer bytes than it says", reason);
}

stk_status stk__arrow_unpack(stk__arrow_unpacker *u, const uint8_t *data, uint64_t length,
                             uint64_t least, void *room, uint64_t capacity, const uint8_t **out,
                             uint64_t *size, const char **reason)
{
    *out = data;
    *size = length;
    if (u->codec && length) {
        if (length < PREFIX)
            return fail(STK_ETRUNCATED, "a packed buffer is shorter than its own size", reason);
        const uint64_t says = stk__little_endian(data, PREFIX);
        *out = data + PREFIX;
        *size = length - PREFIX;
        if (says != UINT64_MAX) {
            if (says < least || says > capacity)
                return fail(STK_EFORMAT,
                            "a packed buffer says that it has other bytes than its rows", reason);
            STK_TRY(unpack(u, data + PREFIX, length - PREFIX, room, says, reason));
            *out = room;
            *size = says;
        }
    }
    return *size < least ? fail(STK_EFORMAT, "a buffer is shorter than its rows take", reason)
                         : STK_OK;
}

void stk__arrow_unpacker_release(stk__arrow_unpacker *unpacker)
{
    stk__codec_state_destroy(&unpacker->state);
}
