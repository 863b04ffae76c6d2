/* SPDX-License-Identifier: Apache-2.0 */
/* Parquet files that Arrow C++ wrote (scripts/make_parquet_golden.py), and such files damaged. */
#include "parquet.h"

#include "base/base.h"

#define GOLDEN TESTS_DIR "/golden/parquet/"
#define ROWS   60

#define IS(name, type, value)                                                                      \
    do {                                                                                           \
        const type wanted_ = (type)(value);                                                        \
        row_is(r, name, &wanted_, sizeof wanted_);                                                 \
    } while (0)

static void text_is(const row *r, const char *name, const char *format, int i)
{
    char text[64];

    const int n = snprintf(text, sizeof text, format, i);
    row_is(r, name, text, (size_t)n);
}

static void check_row(stk_dataset *d, int i)
{
    row *r = row_take(d, (uint64_t)i);
    const unsigned char fixed[] = {(unsigned char)i, 1, 2, 3, 4};
    unsigned char blob[8];
    int32_t tokens[4];

    assert_int_equal(r->sample.status, STK_OK);
    for (int k = 0; k < 4; k++) {
        tokens[k] = i + k;
        blob[2 * k] = (unsigned char)i;
        blob[2 * k + 1] = (unsigned char)(255 - i);
    }
    IS("id", int64_t, 7 * i - 100);
    IS("small", int8_t, i % 5 - 2);
    IS("wide", uint64_t, UINT64_MAX - (unsigned)i);
    IS("f", float, i / 4.0f);
    IS("d", double, -i / 8.0);
    IS("flag", unsigned char, i % 3 == 0);
    IS("price", double, (125 * i - 500) / 100.0);
    IS("when", int64_t, INT64_C(1000000000000000) + i);
    IS("s.x", int16_t, i);
    IS("maybe", int32_t, i % 7 == 3 ? 0 : i);
    IS("maybe_mask", unsigned char, i % 7 != 3);
    IS("nothing", int64_t, 0);
    row_is(r, "fixed", fixed, sizeof fixed);
    row_is(r, "blob", blob, 2u * (unsigned)(i % 4));
    row_is(r, "tokens", tokens, 4u * (unsigned)(i % 4));
    text_is(r, "word", "word %d", i / 4);
    text_is(r, "s.t.y", "%d", i);
    text_is(r, "perhaps", i % 7 == 3 ? "" : "p%d", i % 3);
    for (uint32_t f = 0; f < d->num_fields; f++)
        if (!strcmp(d->fields[f].name, "h")) {
            uint16_t half;
            memcpy(&half, r->values[f].data, sizeof half);
            assert_true(stk__half_to_double(half) == i / 2.0);
        }
    row_free(r);
}

