/* SPDX-License-Identifier: Apache-2.0 */
/* Arrow IPC: golden files of all types, packed and not, and files that are wrong in one thing. */
#include "table_rows.h"

#define GOLDEN TESTS_DIR "/golden/arrow/"
enum { ROWS = 11, FIRST = 5 /* of the first batch */, BLOCKS_OF_FOOTER = 10 };

static stk_context *ctx;

static int setup(void **state)
{
    ctx = test_context();
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&ctx);
    return 0;
}

static stk_dataset *opened(const char *spec)
{
    stk_dataset *d = NULL;
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    return d;
}

static void check_numbers(const row *r, int i)
{
    const int8_t i8 = (int8_t)-i;
    const uint8_t b = i % 3 == 0;
    const uint64_t u64 = (uint64_t)i * UINT64_C(1000000000000000000);
    const int32_t day = i, x = 10 * i;
    const float fl[] = {(float)i, (float)-i};
    const uint8_t fsb[] = {(uint8_t)i, (uint8_t)(i + 1), (uint8_t)(i + 2)};
    const stk_value *half = row_value(r, "f16");

    row_is(r, "b", &b, 1);
    row_is(r, "i8", &i8, 1);
    row_is(r, "u64", &u64, 8);
    assert_true(half->size == 2 && stk__element_as_double(half->data, STK_FLOAT16) == i / 2.0);
    row_is_real(r, "f64", i / 8.0);
    row_is_real(r, "dec", (i % 2 ? -1 : 1) * (i + 0.25));
    row_is(r, "day", &day, 4);
    row_is_integer(r, "ts", 1000 * i);
    row_is(r, "fsb", fsb, 3);
    row_is(r, "fl", fl, sizeof fl);
    row_is(r, "st.x", &x, 4);
}

static void check_lists(const row *r, int i)
{
    static const char *const words[] = {"a", "bb", "ccc"};
    const int16_t li[] = {(int16_t)i, (int16_t)(i + 1)};
    const uint8_t lb[] = {1, 0, 1};
    char text[32];
    uint8_t bin[ROWS];

    snprintf(text, sizeof text, "%.*s%d", i % 4, "xxx", i);
    row_is_text(r, "s", text);
    memset(bin, i, sizeof bin);
    row_is(r, "bin", bin, (size_t)i);
    row_is(r, "li", li, (size_t)(i % 3) * 2);
    row_is(r, "lb", lb, (size_t)(i % 4));
    snprintf(text, sizeof text, "in %d", i);
    row_is_text(r, "st.y", text);
    row_is_text(r, "cat", words[i % 3]);
}

static void test_types(void **state)
{
    static const char *const files[] = {"arrow:" GOLDEN "types.arrow",
                                        "arrow:" GOLDEN "types_lz4.feather",
                                        "arrow:" GOLDEN "types_zstd.arrow",
                                        "arrow:" GOLDEN "types_old.arrow",
                                        "arrow:" GOLDEN "types.arrows",
                                        GOLDEN "types.arrow",
                                        GOLDEN "types.arrows"};

    for (size_t f = 0; f < STK_COUNT(files); f++) {
        stk_dataset *d = opened(files[f]);
        assert_int_equal(d->size, ROWS);
        for (int i = ROWS - 1; i >= 0; i--) {
            row *r = row_take(d, (uint64_t)i);
            check_numbers(r, i);
            check_lists(r, i);
            row_free(r);
        }
        stk_dataset_close(&d);
    }
}

