/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[STK_DTYPE_COUNT] = {
    [STK_DTYPE_NONE] = {"none", 0},     [STK_BOOL] = {"bool", 1},
    [STK_UINT8] = {"uint8", 1},         [STK_INT8] = {"int8", 1},
    [STK_UINT16] = {"uint16", 2},       [STK_INT16] = {"int16", 2},
    [STK_UINT32] = {"uint32", 4},       [STK_INT32] = {"int32", 4},
    [STK_UINT64] = {"uint64", 8},       [STK_INT64] = {"int64", 8},
    [STK_FLOAT16] = {"float16", 2},     [STK_BFLOAT16] = {"bfloat16", 2},
    [STK_FLOAT32] = {"float32", 4},     [STK_FLOAT64] = {"float64", 8},
    [STK_COMPLEX64] = {"complex64", 8}, [STK_COMPLEX128] = {"complex128", 16},
};

size_t stk_dtype_size(stk_dtype dtype)
{
    return (unsigned)dtype < STK_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *stk_dtype_name(stk_dtype dtype)
{
    return (unsigned)dtype < STK_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

stk_dtype stk_dtype_parse(const char *name)
{
    for (int i = 1; i < STK_DTYPE_COUNT; i++)
        if (!strcmp(dtypes[i].name, name))
            return (stk_dtype)i;
    return STK_DTYPE_NONE;
}

bool stk__shape_bytes(const int64_t *shape, uint32_t rank, uint64_t itemsize, uint64_t *out)
{
    uint64_t bytes = itemsize;
    bool empty = false;

    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return false;
        if (shape[i] == 0)
            empty = true;
        else if (!stk__mul_size(bytes, (uint64_t)shape[i], &bytes) || bytes > INT64_MAX)
            return false;
    }
    *out = empty ? 0 : bytes;
    return true;
}
