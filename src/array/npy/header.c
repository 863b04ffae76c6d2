/* SPDX-License-Identifier: Apache-2.0 */
#include "array/npy/npy.h"

#include <stdio.h>

#include "base/text.h"

#define DESCR_MAX 64 /* bytes of a type's name */

/* A place in the text of the header. */
typedef struct cursor {
    const char *begin, *at, *end;
    uint64_t base; /* offset of `begin` in the file */
    const char *key;
    stk_error *err;
} cursor;

static stk_status wrong(const cursor *c, const char *what)
{
    char found[32];
    if (c->at >= c->end)
        snprintf(found, sizeof found, "the end");
    else if (*c->at >= ' ' && *c->at <= '~')
        snprintf(found, sizeof found, "'%c'", *c->at);
    else
        snprintf(found, sizeof found, "byte 0x%02x", (unsigned char)*c->at);
    uint64_t offset = c->base + (uint64_t)(c->at - c->begin);
    return stk__fail_at(c->err, STK_EFORMAT, STK_STAGE_DATASET, c->key, offset,
                        "the npy header of %s is damaged: %s at byte %llu where %s belongs; write "
                        "the file again with numpy.save",
                        c->key, found, (unsigned long long)offset, what);
}

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

/* Take `mark` if it comes next. */
static bool take(cursor *c, char mark)
{
    skip_space(c);
    if (c->at >= c->end || *c->at != mark)
        return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

static stk_status read_string(cursor *c, char *text, size_t size)
{
    size_t length = 0;

    skip_space(c);
    if (c->at >= c->end || (*c->at != '\'' && *c->at != '"'))
        return wrong(c, "a quoted word");
    char quote = *c->at++;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (*c->at < ' ' || *c->at > '~' || *c->at == '\\' || length + 1 >= size)
            return wrong(c, "the end of a short word");
        text[length++] = *c->at;
    }
    text[length] = 0;
    if (!take(c, quote))
        return wrong(c, "a closing quote");
    return STK_OK;
}

static stk_status read_dimension(cursor *c, int64_t *out)
{
    skip_space(c);
    if (c->at < c->end && *c->at == '-')
        return wrong(c, "a dimension of 0 or more");
    if (c->at >= c->end || *c->at < '0' || *c->at > '9')
        return wrong(c, "a dimension");
    for (*out = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *c->at - '0', out))
            return wrong(c, "a dimension below 2^63");
    if (c->at < c->end && *c->at == 'L') /* as Python 2 wrote it */
        c->at++;
    return STK_OK;
}

/* "()", "(n,)", "(n, m)", "(n, m,)" */
static stk_status read_shape(cursor *c, stk__npy_header *h)
{
    if (!take(c, '('))
        return wrong(c, "'('");
    for (h->rank = 0; !take(c, ')');) {
        if (h->rank == STK_MAX_RANK)
            return stk__fail_at(c->err, STK_EKIND, STK_STAGE_DATASET, c->key,
                                c->base + (uint64_t)(c->at - c->begin),
                                "%s has more than %d dimensions; reshape the array", c->key,
                                STK_MAX_RANK);
        STK_TRY(read_dimension(c, &h->shape[h->rank++]));
        if (!take(c, ',')) {
            if (h->rank == 1 || !take(c, ')'))
                return wrong(c, "','");
            return STK_OK;
        }
    }
    return STK_OK;
}

static stk_status refuse(const cursor *c, const char *descr, const char *what, const char *remedy)
{
    return stk__fail_at(
        c->err, STK_EKIND, STK_STAGE_DATASET, c->key, c->base + (uint64_t)(c->at - c->begin),
        "%s is an array of %s (dtype %s), which is not read: %s", c->key, what, descr, remedy);
}

