/* SPDX-License-Identifier: Apache-2.0 */
/* A run of lines -> a vector for each column. */
#include <float.h>

#include "base/bytes.h"
#include "base/digits.h"
#include "base/options.h"
#include "dataset/table/csv.h"

#define MOST_NUMBER 64u /* bytes of one that takes more than a fast path */
#define MOST_DIGITS 19u /* that a mantissa of 64 bits has for certain */

/* ---- Numbers --------------------------------------------------------------------------------- */

static void trim(const stk__csv_cell *cell, const char **begin, const char **end)
{
    *begin = cell->text;
    *end = cell->text + cell->length;
    while (*begin < *end && **begin == ' ')
        ++*begin;
    while (*begin < *end && (*end)[-1] == ' ')
        --*end;
}

static bool digits_of(const char *at, const char *end, uint64_t *out)
{
    *out = 0;
    if (at == end)
        return false;
    for (; at < end; at++)
        if (!stk__is_digit(*at) || !stk__mul_size(*out, 10, out) ||
            !stk__add_size(*out, (uint64_t)(*at - '0'), out))
            return false;
    return true;
}

bool stk__csv_integer(const stk__csv_cell *cell, stk_dtype dtype, void *out)
{
    const size_t size = stk_dtype_size(dtype);
    const bool is_signed =
        dtype == STK_INT8 || dtype == STK_INT16 || dtype == STK_INT32 || dtype == STK_INT64;
    const char *at, *end;
    uint64_t value;

    trim(cell, &at, &end);
    const bool minus = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (!digits_of(at, end, &value))
        return false;
    const uint64_t all = UINT64_MAX >> (64 - 8 * size);
    if (value > (is_signed ? all / 2 + minus : minus ? 0 : all))
        return false;
    value = minus ? 0 - value : value;
    memcpy(out, &value, size); /* little-endian, as all machines that it is built for */
    return true;
}

