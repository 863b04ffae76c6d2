/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of cells are those that the C library reads of the same digits, to the bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/table/csv.h"
#include "table_rows.h"

enum { NUMBERS = 300000, COLUMNS = 3 };

static size_t put_digits(char *to, uint64_t *seed, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (char)('0' + (test_random(seed) % 4 ? test_random(seed) % 10 : 0));
    return n;
}

/* A number half way between two doubles, or one digit beside: what is rounded twice gets wrong. */
static size_t put_half(char *to, uint64_t *seed)
{
    const int shift = (int)(test_random(seed) % 10);
    const uint64_t value = ((UINT64_C(1) << 53) + test_random(seed) % (UINT64_C(1) << 52)) << shift,
                   half = shift ? UINT64_C(1) << (shift - 1) : 0;

    return (size_t)sprintf(to, "%llu%s",
                           (unsigned long long)(value + half + test_random(seed) % 3 - 1),
                           test_random(seed) % 2 ? "" : ".0");
}

static size_t put_number(char *to, uint64_t *seed)
{
    char *at = to;
    const uint64_t kind = test_random(seed) % 8;

    if (test_random(seed) % 3 == 0)
        *at++ = '-';
    if (kind == 0)
        return (size_t)(at - to) + put_half(at, seed);
    if (kind == 2 && test_random(seed) % 8) { /* all digits that a mantissa has */
        at += sprintf(at, "%u.", (unsigned)(1 + test_random(seed) % 9));
        for (unsigned i = 0; i < 18; i++)
            *at++ = (char)('0' + test_random(seed) % 10);
        return (size_t)(at - to);
    }
    if (kind == 1) {
        const uint64_t bits = test_random(seed);
        double value;
        memcpy(&value, &bits, sizeof value);
        return (size_t)(at - to) + (size_t)sprintf(at, "%.*g",
                                                   (int)(10 + kind + test_random(seed) % 8),
                                                   isfinite(value) ? fabs(value) : 1.5);
    }
    at += put_digits(at, seed, 1 + test_random(seed) % (kind == 2 ? 22 : 3));
    if (kind > 3) {
        *at++ = '.';
        at += put_digits(at, seed, test_random(seed) % 21);
    }
    if (kind > 5)
        at += sprintf(at, "%c%s%llu", test_random(seed) % 2 ? 'e' : 'E',
                      (const char *const[]){"", "-", "+"}[test_random(seed) % 3],
                      (unsigned long long)(test_random(seed) % (kind == 6 ? 30 : 320)));
    return (size_t)(at - to);
}

/* One that a double has. */
static size_t put_finite(char *to, uint64_t *seed)
{
    size_t length;

    do {
        length = put_number(to, seed);
        to[length] = 0;
    } while (!isfinite(strtod(to, NULL)));
    return length;
}

static void same_bits(const char *text, double got)
{
    const double want = strtod(text, NULL);

    if (memcmp(&want, &got, sizeof want) != 0)
        fail_msg("%s: %.17g in place of %.17g", text, got, want);
}

/* Cell by cell. */
static void test_cells(void **state)
{
    static const char *const none[] = {"",      ".",    "-",   "1e",  "1e+", "e5",
                                       "1.2.3", "0x10", "1_0", "--1", "1 2", "infinite"};
    uint64_t seed = 11;
    char text[128];
    double value;

    (void)state;
    for (unsigned i = 0; i < NUMBERS; i++) {
        const size_t length = put_finite(text, &seed);
        const stk__csv_cell cell = {.text = text, .length = length};
        assert_true(stk__csv_real(&cell, &value));
        same_bits(text, value);
    }
    for (size_t i = 0; i < STK_COUNT(none); i++) {
        const stk__csv_cell cell = {.text = none[i], .length = strlen(none[i])};
        assert_false(stk__csv_real(&cell, &value));
    }
}

/* In lines, where most are read without their cells being found first. */
static void test_lines(void **state)
{
    char *text = malloc(NUMBERS / 150 * COLUMNS * 80 + 80), *at = text;
    test_room r = test_room_open("mem://c");
    uint64_t seed = 12;
    stk_dataset *d;
    stk_error err;

    (void)state;
    assert_non_null(text);
    at += sprintf(at, "a,b,c\n");
    for (unsigned i = 0; i < NUMBERS / 150; i++) {
        at += put_finite(at, &seed);
        at += sprintf(at, "%s,%lld,", i % 100 ? "" : " ", (long long)test_random(&seed));
        at += put_finite(at, &seed);
        at += sprintf(at, "%s", i % 70 ? "\n" : "\r\n");
    }
    test_put(r.store, "a.csv", text, (size_t)(at - text));
    assert_ok(
        stk_dataset_open(r.ctx, "csv:mem://c/a.csv?types=a:float64,b:int64,c:float32", &d, &err),
        &err);
    assert_int_equal(d->size, NUMBERS / 150);
    at = strchr(text, '\n') + 1;
    for (uint64_t i = 0; i < d->size; i++) {
        char *end;
        row *line = row_take(d, i);
        const double a = strtod(at, NULL);
        at = strchr(at, ',') + 1;
        const int64_t b = strtoll(at, &end, 10);
        at = end + 1;
        const float c = (float)strtod(at, NULL);
        at = strchr(at, '\n') + 1;
        row_is(line, "a", &a, sizeof a);
        row_is(line, "b", &b, sizeof b);
        row_is(line, "c", &c, sizeof c);
        row_free(line);
    }
    stk_dataset_close(&d);
    test_room_close(&r);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cells), cmocka_unit_test(test_lines)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
