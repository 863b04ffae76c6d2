/* SPDX-License-Identifier: Apache-2.0 */
/* Records of columns -> values. */
#include "dataset/records/tabled.h"

#define TORCH_TYPES 21u
#define NUMPY_TYPES 11u /* those behind have other numbers on other machines */

static uint64_t load_le(const unsigned char *at, uint32_t size)
{
    uint64_t value = 0;

    for (uint32_t i = size; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static uint64_t load_be(const unsigned char *at, uint32_t size)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < size; i++)
        value = value << 8 | at[i];
    return value;
}

/* ---- Types ----------------------------------------------------------------------------------- */

/* litdata/constants.py, _TORCH_DTYPES_MAPPING */
stk_dtype stk__litdata_torch_dtype(uint64_t number)
{
    static const stk_dtype types[TORCH_TYPES] = {
        STK_FLOAT32,    STK_FLOAT32,    STK_FLOAT64, STK_FLOAT64, STK_COMPLEX64, STK_COMPLEX64,
        STK_COMPLEX128, STK_COMPLEX128, STK_FLOAT16, STK_FLOAT16, STK_BFLOAT16,  STK_UINT8,
        STK_INT8,       STK_INT16,      STK_INT16,   STK_INT32,   STK_INT32,     STK_INT64,
        STK_INT64,      STK_BOOL,       STK_UINT16};

    return number < TORCH_TYPES ? types[number] : STK_DTYPE_NONE;
}

/* litdata/constants.py, _NUMPY_SCTYPES */
stk_dtype stk__litdata_numpy_dtype(uint64_t number)
{
    static const stk_dtype types[NUMPY_TYPES] = {STK_INT8,    STK_INT16,   STK_INT32,  STK_INT64,
                                                 STK_UINT8,   STK_UINT16,  STK_UINT32, STK_UINT64,
                                                 STK_FLOAT16, STK_FLOAT32, STK_FLOAT64};

    return number < NUMPY_TYPES ? types[number] : STK_DTYPE_NONE;
}

/* streaming/base/format/mds/encodings.py, NDArray */
static stk_dtype mds_dtype(unsigned number)
{
    static const struct {
        unsigned char number;
        stk_dtype dtype;
    } types[] = {{8, STK_UINT8},    {9, STK_INT8},    {16, STK_UINT16}, {17, STK_INT16},
                 {18, STK_FLOAT16}, {32, STK_UINT32}, {33, STK_INT32},  {34, STK_FLOAT32},
                 {64, STK_UINT64},  {65, STK_INT64},  {66, STK_FLOAT64}};

    for (size_t i = 0; i < STK_COUNT(types); i++)
        if (types[i].number == number)
            return types[i].dtype;
    return STK_DTYPE_NONE;
}

/* ---- Columns --------------------------------------------------------------------------------- */

bool stk__tabled_cut(const stk__tabled *t, const void *record, uint64_t length, stk_slice *values,
                     const char **reason)
{
    const unsigned char *head = record;
    uint64_t at = t->bare ? 0 : 4 * (uint64_t)t->num_sized;

    if (t->bare) {
        values[0] = (stk_slice){.data = record, .size = length};
        return true;
    }
    *reason = "the sizes of its columns go beyond its end; copy or download the shard again";
    if (at > length)
        return false;
    for (uint32_t i = 0; i < t->num_columns; i++) {
        uint64_t size = t->columns[i].size;
        if (t->columns[i].sized) {
            size = load_le(head, 4);
            head += 4;
        }
        if (size > length - at)
            return false;
        values[i] = (stk_slice){.data = (const unsigned char *)record + at, .size = size};
        at += size;
    }
    *reason = "it has more bytes than its columns; copy or download the shard again";
    return at == length;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* Rank and dimensions, of `width` bytes each from *at on. */
static bool take_shape(const stk_slice *value, uint64_t *at, uint64_t rank, uint32_t width,
                       uint64_t (*load)(const unsigned char *, uint32_t), stk__block *out)
{
    if (rank > STK_MAX_RANK || rank * width > value->size - *at)
        return false;
    out->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < out->rank; i++, *at += width) {
        const uint64_t side = load((const unsigned char *)value->data + *at, width);
        if (side > INT64_MAX)
            return false;
        out->shape[i] = (int64_t)side;
    }
    return true;
}