/* What is null is zero or empty; what is not is as it was. */
static void check_null_row(const row *r, int i)
{
    const bool null = i % 3 == 1, no_struct = i % 5 == 2;
    const int32_t v = null ? 0 : i, pair[] = {i, i}, x = no_struct ? 0 : i;
    const int16_t fl[] = {(int16_t)v, (int16_t)v};
    const uint8_t b = !null;
    char text[32];

    row_is(r, "v", &v, 4);
    row_is(r, "b", &b, 1);
    snprintf(text, sizeof text, "row %d", i);
    row_is_text(r, "s", null ? "" : text);
    row_is(r, "li", pair, null ? 0 : sizeof pair);
    row_is(r, "fl", fl, sizeof fl);
    row_is_text(r, "cat", null ? "" : i % 3 ? "ccc" : "a");
    row_is(r, "st.x", &x, 4);
    row_is_integer(r, "st.y", null || no_struct ? 0 : i);
}

static void test_nulls(void **state)
{
    static const char *const files[] = {"arrow:" GOLDEN "nulls.arrow?nulls=zero",
                                        "arrow:" GOLDEN "nulls_lz4.arrows?nulls=zero"};

    for (size_t f = 0; f < STK_COUNT(files); f++) {
        stk_dataset *d = opened(files[f]);
        assert_int_equal(d->size, ROWS);
        for (int i = 0; i < ROWS; i++) {
            row *r = row_take(d, (uint64_t)i);
            check_null_row(r, i);
            row_free(r);
        }
        stk_dataset_close(&d);
    }
}

/* Lists of two: a null among them is zero, whatever is stored there, or its row is bad or left out.
 */
static void test_holes(void **state)
{
    static const char *const files[] = {"holes.arrow", "holes_lz4.arrows"}, *const columns[] = {
                                                                                "li", "lb", "ld",
                                                                                "fl", "fb"};
    char spec[512];

    for (size_t f = 0; f < STK_COUNT(files); f++) {
        snprintf(spec, sizeof spec, "arrow:" GOLDEN "%s?nulls=zero", files[f]);
        stk_dataset *d = opened(spec);
        for (int i = 0; i < ROWS; i++) {
            row *r = row_take(d, (uint64_t)i);
            const int k = i < FIRST ? i : i - FIRST;
            const bool there[] = {k % 3 != 0, (k + 1) % 3 != 0};
            const int32_t pair[] = {there[0] * 10 * i, there[1] * (10 * i + 1)};
            const double quarters[] = {pair[0] / 4.0, pair[1] / 4.0};
            row_is(r, "li", pair, sizeof pair);
            row_is(r, "lb", there, sizeof there);
            row_is(r, "ld", quarters, sizeof quarters);
            row_is(r, "fl", pair, sizeof pair);
            row_is(r, "fb", there, sizeof there);
            row_free(r);
        }
        stk_dataset_close(&d);
        for (size_t c = 0; c < STK_COUNT(columns); c++) {
            snprintf(spec, sizeof spec, "arrow:" GOLDEN "%s?columns=%s", files[f], columns[c]);
            d = opened(spec);
            row_free(row_take(d, 1));
            row_is_bad(d, 2, "has a null within its list; choose nulls=zero or drop");
            stk_dataset_close(&d);
            snprintf(spec, sizeof spec, "arrow:" GOLDEN "%s?columns=%s&nulls=drop", files[f],
                     columns[c]);
            d = opened(spec);
            assert_int_equal(d->size, 4); /* the second of three is whole */
            stk_dataset_close(&d);
        }
    }
}

/* Texts within their views and beside them, in several buffers, packed and not. */
static void test_views(void **state)
{
    static const char *const files[] = {"arrow:" GOLDEN "views.arrow?nulls=zero",
                                        "arrow:" GOLDEN "views_zstd.arrows?nulls=zero"};
    char text[80], other[80];

    for (size_t f = 0; f < STK_COUNT(files); f++) {
        stk_dataset *d = opened(files[f]);
        assert_int_equal(d->size, ROWS);
        for (int i = ROWS - 1; i >= 0; i--) {
            row *r = row_take(d, (uint64_t)i);
            snprintf(text, sizeof text,
                     i % 2 ? "row %d" : "text %d, which is longer than twelve bytes", i);
            row_is_text(r, "t", i % 3 == 1 ? "" : text);
            row_is_text(r, "b", i % 3 == 1 ? "" : text);
            row_is(r, "n", &i, sizeof i);
            snprintf(other, sizeof other, "no null is here: %d", i);
            row_is_text(r, "all", other);
            snprintf(other, sizeof other, "in a struct: %d", i);
            row_is_text(r, "st.x", other);
            row_free(r);
        }
        assert_true(d->fields[0].text);
        assert_false(d->fields[1].text);
        stk_dataset_close(&d);
    }
}