stk_dtype stk__npy_dtype(const char *name)
{
    static const struct {
        char name[4];
        stk_dtype dtype;
    } types[] = {
        {"b1", STK_BOOL},      {"i1", STK_INT8},        {"i2", STK_INT16},   {"i4", STK_INT32},
        {"i8", STK_INT64},     {"u1", STK_UINT8},       {"u2", STK_UINT16},  {"u4", STK_UINT32},
        {"u8", STK_UINT64},    {"f2", STK_FLOAT16},     {"f4", STK_FLOAT32}, {"f8", STK_FLOAT64},
        {"c8", STK_COMPLEX64}, {"c16", STK_COMPLEX128},
    };

    for (size_t i = 0; i < STK_COUNT(types); i++)
        if (!strcmp(name, types[i].name))
            return types[i].dtype;
    return STK_DTYPE_NONE;
}

/* A type as "<f4": byte order, kind, bytes; or a list, which is a structured type. */
static stk_status read_descr(cursor *c, stk__npy_header *h)
{
    char descr[DESCR_MAX];

    skip_space(c);
    if (c->at < c->end && (*c->at == '[' || *c->at == '(' || *c->at == '{'))
        return refuse(c, "[...]", "records", "save each of its fields to a file of its own");
    STK_TRY(read_string(c, descr, sizeof descr));
    const char *name = descr + (descr[0] && strchr("<>|=", descr[0]) != NULL);
    if (name[0] == 'O')
        return refuse(c, descr, "Python objects",
                      "they are pickles, which can run code; save numbers of one shape");
    if (name[0] == 'V')
        return refuse(c, descr, "raw bytes or of a type that NumPy itself does not know",
                      "save bfloat16 and the like as float32");
    if (name[0] == 'S' || name[0] == 'a' || name[0] == 'U' || name[0] == 'T')
        return refuse(c, descr, "texts", "save numbers that stand for them");
    h->dtype = stk__npy_dtype(name);
    /* Times are counts of a unit, which the letters in brackets name. */
    if ((name[0] == 'M' || name[0] == 'm') && name[1] == '8' && (name[2] == '[' || !name[2]))
        h->dtype = STK_INT64;
    if (h->dtype == STK_DTYPE_NONE)
        return refuse(c, descr, "a type unknown here",
                      "save it as bool, int, uint, float or complex of usual size");
    size_t size = stk_dtype_size(h->dtype);
    bool complex = h->dtype == STK_COMPLEX64 || h->dtype == STK_COMPLEX128;
    h->swap = descr[0] == '>' && size > 1 ? (uint32_t)(complex ? size / 2 : size) : 0;
    return STK_OK;
}

static stk_status read_bool(cursor *c, bool *out)
{
    *out = take_word(c, "True");
    if (!*out && !take_word(c, "False"))
        return wrong(c, "True or False");
    return STK_OK;
}

/* The dictionary: each of the three keys once, in any order, and nothing else. */
static stk_status read_dictionary(cursor *c, stk__npy_header *h)
{
    enum { DESCR = 1, FORTRAN = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;

    if (!take(c, '{'))
        return wrong(c, "'{'");
    while (!take(c, '}')) {
        char name[DESCR_MAX];
        skip_space(c);
        cursor before = *c;
        STK_TRY(read_string(c, name, sizeof name));
        int key = !strcmp(name, "descr")           ? DESCR
                  : !strcmp(name, "fortran_order") ? FORTRAN
                  : !strcmp(name, "shape")         ? SHAPE
                                                   : 0;
        if (!key || (seen & key))
            return wrong(&before, "one each of descr, fortran_order and shape");
        seen |= key;
        if (!take(c, ':'))
            return wrong(c, "':'");
        STK_TRY(key == DESCR     ? read_descr(c, h)
                : key == FORTRAN ? read_bool(c, &h->fortran)
                                 : read_shape(c, h));
        if (take(c, ','))
            continue;
        if (!take(c, '}'))
            return wrong(c, "',' or '}'");
        break;
    }
    if (seen != ALL)
        return wrong(c, "descr, fortran_order and shape before this");
    skip_space(c);
    return c->at == c->end ? STK_OK : wrong(c, "nothing but spaces");
}

stk_status stk__npy_measure(const void *data, uint64_t length, uint64_t file_size, const char *key,
                            uint64_t *header, stk_error *err)
{
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    const unsigned char *p = data;

    if (memcmp(p, magic, STK_MIN(length, sizeof magic)) != 0 || !length)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, 0,
                            "%s does not begin with \\x93NUMPY: it is no npy file; write it with "
                            "numpy.save",
                            key);
    if (length < STK_NPY_PREAMBLE)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_DATASET, key, length,
                            "%s ends after %llu bytes, within its npy header; copy or write it "
                            "again",
                            key, (unsigned long long)length);
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return stk__fail_at(err, STK_EKIND, STK_STAGE_DATASET, key, 6,
                            "%s is of npy version %u.%u; 1.0, 2.0 and 3.0 are read", key, p[6],
                            p[7]);
    uint64_t fixed = p[6] == 1 ? 10 : 12;
    uint64_t text = (uint64_t)p[8] | (uint64_t)p[9] << 8;
    if (p[6] > 1)
        text |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
    if (text > STK_NPY_TEXT_MAX)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_DATASET, key, 8,
                            "the npy header of %s says it has %llu bytes and %u are the most; "
                            "write the file again with numpy.save",
                            key, (unsigned long long)text, STK_NPY_TEXT_MAX);
    if (fixed + text > file_size)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_DATASET, key, file_size,
                            "%s ends after %llu bytes, within its npy header of %llu; copy or "
                            "write it again",
                            key, (unsigned long long)file_size, (unsigned long long)(fixed + text));
    *header = fixed + text;
    return STK_OK;
}