/* [type] [rank << 2 | width of dimensions] [dimensions] of what the encoding does not say */
static bool head_of_ndarray(const stk__tabled_column *c, const stk_slice *value, uint64_t *at,
                            stk__block *out)
{
    const unsigned char *bytes = value->data;

    if (!c->typed) {
        if (value->size < 1)
            return false;
        out->dtype = mds_dtype(bytes[(*at)++]);
    }
    if (value->size - *at < 1)
        return false;
    const unsigned packed = bytes[(*at)++];
    return take_shape(value, at, packed >> 2, 1u << (packed & 3), load_le, out);
}

/* u32 type, u32 rank, u32 dimensions */
static bool head_of_tensor(const stk__tabled_column *c, const stk_slice *value, uint64_t *at,
                           stk__block *out)
{
    const bool torch = c->form == STK__COLUMN_TENSOR;
    uint64_t (*load)(const unsigned char *, uint32_t) = torch ? load_be : load_le;

    if (value->size < 8)
        return false;
    const uint64_t type = load(value->data, 4);
    out->dtype = torch ? stk__litdata_torch_dtype(type) : stk__litdata_numpy_dtype(type);
    *at = 8;
    return take_shape(value, at, load((const unsigned char *)value->data + 4, 4), 4, load, out);
}

/* u32 width, height, length of the mode; the mode */
static bool head_of_pil(const stk_slice *value, uint64_t *at, stk__block *out)
{
    static const struct {
        const char *mode;
        int64_t channels;
    } modes[] = {{"RGB", 3}, {"L", 1}, {"RGBA", 4}, {"CMYK", 4}, {"YCbCr", 3}, {"HSV", 3}};
    const unsigned char *bytes = value->data;
    uint64_t mode;

    if (value->size < 12 || (mode = load_le(bytes + 8, 4)) > value->size - 12)
        return false;
    *at = 12 + mode;
    out->dtype = STK_DTYPE_NONE;
    for (size_t i = 0; i < 3; i++)
        if (strlen(modes[i].mode) == mode && memcmp(bytes + 12, modes[i].mode, mode) == 0) {
            out->dtype = STK_UINT8;
            out->rank = 3;
            out->shape[0] = (int64_t)load_le(bytes + 4, 4);
            out->shape[1] = (int64_t)load_le(bytes, 4);
            out->shape[2] = modes[i].channels;
        }
    return true;
}

/* What the encoding says, or as many numbers as there are. */
static bool head_of_numbers(const stk__tabled_column *c, const stk_slice *value, stk__block *out)
{
    const uint64_t item = stk_dtype_size(c->dtype);

    out->rank = c->shaped ? c->rank : 1;
    if (c->shaped)
        memcpy(out->shape, c->shape, sizeof out->shape);
    else
        out->shape[0] = (int64_t)(value->size / item);
    return c->shaped || value->size % item == 0;
}