static void test_refused_types(void **state)
{
    static const struct {
        const char *column, *says;
    } refused[] = {{"none", "no row has a value"},  {"map", "a map"},
                   {"lists", "a list of lists"},    {"union", "a union"},
                   {"view", "list_view"},           {"runs", "run-end encoded"},
                   {"strings", "a list of strings"}};
    stk_dataset *d = opened("arrow:" GOLDEN "refused.arrow");
    char spec[512];

    assert_int_equal(d->num_fields, 2);
    for (int i = 0; i < ROWS; i++) {
        const int32_t v = i, w = 2 * i;
        row *r = row_take(d, (uint64_t)i);
        row_is(r, "v", &v, 4);
        row_is(r, "w", &w, 4);
        row_free(r);
    }
    stk_dataset_close(&d);
    for (size_t i = 0; i < STK_COUNT(refused); i++) {
        snprintf(spec, sizeof spec, "arrow:" GOLDEN "refused.arrow?columns=%s", refused[i].column);
        table_refused(ctx, spec, STK_ENOTSUP, refused[i].says);
    }
}

/* ---- What is wrong in one thing -------------------------------------------------------------- */

static unsigned char *bytes;
static size_t length;

static void load(const char *path)
{
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    free(bytes);
    bytes = calloc(1, 65536);
    assert_non_null(bytes);
    length = fread(bytes, 1, 65536, f);
    fclose(f);
    assert_true(length > 100 && length < 65536);
}

static stk_status try(const char *says)
{
    stk_store *store = NULL;
    stk_dataset *d = NULL;
    char key[64];
    stk_error err;

    stk_error_init(&err);
    assert_ok(stk_store_open(ctx, "mem://arrow", &store, key, sizeof key, &err), &err);
    assert_ok(stk_store_put(store, "x.arrow", bytes, length, NULL, &err), &err);
    const stk_status status =
        stk_dataset_open(ctx, "arrow:mem://arrow/x.arrow?nulls=zero", &d, &err);
    if (says && (status == STK_OK || !strstr(err.text, says)))
        fail_msg("'%s' is not in '%s'", says, err.text);
    for (uint64_t i = 0; status == STK_OK && i < d->size && i < 64; i++)
        row_free(row_take(d, i));
    stk_dataset_close(&d);
    stk_store_close(&store);
    return status;
}

static void test_ends(void **state)
{
    load(GOLDEN "types.arrow");
    length -= 1;
    assert_int_equal(try("does not end with ARROW1"), STK_ETRUNCATED);
    load(GOLDEN "types.arrow");
    memset(bytes + length - BLOCKS_OF_FOOTER, 0xff, 4);
    assert_int_equal(try("its footer is to have"), STK_EFORMAT);
    load(GOLDEN "types.arrows");
    length = 1000;
    assert_int_equal(try("does not end before"), STK_ETRUNCATED);
    load(GOLDEN "types.arrow");
    memcpy(bytes, "FEA1", 4);
    assert_int_equal(try("Feather V1"), STK_EKIND);
    memcpy(bytes, "PAR1ABCD", 8);
    assert_int_not_equal(try("arrow"), STK_OK);
    length = 3;
    assert_int_not_equal(try("arrow"), STK_OK);
    length = 0;
    assert_int_not_equal(try("arrow"), STK_OK);
}

static uint64_t read_u64(size_t at)
{
    return stk__little_endian(bytes + at, 8);
}