static void check_file(const char *name)
{
    stk_context *ctx = test_context();
    char spec[512];
    stk_dataset *d;
    stk_error err;

    snprintf(spec, sizeof spec, "parquet:" GOLDEN "%s.parquet?nulls=mask", name);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    assert_int_equal(d->size, ROWS);
    for (int i = ROWS; i-- > 0;)
        check_row(d, i);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

static void test_golden(void **state)
{
    (void)state;
    check_file("dictionary_snappy");
    check_file("dictionary_index");
    check_file("plain");
    check_file("plain_gzip");
    check_file("delta_zstd");
    check_file("delta_index");
    check_file("split_lz4");
}

/* Whole column chunks, and sheets: fewer needs, and the same values. */
static void test_blocks(void **state)
{
    static const char spec[] = "parquet:" GOLDEN "plain.parquet?nulls=mask&columns="
                               "id,small,wide,f,d,flag,price,when,s.x,maybe,nothing,fixed";
    stk_context *ctx = test_context();
    uint32_t needs[2];
    stk_dataset *d;
    stk_error err;

    row_blocks = true;
    test_golden(state);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    for (int mixed = 0; mixed < 2; mixed++) {
        row_mixed = mixed;
        row *r = row_take(d, 1);
        needs[mixed] = r->num_needs;
        row_free(r);
    }
    test_golden(state);
    row_blocks = row_mixed = false;
    assert_int_equal(needs[0], 12);
    assert_true(needs[1] < 8);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

static void test_int96(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *d;
    stk_error err;

    (void)state;
    assert_ok(stk_dataset_open(ctx, "parquet:" GOLDEN "int96.parquet", &d, &err), &err);
    for (int i = 0; i < 9; i++) {
        row *r = row_take(d, (uint64_t)i);
        IS("t", int64_t, (INT64_C(1000000000000000) + i) * 1000);
        row_free(r);
    }
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* Numbers of one column count in one unit, whatever else the types of files say. */
static void test_units(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *d = NULL;
    stk_error err;

    (void)state;
    assert_ok(stk_dataset_open(ctx, "parquet:" GOLDEN "int96.parquet::" GOLDEN "times_ns.parquet",
                               &d, &err),
              &err);
    row *r = row_take(d, 17);
    IS("t", int64_t, (INT64_C(1000000000000000) + 8) * 1000);
    row_free(r);
    stk_dataset_close(&d);
    assert_fails(
        stk_dataset_open(ctx, "parquet:" GOLDEN "times_ns.parquet::" GOLDEN "times_us.parquet", &d,
                         &err),
        STK_EFORMAT, &err, "the column 't' of times_us.parquet counts time in another unit");
    stk_context_destroy(&ctx);
}

/* What lists with nulls are by a policy: 40 rows of two columns, `kept` of them. */
static void check_holes(const char *name, const char *nulls, uint64_t kept)
{
    stk_context *ctx = test_context();
    char spec[400];
    stk_dataset *d;
    stk_error err;
    uint64_t at = 0, bad = 0;

    snprintf(spec, sizeof spec, "parquet:" GOLDEN "%s.parquet?nulls=%s", name, nulls);
    assert_ok(stk_dataset_open(ctx, spec, &d, &err), &err);
    for (int i = 0; i < 40; i++) {
        const int n = i % 11 == 5 ? 0 : i % 4;
        int32_t coded[4];
        double plain[4];
        bool holes = false;
        for (int k = 0; k < n; k++) {
            holes |= (i + k) % 5 == 3;
            coded[k] = (i + k) % 5 == 3 ? 0 : i + k;
            plain[k] = coded[k];
        }
        if (!strcmp(nulls, "drop") && (holes || i % 11 == 5))
            continue;
        row *r = row_take(d, at++);
        if (holes && strcmp(nulls, "zero") != 0) {
            assert_int_equal(r->sample.status, STK_EFORMAT);
            assert_non_null(strstr(r->sample.reason, "'coded' has a null within its list"));
            bad++;
        } else {
            assert_int_equal(r->sample.status, STK_OK);
            row_is(r, "coded", coded, (size_t)n * sizeof *coded);
            row_is(r, "plain", plain, (size_t)n * sizeof *plain);
        }
        row_free(r);
    }
    assert_int_equal(at, d->size);
    assert_int_equal(at - bad, kept);
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* A null within a list is no failure of its page. */
static void test_holes(void **state)
{
    static const char *const names[] = {"holes", "holes_pages"};

    (void)state;
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        check_holes(names[i], "zero", 40);
        check_holes(names[i], "mask", 30);
        check_holes(names[i], "drop", 26);
    }
}

static void check_refused(stk_context *ctx, const char *spec, stk_status status, const char *says)
{
    stk_dataset *d;
    stk_error err;

    stk_error_init(&err);
    assert_int_equal(stk_dataset_open(ctx, spec, &d, &err), status);
    if (!strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
}

static void test_refused(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *d;
    stk_error err;

    (void)state;
    check_refused(ctx, "parquet:" GOLDEN "plain.parquet?columns=deep", STK_ENOTSUP,
                  "a list of lists");
    check_refused(ctx, "parquet:" GOLDEN "plain.parquet?columns=pairs", STK_ENOTSUP, "a map");
    check_refused(ctx, "parquet:" GOLDEN "plain.parquet?columns=words", STK_ENOTSUP,
                  "a list of strings");
    assert_ok(stk_dataset_open(ctx, GOLDEN "plain.parquet?columns=id", &d, &err), &err);
    assert_string_equal(d->ops->name, "parquet");
    stk_dataset_close(&d);
    stk_context_destroy(&ctx);
}

/* ---- Damage ---- */

typedef struct copy {
    test_room room;
    unsigned char *data;
    uint64_t size;
} copy;

static copy copy_of(const char *name)
{
    copy c = {.room = test_room_open("mem://p")};
    char url[512], key[512];
    stk_store *store;
    stk_error err;

    if (name[0] == '/')
        snprintf(url, sizeof url, "%s", name);
    else
        snprintf(url, sizeof url, GOLDEN "%s.parquet", name);
    assert_ok(stk_store_open(c.room.ctx, url, &store, key, sizeof key, &err), &err);
    c.data = test_get(store, key, &c.size);
    stk_store_close(&store);
    return c;
}

static void copy_free(copy *c)
{
    free(c->data);
    test_room_close(&c->room);
}

static void check_wrong(copy *c, uint64_t size, stk_status status, const char *says)
{
    test_put(c->room.store, "a.parquet", c->data, size);
    check_refused(c->room.ctx, "parquet:mem://p/a.parquet", status, says);
}

/* A name that is empty, and one that is damaged: they do no harm where they are not asked for. */
static void test_names(void **state)
{
    copy c = copy_of("unnamed");
    stk_dataset *d;
    stk_error err;

    (void)state;
    check_wrong(&c, c.size, STK_EFORMAT,
                "a.parquet: the name of column 2 is empty; name the wanted columns by columns=");
    assert_ok(stk_dataset_open(c.room.ctx, "parquet:mem://p/a.parquet?columns=word", &d, &err),
              &err);
    assert_int_equal(d->num_fields, 1);
    stk_dataset_close(&d);
    for (uint64_t i = 0; i + 4 <= c.size; i++)
        if (memcmp(c.data + i, "word", 4) == 0)
            c.data[i + 1] = 0xe9;
    check_wrong(&c, c.size, STK_EFORMAT,
                "a.parquet: the name of column 1 is not UTF-8: 'w?rd'; name the wanted columns");
    copy_free(&c);
}

static void test_ends(void **state)
{
    copy c = copy_of("plain");

    (void)state;
    check_wrong(&c, 3, STK_EFORMAT, "has 3 bytes");
    check_wrong(&c, c.size - 1, STK_EFORMAT, "does not end with PAR1");
    unsigned char *end = c.data + c.size;
    end[-1] = 'E';
    check_wrong(&c, c.size, STK_EKIND, "encrypted");
    end[-1] = '1';
    end[-5] = 1; /* the highest byte of the footer's length */
    check_wrong(&c, c.size, STK_EFORMAT, "its footer would have");
    copy_free(&c);
}

/* Open it and take all rows: every failure is a sample's and has a text. */
static unsigned try_all(copy *c)
{
    stk_dataset *d;
    stk_error err;
    unsigned bad = 0;

    test_put(c->room.store, "a.parquet", c->data, c->size);
    stk_error_init(&err);
    if (stk_dataset_open(c->room.ctx, "parquet:mem://p/a.parquet?nulls=zero", &d, &err) != STK_OK) {
        assert_true(err.text[0] && err.status != STK_EINTERNAL);
        return 1;
    }
    for (uint64_t i = 0; i < d->size && i < 3; i++) {
        row *r = row_take(d, i * (d->size - 1) / 2);
        if (r->sample.status != STK_OK) {
            assert_non_null(r->sample.reason);
            bad++;
        }
        row_free(r);
    }
    stk_dataset_close(&d);
    return bad;
}

/* A bit of every few bytes is turned; where pages have checksums, damage to them is found. */
static void test_bits(void **state)
{
    copy c = copy_of("dictionary_index");
    unsigned found = 0;

    (void)state;
    assert_int_equal(try_all(&c), 0);
    for (uint64_t at = 0; at < c.size; at += 41) {
        c.data[at] ^= (unsigned char)(1u << at % 8);
        found += try_all(&c) > 0;
        c.data[at] ^= (unsigned char)(1u << at % 8);
    }
    assert_true(found > 0);
    copy_free(&c);
}

/* Codes that no entry has: the page says so, and no value is taken for them. */
static void test_codes(void **state)
{
    static const char spec[] = "parquet:mem://p/a.parquet?columns=id";
    copy c = copy_of(TESTS_DIR "/../fuzz/corpus/parquet/dictionary");
    unsigned found = 0;
    stk_error err;

    (void)state;
    for (uint64_t at = 4; at < 405; at++) { /* of the column's chunk */
        stk_dataset *d;
        c.data[at] ^= 8; /* also of the number of bits of a code */
        test_put(c.room.store, "a.parquet", c.data, c.size);
        if (stk_dataset_open(c.room.ctx, spec, &d, &err) == STK_OK) {
            row *r = row_take(d, 17);
            found += r->status != STK_OK && strstr(r->reason, "beyond the end of its dictionary");
            row_free(r);
            stk_dataset_close(&d);
        }
        c.data[at] ^= 8;
    }
    assert_true(found > 0);
    copy_free(&c);
}

/* Replace bytes of the footer by others, everywhere; how often they were there. */
static int replace(copy *c, const char *from, const char *to, size_t n)
{
    int found = 0;

    for (uint64_t at = 0; at + n <= c->size; at++)
        if (!memcmp(c->data + at, from, n)) {
            memcpy(c->data + at, to, n);
            found++;
        }
    return found;
}

static void check_ids(copy *c)
{
    stk_dataset *d;
    stk_error err;

    test_put(c->room.store, "a.parquet", c->data, c->size);
    assert_ok(stk_dataset_open(c->room.ctx, "parquet:mem://p/a.parquet?columns=id", &d, &err),
              &err);
    assert_int_equal(d->size, 20);
    for (int blocks = 0; blocks < 2; blocks++) {
        row_blocks = blocks;
        for (int i = 0; i < 20; i++) {
            row *r = row_take(d, (uint64_t)i);
            IS("id", int64_t, 7 * i - 100);
            row_free(r);
        }
    }
    row_blocks = false;
    stk_dataset_close(&d);
}

/* A file that says that it has no rows, and chunks that leave out the header of a dictionary. */
static void test_old_writers(void **state)
{
    copy c = copy_of(TESTS_DIR "/../fuzz/corpus/parquet/dictionary");

    (void)state;
    check_ids(&c);
    assert_int_equal(replace(&c, "\x16\x28\x19", "\x16\x00\x19", 3), 1); /* 20 rows, twice */
    check_ids(&c);
    /* 401 bytes of the column become 381. */
    assert_true(replace(&c, "\x16\xa2\x06", "\x16\xfa\x05", 3) > 0);
    check_wrong(&c, c.size, STK_EFORMAT, "column id, page 2: ");
    assert_true(replace(&c, "parquet-cpp-arrow version", "parquet-mr version 1.2.80", 25) > 0);
    check_wrong(&c, c.size, STK_EFORMAT, "column id, page 2: ");
    assert_true(replace(&c, "parquet-mr version 1.2.80", "parquet-mr version 1.2.8 ", 25) > 0);
    check_ids(&c);
    copy_free(&c);
}

static void test_checksum(void **state)
{
    copy c = copy_of("dictionary_index");
    const unsigned char first[] = "word 0";

    (void)state;
    /* Compressed pages have no plain text; the first page of the file is that of `id`. */
    assert_null(memmem(c.data, 64, first, sizeof first - 1));
    unsigned failed = 0;
    for (uint64_t at = 30; at < 60; at++) {
        c.data[at] ^= 0x10;
        failed += try_all(&c) > 0;
        c.data[at] ^= 0x10;
    }
    assert_int_equal(failed, 30);
    copy_free(&c);
}

typedef struct finder {
    stk_locator base;
    uint64_t middle; /* of the first range */
} finder;

static stk_status finder_add(stk_locator *self, size_t i, const stk_need *need)
{
    finder *f = (finder *)self;

    (void)i;
    f->middle = f->middle ? f->middle : need->offset + need->length / 2;
    return STK_OK;
}

/* An error says where it is, in the words of Parquet. */
static void test_place(void **state)
{
    static const char spec[] = "parquet:mem://p/a.parquet?columns=id&nulls=zero";
    copy c = copy_of("dictionary_index");
    finder f = {.base = {sizeof(stk_locator), finder_add, row_cost, row_bytes}};
    const uint64_t index = 60;
    stk_dataset *d;
    stk_error err;

    (void)state;
    test_put(c.room.store, "a.parquet", c.data, c.size);
    assert_ok(stk_dataset_open(c.room.ctx, spec, &d, &err), &err);
    assert_ok(d->ops->locate(d, &index, 1, &f.base, &err), &err);
    stk_dataset_close(&d);
    c.data[f.middle] ^= 1;
    test_put(c.room.store, "a.parquet", c.data, c.size);
    assert_ok(stk_dataset_open(c.room.ctx, spec, &d, &err), &err);
    for (int again = 0; again < 2; again++) {
        row *r = row_take(d, index);
        assert_int_not_equal(r->status, STK_OK);
        if (!strstr(r->reason, "row group 1, column 'id', page 3: "))
            fail_msg("%s", r->reason);
        row_free(r);
    }
    stk_dataset_close(&d);
    copy_free(&c);
}

/* Read where it is built in, and refused by name elsewhere. */
static void test_brotli(void **state)
{
    (void)state;
#ifdef STK_WITH_BROTLI
    copy c = copy_of("brotli");
    unsigned found = 0;
    check_file("brotli");
    for (uint64_t at = 0; at < c.size; at += 41) {
        c.data[at] ^= (unsigned char)(1u << at % 8);
        found += try_all(&c) > 0;
        c.data[at] ^= (unsigned char)(1u << at % 8);
    }
    assert_true(found > 0);
    copy_free(&c);
#else
    stk_context *ctx = test_context();
    check_refused(ctx, "parquet:" GOLDEN "brotli.parquet", STK_ENOTSUP, "compressed by brotli");
    stk_context_destroy(&ctx);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_int96),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_units),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_codes),  cmocka_unit_test(test_old_writers),
        cmocka_unit_test(test_holes),  cmocka_unit_test(test_ends),
        cmocka_unit_test(test_bits),   cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_place),  cmocka_unit_test(test_brotli),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