bool stk__column_block(const stk__tabled_column *column, const stk_slice *value, stk__block *out,
                       const char **reason)
{
    uint64_t at = 0;
    bool sound = false;

    *out = (stk__block){.dtype = column->dtype};
    switch (column->form) {
    case STK__COLUMN_NDARRAY:
        sound = head_of_ndarray(column, value, &at, out);
        break;
    case STK__COLUMN_TENSOR:
    case STK__COLUMN_NUMPY:
        sound = head_of_tensor(column, value, &at, out);
        break;
    case STK__COLUMN_PIL:
        sound = head_of_pil(value, &at, out);
        break;
    default:
        sound = head_of_numbers(column, value, out);
    }
    *reason = "a column holds an array of a type or mode that is not read; leave the column out by "
              "fields=COLUMN,...";
    if (sound && out->dtype == STK_DTYPE_NONE)
        return false;
    *reason = "a column holds an array whose bytes are not those of its shape; copy or download "
              "the shard again";
    if (!sound || at > value->size ||
        !stk__shape_bytes(out->shape, out->rank, stk_dtype_size(out->dtype), &out->bytes))
        return false;
    out->data = (const unsigned char *)value->data + at;
    return out->bytes == value->size - at;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* Type and shape are those that the field promises. */
static bool suits(const stk__tabled_column *c, const stk__block *b)
{
    if (b->dtype != c->dtype || b->rank != c->rank)
        return false;
    for (uint32_t i = c->varies; i < b->rank; i++)
        if (b->shape[i] != c->shape[i])
            return false;
    return true;
}

static const char *give_block(const stk__tabled_column *c, const stk_slice *value, stk_value *out)
{
    const char *reason = NULL;
    stk__block b;

    if (!stk__column_block(c, value, &b, &reason))
        return reason;
    if (!suits(c, &b))
        return "an array has another type or shape than those of the records that were looked at "
               "when the dataset was opened; if its first dimension varies, name the column in "
               "varying=COLUMN,...";
    if (c->widen) {
        c->widen(b.data, 1, out->out);
        out->data = out->out;
        out->size = sizeof(int64_t);
        return NULL;
    }
    out->data = b.data;
    out->size = b.bytes;
    if (!c->varies) { /* transforms and slabs want it aligned */
        memcpy(out->out, b.data, b.bytes);
        out->data = out->out;
    }
    return NULL;
}

/* Decimal digits with a sign, as Python's str() writes them. */
static const char *give_digits(const stk_slice *value, stk_value *out)
{
    static const char reason[] = "a column of str_int holds no number of 64 bits";
    const char *at = value->data, *end = at + value->size;
    int64_t number = 0;

    const bool negative = at < end && *at == '-';
    at += negative;
    if (at == end)
        return reason;
    for (; at < end; at++)
        if (*at < '0' || *at > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, *at - '0', &number))
            return reason;
    if (!negative && __builtin_sub_overflow(0, number, &number))
        return reason;
    memcpy(out->out, &number, sizeof number);
    out->data = out->out;
    out->size = sizeof number;
    return NULL;
}

static const char *give(const stk__tabled_column *c, const stk_slice *value, stk_value *out)
{
    switch (c->form) {
    case STK__COLUMN_IMAGE:
        if (!value->size)
            return "its picture is empty; write the dataset again";
        /* fall through */
    case STK__COLUMN_BYTES:
        out->data = value->data;
        out->size = value->size;
        return NULL;
    case STK__COLUMN_DIGITS:
        return give_digits(value, out);
    default:
        return give_block(c, value, out);
    }
}

void stk__tabled_prepare(stk_dataset *dataset, stk_sample *samples, size_t n)
{
    const stk__tabled *t = ((const stk__records *)dataset)->state;
    stk_slice values[STK__TABLED_MAX_COLUMNS];

    for (size_t i = 0; i < n; i++) {
        stk_sample *s = stk_sample_at(samples, i);
        const char *reason = NULL;
        if (stk__tabled_cut(t, s->needs[0].data, s->needs[0].size, values, &reason))
            reason = NULL;
        for (uint32_t k = 0; !reason && k < t->num_columns; k++) {
            const stk__tabled_column *c = &t->columns[k];
            if (c->field >= 0)
                reason = give(c, &values[k], stk_sample_value(s, (uint32_t)c->field));
        }
        if (reason) {
            s->status = STK_EFORMAT;
            s->reason = reason;
        }
    }
}

/* No value is longer than its record. */
void stk__tabled_bound(const stk__records *set, const stk__record_part *parts, uint32_t n,
                       stk_locator *to, size_t i)
{
    (void)n;
    for (uint32_t f = 0; f < set->base.num_fields; f++)
        if (set->base.fields[f].layout != STK_FIXED)
            to->bytes(to, i, f, parts[0].length);
}
