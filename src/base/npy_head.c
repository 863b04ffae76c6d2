/* SPDX-License-Identifier: Apache-2.0 */
#include "base/npy_head.h"

#include "base/text.h"

#define PREAMBLE 10u /* magic, version, length of the text */
#define ALIGN    64u

static const unsigned char magic[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};

const char *stk__npy_code(stk_dtype dtype)
{
    static const struct {
        stk_dtype dtype;
        const char *code;
    } codes[] = {{STK_BOOL, "|b1"},    {STK_INT8, "|i1"},    {STK_UINT8, "|u1"},
                 {STK_INT16, "<i2"},   {STK_UINT16, "<u2"},  {STK_INT32, "<i4"},
                 {STK_UINT32, "<u4"},  {STK_INT64, "<i8"},   {STK_UINT64, "<u8"},
                 {STK_FLOAT16, "<f2"}, {STK_FLOAT32, "<f4"}, {STK_FLOAT64, "<f8"}};

    for (size_t i = 0; i < STK_COUNT(codes); i++)
        if (codes[i].dtype == dtype)
            return codes[i].code;
    return NULL;
}

size_t stk__npy_head(char out[STK__NPY_HEAD], stk_dtype dtype, const int64_t *shape, uint32_t rank)
{
    stk__text text = {.bytes = out + PREAMBLE, .room = STK__NPY_HEAD - PREAMBLE - ALIGN};
    const char *code = stk__npy_code(dtype);
    char dims[256];

    if (!code)
        return 0;
    stk__shape_tuple(shape, rank, dims, sizeof dims);
    stk__text_add(&text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", code, dims);
    const size_t used = PREAMBLE + text.length, whole = stk__round_up(used + 1, ALIGN);
    memset(out + used, ' ', whole - used);
    out[whole - 1] = '\n';
    memcpy(out, magic, sizeof magic);
    out[8] = (char)((whole - PREAMBLE) & 255);
    out[9] = (char)((whole - PREAMBLE) >> 8);
    return whole;
}

bool stk__npy_begins(const void *data, uint64_t length)
{
    return length >= 6 && memcmp(data, magic, 6) == 0;
}