static void write_u64(size_t at, uint64_t value)
{
    for (int k = 0; k < 8; k++)
        bytes[at + (size_t)k] = (unsigned char)(value >> 8 * k);
}

/* Where the `k`th pair of neighbours (first, second) lies, of 8 bytes each. */
static size_t find_pair(uint64_t first, uint64_t second, int k)
{
    for (size_t at = 0; at + 16 <= length; at += 4)
        if (read_u64(at) == first && read_u64(at + 8) == second && k-- == 0)
            return at;
    fail_msg("there is no pair %llu, %llu", (unsigned long long)first, (unsigned long long)second);
    return 0;
}

/* Where `n` bytes of a text lie. */
static size_t find_text(const char *text, size_t n)
{
    const unsigned char *at = memmem(bytes, length, text, n);

    assert_non_null(at);
    return (size_t)(at - bytes);
}

/* Buffers, rows, offsets and codes that are not what they should be. */
static void test_wrong_batches(void **state)
{
    static const char codes[] = {0, 1, 2, 0, 1};

    load(GOLDEN "types.arrow");
    /* The values of "b": one byte of five bits, the second buffer, at byte 0 of the body. */
    const size_t buffer = find_pair(0, 1, 0);
    write_u64(buffer + 8, UINT64_C(1) << 40);
    assert_int_equal(try("record batch 0, column 'b': a buffer does not lie within"),
                     STK_ETRUNCATED);
    write_u64(buffer + 8, 0);
    assert_int_equal(try("column 'b': a buffer is shorter"), STK_EFORMAT);
    load(GOLDEN "types.arrow");
    write_u64(find_pair(5, 0, 0), 4);
    assert_int_equal(try("its rows or nulls are not those of the batch"), STK_EFORMAT);
    load(GOLDEN "types.arrow");
    const size_t code = find_text(codes, sizeof codes);
    bytes[code + 1] = 3; /* of a dictionary of 3 */
    assert_int_equal(try(NULL), STK_OK);
    stk_dataset *d = opened("arrow:mem://arrow/x.arrow");
    row_is_bad(d, 0, "no entry of its dictionary");
    row_free(row_take(d, 5));
    stk_dataset_close(&d);
    load(GOLDEN "types.arrow");
    /* Offsets of "s": 0, 1, 3, 6, 10, 11. */
    const size_t offsets = find_text("\0\0\0\0\1\0\0\0\3\0\0\0\6\0\0\0\n", 17);
    bytes[offsets + 8] = 0;
    assert_int_equal(try("column 's': an offset is less than the one before"), STK_EFORMAT);
    bytes[offsets + 8] = 3;
    bytes[offsets + 20] = 0xff; /* the last: beyond the text */
    assert_int_equal(try(NULL), STK_OK);
    d = opened("arrow:mem://arrow/x.arrow");
    row_is_bad(d, 0, "beyond its values");
    stk_dataset_close(&d);
}

/* Whatever a byte becomes, nothing is touched that is not the reader's; a bad sample is said so. */
static void test_any_byte(void **state)
{
    static const char *const files[] = {GOLDEN "nulls.arrow", GOLDEN "types_lz4.feather"};

    for (size_t f = 0; f < STK_COUNT(files); f++) {
        load(files[f]);
        unsigned refused = 0;
        for (size_t at = 0; at < length; at += 23) {
            const unsigned char was = bytes[at];
            bytes[at] = (unsigned char)(at % 2 ? 0xff : was ^ 0x11);
            refused += try(NULL) != STK_OK;
            bytes[at] = was;
        }
        assert_true(refused > 5);
    }
}

static int free_bytes(void **state)
{
    free(bytes);
    return teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),         cmocka_unit_test(test_nulls),
        cmocka_unit_test(test_holes),         cmocka_unit_test(test_views),
        cmocka_unit_test(test_refused_types), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_wrong_batches), cmocka_unit_test(test_any_byte),
    };

    return cmocka_run_group_tests(tests, setup, free_bytes);
}