stk_status stk__npy_parse(const void *data, uint64_t length, uint64_t file_size, bool trailing,
                          const char *key, stk__npy_header *out, stk_error *err)
{
    const char *text = data;
    uint64_t fixed = text[6] == 1 ? 10 : 12;
    uint64_t end = 0;
    char shape[256];

    memset(out, 0, sizeof *out);
    cursor c = {text + fixed, text + fixed, text + length, fixed, key, err};
    STK_TRY(read_dictionary(&c, out));
    stk__shape_tuple(out->shape, out->rank, shape, sizeof shape);
    out->offset = length;
    if (!stk__shape_bytes(out->shape, out->rank, stk_dtype_size(out->dtype), &out->bytes) ||
        !stk__add_size(out->offset, out->bytes, &end))
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, fixed,
                            "%s says that its shape is %s of %s, more bytes than can be; write it "
                            "again with numpy.save",
                            key, shape, stk_dtype_name(out->dtype));
    if (end > file_size)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_DATASET, key, file_size,
                            "%s ends after %llu bytes where its shape %s of %s asks for %llu; "
                            "copy or write it again",
                            key, (unsigned long long)file_size, shape, stk_dtype_name(out->dtype),
                            (unsigned long long)end);
    if (end < file_size && !trailing)
        return stk__fail_at(err, STK_EFORMAT, STK_STAGE_DATASET, key, end,
                            "%s has %llu bytes where its shape %s of %s asks for %llu; write it "
                            "again, or give allow_trailing=true to ignore what follows",
                            key, (unsigned long long)file_size, shape, stk_dtype_name(out->dtype),
                            (unsigned long long)end);
    return STK_OK;
}

bool stk__npy_same(const stk__npy_header *a, const stk__npy_header *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

void stk__npy_swap(const void *from, void *to, uint64_t bytes, uint32_t group)
{
    const unsigned char *f = from;
    unsigned char *t = to;

    if (group == 2)
        for (uint64_t i = 0; i + 2 <= bytes; i += 2) {
            uint16_t v;
            memcpy(&v, f + i, sizeof v);
            v = __builtin_bswap16(v);
            memcpy(t + i, &v, sizeof v);
        }
    else if (group == 4)
        for (uint64_t i = 0; i + 4 <= bytes; i += 4) {
            uint32_t v;
            memcpy(&v, f + i, sizeof v);
            v = __builtin_bswap32(v);
            memcpy(t + i, &v, sizeof v);
        }
    else
        for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
            uint64_t v;
            memcpy(&v, f + i, sizeof v);
            v = __builtin_bswap64(v);
            memcpy(t + i, &v, sizeof v);
        }
}