/* Eight digits, the first the highest, as one number; false: not all are. */
static bool eight_digits(const char *at, const char *end, uint64_t *out)
{
    uint64_t v;

    if (end - at < 8)
        return false;
    memcpy(&v, at, sizeof v);
    if (((v + UINT64_C(0x4646464646464646)) | (v - UINT64_C(0x3030303030303030))) &
        UINT64_C(0x8080808080808080))
        return false;
    v -= UINT64_C(0x3030303030303030);
    v = v * 10 + (v >> 8); /* pairs in every second byte, then fours, then all */
    *out = ((v & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
            (v >> 16 & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
           32;
    return true;
}

/* mantissa * 10^power; `exact`: that is all of it. */
typedef struct decimal {
    uint64_t mantissa;
    int64_t power;
    uint32_t digits; /* of the mantissa, zeros in front left out */
    bool exact;
} decimal;

/* Digits that go on a mantissa; how many there were. */
static uint32_t add_digits(const char **at, const char *end, decimal *d)
{
    const char *p = *at;
    uint64_t eight;

    for (; d->digits + 8 <= MOST_DIGITS && eight_digits(p, end, &eight); p += 8) {
        d->mantissa = d->mantissa * 100000000 + eight;
        d->digits = d->mantissa ? d->digits + 8 : 0;
    }
    for (; p < end && stk__is_digit(*p); p++) {
        if (d->digits == MOST_DIGITS) {
            d->exact = false;
            continue;
        }
        d->mantissa = d->mantissa * 10 + (uint64_t)(*p - '0');
        d->digits += d->mantissa != 0;
    }
    const uint32_t n = (uint32_t)(p - *at);
    *at = p;
    return n;
}

/* Digits, a point and an exponent. Where they end; NULL: this is no number. */
static const char *read_decimal(const char *at, const char *end, decimal *d)
{
    uint32_t places = 0;
    uint64_t e = 0;

    *d = (decimal){.exact = true};
    const uint32_t before = add_digits(&at, end, d);
    if (at < end && *at == '.') {
        at++;
        places = add_digits(&at, end, d);
    }
    if (!before && !places)
        return NULL;
    bool minus = false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        minus = at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        const char *digits = at;
        while (at < end && stk__is_digit(*at))
            at++;
        if (!digits_of(digits, at, &e))
            return NULL;
    }
    d->exact = d->exact && e <= 400;
    d->power = d->exact ? (minus ? -(int64_t)e : (int64_t)e) - (int64_t)places : 0;
    return at;
}

/*
 * The double nearest to a decimal; false: not this way. Up to 2^53, and powers of ten up to 22,
 * doubles have both numbers exactly, and one operation rounds once [Clinger 1990]. With 64 bits for
 * a mantissa, as x86 has, so it is of 19 digits and powers up to 27, and what is rounded again to
 * 53 bits is right, unless the first rounding ended half way between two doubles.
 */
static bool scale(const decimal *d, double *out)
{
    static const long double powers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                         1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                         1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                         1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    const uint64_t power = (uint64_t)(d->power < 0 ? -d->power : d->power);

    if (!d->exact)
        return false;
    if (d->mantissa < UINT64_C(1) << 53 && power <= 22) {
        const double m = (double)d->mantissa, p = (double)powers[power];
        *out = d->power < 0 ? m / p : m * p;
        return true;
    }
#if LDBL_MANT_DIG == 64
    if (power >= STK_COUNT(powers))
        return false;
    const long double m = d->mantissa;
    const long double value = d->power < 0 ? m / powers[power] : m * powers[power];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    *out = (double)value;
    return (bits & 0x7ff) != 0x400;
#else
    return false;
#endif
}

static bool is_word(const char *at, const char *end, const char *word)
{
    return stk__option_same(at, (size_t)(end - at), word, strlen(word));
}

static bool is_named(const char *at, const char *end)
{
    return is_word(at, end, "nan") || is_word(at, end, "inf") || is_word(at, end, "infinity");
}

bool stk__csv_real(const stk__csv_cell *cell, double *out)
{
    char text[MOST_NUMBER];
    const char *at, *end, *stop;
    decimal d;

    trim(cell, &at, &end);
    const bool minus = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (is_named(at, end)) {
        const double value = *at == 'n' || *at == 'N' ? __builtin_nan("") : __builtin_inf();
        *out = minus ? -value : value;
        return true;
    }
    if (read_decimal(at, end, &d) != end)
        return false;
    if (!scale(&d, out)) {
        if ((size_t)(end - at) >= sizeof text)
            return false;
        memcpy(text, at, (size_t)(end - at));
        text[end - at] = 0;
        if (!stk__option_number(text, out, &stop) || *stop)
            return false;
    }
    if (minus)
        *out = -*out;
    return true;
}

bool stk__csv_bool(const stk__csv_cell *cell, uint8_t *out)
{
    const char *at, *end;

    trim(cell, &at, &end);
    *out = is_word(at, end, "true") || is_word(at, end, "1");
    return *out || is_word(at, end, "false") || is_word(at, end, "0");
}

/* ---- Room ------------------------------------------------------------------------------------ */

static uint64_t room_of(const stk__table_column *c, uint64_t rows)
{
    const uint64_t values = c->kind == STK__COLUMN_BYTES ? (rows + 1) * sizeof(uint32_t)
                                                         : rows * stk_dtype_size(c->dtype);

    return stk__round_up(rows, 8) + stk__round_up(values, 8);
}

/* `rows` and `bytes` are those of a piece: below 2^32. */
uint64_t stk__csv_decoded(const stk__table_column *columns, const bool *wanted, uint32_t n,
                          uint64_t rows, uint64_t bytes)
{
    uint64_t decoded = (uint64_t)n * sizeof(stk__table_vector) + stk__round_up(bytes, 8) +
                       stk__csv_lines_room(rows);

    for (uint32_t i = 0; i < n; i++)
        if (wanted[i])
            decoded += room_of(&columns[i], rows) + 8; /* texts begin at a multiple of 8 */
    return decoded;
}

/* ---- Vectors --------------------------------------------------------------------------------- */

typedef struct decoding {
    const stk__table_column *columns;
    const stk__table_piece *piece;
    const char *at, *end;
    char *out;
    stk__table_vector *vectors;
    uint32_t *lines;
    uint64_t line; /* of the file, at `at` */
    char delimiter;
    bool strict;
} decoding;

static uint8_t *nulls_of(const decoding *d, uint32_t c)
{
    return (uint8_t *)d->out + d->vectors[c].nulls;
}

static uint32_t *offsets_of(const decoding *d, uint32_t c)
{
    return (uint32_t *)(void *)(d->out + d->vectors[c].offsets);
}

/* The length without doubled quotes. */
static size_t plain_length(const stk__csv_cell *cell)
{
    size_t quotes = 0;

    for (size_t i = 0; cell->doubled && i < cell->length; i++)
        quotes += cell->text[i] == '"';
    return cell->length - quotes / 2;
}

static void copy_plain(const stk__csv_cell *cell, char *to)
{
    if (!cell->doubled) {
        memcpy(to, cell->text, cell->length);
        return;
    }
    for (size_t i = 0; i < cell->length; i++) {
        *to++ = cell->text[i];
        i += cell->text[i] == '"';
    }
}

static bool is_null(const stk__csv_cell *cell)
{
    return !cell->length && !cell->quoted;
}

static void put_real(stk_dtype dtype, double value, char *to)
{
    const float single = (float)value;

    if (dtype == STK_FLOAT32)
        memcpy(to, &single, sizeof single);
    else
        memcpy(to, &value, sizeof value);
}

static void put_number(const decoding *d, uint32_t c, uint64_t row, const stk__csv_cell *cell)
{
    const stk_dtype dtype = d->columns[c].dtype;
    const size_t size = stk_dtype_size(dtype);
    char *to = d->out + d->vectors[c].values + row * size;
    double real = 0;

    if (dtype == STK_BOOL) {
        if (!stk__csv_bool(cell, (uint8_t *)to))
            nulls_of(d, c)[row] = STK__CSV_NO_BOOL;
    } else if (!stk__dtype_is_float(dtype)) {
        if (!stk__csv_integer(cell, dtype, to))
            nulls_of(d, c)[row] = STK__CSV_NO_INTEGER;
    } else if (!stk__csv_real(cell, &real)) {
        nulls_of(d, c)[row] = STK__CSV_NO_REAL;
    } else {
        put_real(dtype, real, to);
    }
}

/* A number of digits that nothing surrounds, up to what ends its cell: as most are, and quickly.
 * False: nothing was taken. */
static bool take_plain(decoding *d, uint32_t c, uint64_t row, stk__csv_end *end)
{
    const stk_dtype dtype = d->columns[c].dtype;
    const bool real = dtype == STK_FLOAT64 || dtype == STK_FLOAT32;
    const bool minus = d->at < d->end && *d->at == '-';
    char *to = d->out + d->vectors[c].values + row * (dtype == STK_FLOAT32 ? 4 : 8);
    const char *at = d->at + minus;
    decimal number = {.exact = true};
    double value;

    if (real)
        at = read_decimal(at, d->end, &number);
    else if (dtype != STK_INT64 || !add_digits(&at, d->end, &number))
        return false;
    if (!at || at == d->end || (*at != d->delimiter && *at != '\n') ||
        (real ? !scale(&number, &value) : !number.exact || number.mantissa > INT64_MAX))
        return false;
    if (real)
        put_real(dtype, minus ? -value : value, to);
    else
        memcpy(to, &(int64_t){minus ? -(int64_t)number.mantissa : (int64_t)number.mantissa}, 8);
    *end = *at == '\n' ? STK__CSV_LINE : STK__CSV_CELL;
    d->at = at + 1;
    return true;
}

/* One line; texts are only measured, or only copied. False: it is none of as many cells. */
static bool take_line(decoding *d, uint64_t row, bool copy)
{
    const uint32_t n = d->piece->columns;
    stk__csv_cell cell;
    stk__csv_end end = STK__CSV_CELL;

    d->line += stk__csv_skip_empty(&d->at, d->end);
    if (d->at == d->end)
        return false;
    d->lines[row] = (uint32_t)STK_MIN(d->line, UINT32_MAX);
    d->line++;
    for (uint32_t c = 0; c < n; c++) {
        if (end != STK__CSV_CELL)
            return false;
        const stk__table_column *column = &d->columns[c];
        if (column->kind == STK__COLUMN_VALUES && !copy && take_plain(d, c, row, &end))
            continue;
        end = stk__csv_next(&d->at, d->end, d->delimiter, &cell);
        for (size_t i = 0; cell.quoted && i < cell.length; i++)
            d->line += cell.text[i] == '\n';
        if (column->kind == STK__COLUMN_REFUSED)
            continue;
        if (column->kind == STK__COLUMN_BYTES) {
            uint32_t *offsets = offsets_of(d, c);
            uint8_t *null = &nulls_of(d, c)[row];
            if (!copy) {
                *null = is_null(&cell);
                if (!*null && d->strict && column->text && !stk__utf8_valid(cell.text, cell.length))
                    *null = STK__CSV_NO_UTF8;
                offsets[row + 1] = offsets[row] + (uint32_t)(*null ? 0 : plain_length(&cell));
            } else if (!*null) {
                copy_plain(&cell, d->out + d->vectors[c].values + offsets[row]);
            }
        } else if (!copy && !cell.length) {
            nulls_of(d, c)[row] = 1;
        } else if (!copy) {
            put_number(d, c, row, &cell);
        }
    }
    return end == STK__CSV_LINE;
}

static bool take_lines(decoding *d, const char *data, bool copy)
{
    d->at = data;
    d->line = d->piece->own[1];
    for (uint64_t row = 0; row < d->piece->rows; row++)
        if (!take_line(d, row, copy))
            return false;
    stk__csv_skip_empty(&d->at, d->end);
    return d->at == d->end;
}

uint64_t stk__csv_lines_room(uint64_t rows)
{
    return stk__round_up(rows * sizeof(uint32_t), 8);
}

uint32_t *stk__csv_lines(void *out, const stk__table_column *columns, uint32_t n, uint64_t place)
{
    stk__table_vector *vectors = out;

    for (uint32_t c = 0; c < n; c++)
        if (columns[c].kind != STK__COLUMN_REFUSED)
            vectors[c].lines = (uint32_t)place;
    return (uint32_t *)(void *)((char *)out + place);
}

/* Where each vector lies, but for the texts. */
static uint64_t lay_out(decoding *d)
{
    const stk__table_piece *p = d->piece;
    uint64_t at = (uint64_t)p->columns * sizeof(stk__table_vector);

    memset(d->out, 0, at);
    for (uint32_t c = 0; c < p->columns; c++) {
        const stk__table_column *column = &d->columns[c];
        stk__table_vector *v = &d->vectors[c];
        if (column->kind == STK__COLUMN_REFUSED)
            continue;
        v->rows = p->rows;
        v->nulls = at;
        *(column->kind == STK__COLUMN_BYTES ? &v->offsets : &v->values) =
            at + stk__round_up(p->rows, 8);
        const uint64_t room = room_of(column, p->rows);
        memset(d->out + at, 0, room);
        at += room;
    }
    d->lines = stk__csv_lines(d->out, d->columns, p->columns, at);
    return at + stk__csv_lines_room(p->rows);
}

stk_status stk__csv_decode(const stk__table *table, const stk__table_column *column,
                           const stk__table_piece *piece, const void *data, void *out, void *worker,
                           const char **reason)
{
    decoding d = {.columns = column,
                  .piece = piece,
                  .end = (const char *)data + piece->length,
                  .out = out,
                  .vectors = out,
                  .delimiter = (char)(piece->own[0] & 255),
                  .strict = piece->own[0] >> 8 & 1};

    (void)table;
    uint64_t at = lay_out(&d);
    bool good = take_lines(&d, data, false);
    bool texts = false;
    for (uint32_t c = 0; good && c < piece->columns; c++) {
        if (column[c].kind != STK__COLUMN_BYTES)
            continue;
        texts = true;
        d.vectors[c].values = at;
        at += stk__round_up(offsets_of(&d, c)[piece->rows], 8);
        good = at <= piece->decoded;
    }
    if (good && texts)
        good = take_lines(&d, data, true);
    if (good)
        return STK_OK;
    *reason = "the lines are not those that were there when the dataset was opened";
    return STK_EFORMAT;
}
