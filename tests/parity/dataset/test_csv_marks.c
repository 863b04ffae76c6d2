/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of cells are found by AVX2 where the definition finds them, and lines that are passed
 * without a look at each cell are those that such a look would pass: as many, as long, and no
 * other.
 */
#include <stdlib.h>
#include <string.h>

#include "dataset/table/csv.h"
#include "dataset/table/csv_marks.h"
#include "support/support.h"

enum { BYTES = 3000 };

static void test_marks(void **state)
{
    static const char signs[] = ",;\t\n\r\"0123456789-.e\x80\xff";
    stk_context *ctx = test_context();
    stk__csv_marks_fn *fast = stk__csv_marks_of(ctx);
    char bytes[STK__CSV_MARKED + 7];
    stk__csv_marks want, got;
    uint64_t seed = 3;

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        const char *at = bytes + round % 7;
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = round % 2 ? signs[test_random(&seed) % (sizeof signs - 1)]
                                 : (char)test_random(&seed);
        stk__csv_marks_c(at, signs[round % 3], &want);
        fast(at, signs[round % 3], &got);
        assert_memory_equal(&want, &got, sizeof want);
    }
    stk_context_destroy(&ctx);
}

/* Lines of `cells` cells, some of them with what is to be looked at. */
static size_t write_lines(char *to, uint64_t *seed, uint32_t cells, unsigned odd)
{
    char *at = to;

    while (at - to < BYTES - 300) {
        const uint32_t n = test_random(seed) % 50 < odd ? cells + 1 - 2 * (cells > 1) : cells;
        for (uint32_t c = 0; c < n; c++) {
            const uint64_t length = test_random(seed) % 9;
            memset(at, 'a' + (int)c, length);
            at += length;
            if (test_random(seed) % 200 < odd)
                *at++ = test_random(seed) % 2 ? '"' : '\r';
            *at++ = c + 1 < n ? ',' : '\n';
        }
        if (test_random(seed) % 50 < odd)
            *at++ = '\n';
    }
    return (size_t)(at - to);
}

/* What is passed cell by cell: the same, but for the last bytes, of which there may be too few. */
static stk__csv_plain pass(const char *at, const char *end, uint32_t cells, uint64_t most)
{
    stk__csv_plain all = {0};
    const char *begin = at;
    stk__csv_cell cell;

    while (end - at >= STK__CSV_MARKED && all.bytes < most) {
        uint32_t n = 0, longest = 0;
        const char *line = at;
        stk__csv_end e;
        do {
            e = stk__csv_next(&at, end, ',', &cell);
            longest = STK_MAX(longest, (uint32_t)cell.length);
            n++;
        } while (e == STK__CSV_CELL);
        if (e != STK__CSV_LINE || n != cells || *line == '\n' ||
            memchr(line, '"', (size_t)(at - line)) || memchr(line, '\r', (size_t)(at - line)))
            break;
        all.rows++;
        all.longest = STK_MAX(all.longest, longest);
        all.bytes = (uint64_t)(at - begin);
    }
    return all;
}

static void test_lines(void **state)
{
    stk_context *ctx = test_context();
    uint64_t seed = 4, passed = 0, stopped = 0;
    char *text = malloc(BYTES + STK__CSV_MARKED);

    (void)state;
    assert_non_null(text);
    for (unsigned round = 0; round < 1500; round++) {
        const uint32_t cells = 1 + round % 5;
        size_t length = write_lines(text, &seed, cells, round % 3);
        const uint64_t most = round % 4 ? UINT64_MAX : test_random(&seed) % 800;
        memset(text + length, 'z', STK__CSV_MARKED); /* no line ends there */
        length += STK__CSV_MARKED;
        const stk__csv_plain want = pass(text, text + length, cells, most);
        const stk__csv_plain got =
            stk__csv_plain_lines(round % 2 ? stk__csv_marks_c : stk__csv_marks_of(ctx), text,
                                 text + length, ',', cells, most);
        /* One line at least is passed, however few bytes are asked for. */
        if (!most)
            continue;
        assert_int_equal(got.rows, want.rows);
        assert_int_equal(got.bytes, want.bytes);
        assert_int_equal(got.longest, want.longest);
        passed += got.rows;
        stopped += got.bytes < length - STK__CSV_MARKED;
    }
    assert_true(passed > 10000 && stopped > 300);
    free(text);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marks), cmocka_unit_test(test_lines)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
