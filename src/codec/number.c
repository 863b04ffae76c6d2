/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's casts between bool, integers and floats of all sizes and both byte orders, as two steps
 * through 64 bits, neither of which rounds twice. */
#include "codec/number.h"

/* "i4", "M8[ns]", "?": behind the mark of the byte order. */
static bool parse_letter(const char *text, stk__number *n)
{
    bool time = *text == 'M' || *text == 'm';

    if (*text == '?' && !text[1]) {
        *n = (stk__number){.kind = 'b', .size = 1};
        return true;
    }
    if (!*text || !strchr("biufMm", *text) || text[1] < '1' || text[1] > '8')
        return false;
    if (text[2] && !(time && text[2] == '['))
        return false;
    n->kind = (char)(time ? 'i' : *text);
    n->size = (uint8_t)(text[1] - '0');
    return true;
}

bool stk__number_parse(const char *text, stk__number *out)
{
    stk_dtype dtype = stk_dtype_parse(text);
    stk__number n = {0};

    if (dtype != STK_DTYPE_NONE) {
        if (dtype == STK_BFLOAT16 || dtype == STK_COMPLEX64 || dtype == STK_COMPLEX128)
            return false;
        n = (stk__number){.kind = *text, .size = (uint8_t)stk_dtype_size(dtype)};
    } else {
        bool marked = *text && strchr("<>|=", *text), big = *text == '>';
        if (!parse_letter(text + marked, &n))
            return false;
        n.swap = big && n.size > 1;
    }
    if ((n.size & (n.size - 1)) || (n.kind == 'b' && n.size != 1) || (n.kind == 'f' && n.size == 1))
        return false;
    *out = n;
    return true;
}

char stk__number_class(stk__number number)
{
    return number.kind == 'i' || number.kind == 'f' ? number.kind : 'u';
}

uint16_t stk__double_to_half(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    int exponent = (int)(bits >> 52 & 2047) - 1023;
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 1024) {
        uint16_t rest = (uint16_t)(fraction >> 42);
        if (fraction && !rest) /* a NaN stays one */
            rest = 1;
        return (uint16_t)(sign | 0x7c00 | rest);
    }
    if (exponent < -25)
        return sign;
    if (exponent > 15)
        return (uint16_t)(sign | 0x7c00);
    /* Cut to 10 bits (fewer below 2^-14) and round; a carry goes on into the exponent. */
    int shift = exponent < -14 ? 42 + (-14 - exponent) : 42;
    uint64_t whole = fraction | UINT64_C(1) << 52;
    uint64_t kept = whole >> shift, rest = whole & ((UINT64_C(1) << shift) - 1);
    uint64_t half = UINT64_C(1) << (shift - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++;
    uint64_t base = exponent < -14 ? 0 : (uint64_t)(exponent + 14) << 10;
    return (uint16_t)(sign | (base + kept));
}

static int64_t int_of(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static uint64_t unsigned_of(double x)
{
    if (x >= 0x1p63 && x < 0x1p64)
        return (uint64_t)x;
    return (uint64_t)int_of(x);
}

#define LOAD(type, member, count, in, out)                                                         \
    for (size_t n = 0; n < (count); n++) {                                                         \
        type x;                                                                                    \
        memcpy(&x, (in) + n * sizeof x, sizeof x);                                                 \
        (out)->member[n] = x;                                                                      \
    }

static void load_native(stk__number number, const uint8_t *in, size_t count, stk__wide *out)
{
    switch (number.kind << 4 | number.size) {
    case 'b' << 4 | 1:
        for (size_t n = 0; n < count; n++)
            out->u[n] = in[n] != 0;
        break;
    case 'i' << 4 | 1:
        LOAD(int8_t, i, count, in, out)
        break;
    case 'i' << 4 | 2:
        LOAD(int16_t, i, count, in, out)
        break;
    case 'i' << 4 | 4:
        LOAD(int32_t, i, count, in, out)
        break;
    case 'u' << 4 | 1:
        LOAD(uint8_t, u, count, in, out)
        break;
    case 'u' << 4 | 2:
        LOAD(uint16_t, u, count, in, out)
        break;
    case 'u' << 4 | 4:
        LOAD(uint32_t, u, count, in, out)
        break;
    case 'f' << 4 | 4:
        LOAD(float, f, count, in, out)
        break;
    case 'f' << 4 | 2:
        for (size_t n = 0; n < count; n++) {
            uint16_t half;
            memcpy(&half, in + 2 * n, sizeof half);
            out->f[n] = stk__half_to_double(half);
        }
        break;
    default: /* 8 bytes of any kind */
        memcpy(out, in, count * 8);
    }
}

#define STORE(type, expression, count, out)                                                        \
    for (size_t n = 0; n < (count); n++) {                                                         \
        type x = (type)(expression);                                                               \
        memcpy((out) + n * sizeof x, &x, sizeof x);                                                \
    }

/* Integers of one size are alike modulo their range, signed or not. */
#define STORE_INTEGER(bits)                                                                        \
    if (class != 'f')                                                                              \
        STORE(uint##bits##_t, in->u[n], count, out)                                                \
    else if (number.kind == 'i')                                                                   \
        STORE(uint##bits##_t, int_of(in->f[n]), count, out)                                        \
    else                                                                                           \
        STORE(uint##bits##_t, unsigned_of(in->f[n]), count, out)

#define STORE_FLOAT(type, convert)                                                                 \
    if (class == 'f')                                                                              \
        STORE(type, convert(in->f[n]), count, out)                                                 \
    else if (class == 'i')                                                                         \
        STORE(type, convert(in->i[n]), count, out)                                                 \
    else                                                                                           \
        STORE(type, convert(in->u[n]), count, out)

static void store_native(stk__number number, char class, const stk__wide *in, size_t count,
                         uint8_t *out)
{
    switch (number.kind << 4 | number.size) {
    case 'b' << 4 | 1:
        if (class == 'f')
            STORE(uint8_t, in->f[n] != 0, count, out)
        else
            STORE(uint8_t, in->u[n] != 0, count, out)
        break;
    case 'f' << 4 | 2:
        /* An integer beyond 2^53 is beyond half precision's range as well: no rounding twice. */
        STORE_FLOAT(uint16_t, stk__double_to_half)
        break;
    case 'f' << 4 | 4:
        STORE_FLOAT(float, (float))
        break;
    case 'f' << 4 | 8:
        STORE_FLOAT(double, (double))
        break;
    default:
        if (number.size == 1) {
            STORE_INTEGER(8)
        } else if (number.size == 2) {
            STORE_INTEGER(16)
        } else if (number.size == 4) {
            STORE_INTEGER(32)
        } else {
            STORE_INTEGER(64)
        }
    }
}

static void swap(uint8_t *data, size_t count, size_t size)
{
    for (size_t n = 0; n < count; n++)
        for (size_t k = 0; k < size / 2; k++) {
            uint8_t *a = data + n * size + k, *b = data + n * size + size - 1 - k;
            uint8_t keep = *a;
            *a = *b;
            *b = keep;
        }
}

void stk__number_load(stk__number number, const uint8_t *in, size_t count, stk__wide *out)
{
    uint8_t room[STK__WIDE_COUNT * 8];

    if (number.swap) {
        memcpy(room, in, count * number.size);
        swap(room, count, number.size);
        in = room;
    }
    load_native(number, in, count, out);
}

void stk__number_store(stk__number number, char class, const stk__wide *in, size_t count,
                       uint8_t *out)
{
    store_native(number, class, in, count, out);
    if (number.swap)
        swap(out, count, number.size);
}
