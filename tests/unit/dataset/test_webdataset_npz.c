/* SPDX-License-Identifier: Apache-2.0 */
/* webdataset: the arrays of npz archives are fields; archives that are not read, and damaged ones.
 */
#include "shards.h"
#include "support/zips.h"

#define GOLDEN  TESTS_DIR "/golden/webdataset"
#define SAMPLES 5

static char folder[256];
static stk_context *ctx;
static shard_sample sample;

static int begin(void **state)
{
    ctx = test_context();
    test_folder(folder);
    return 0;
}

static int end(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

/* ---- Archives of NumPy ---- */

static void check_golden(const char *name)
{
    stk_dataset *d = shards_open_good(ctx, GOLDEN, name);

    assert_int_equal(d->size, SAMPLES);
    assert_int_equal(d->num_fields, 3);
    for (int i = 0; i < SAMPLES; i++) {
        int16_t a[12];
        const float b[] = {(float)i, (float)i + 0.5f};
        for (int k = 0; k < 12; k++)
            a[k] = (int16_t)(100 * i + k);
        shard_take(d, (uint64_t)i, &sample);
        shard_check(d, &sample, "npz.a", a, sizeof a);
        shard_check(d, &sample, "npz.b", b, sizeof b);
        shard_check_label(d, &sample, i);
    }
    const stk_field *field = &d->fields[shard_field(d, "npz.a")];
    assert_true(field->layout == STK_FIXED && field->dtype == STK_INT16 && field->rank == 2);
    assert_true(field->shape[0] == 3 && field->shape[1] == 4);
    shard_check_line(d, "parts npz/a.npy", "5, ");
    stk_dataset_close(&d);
}

static void test_golden(void **state)
{
    check_golden("stored.tar?index=none");
    check_golden("deflated.tar?index=none");
}

/* A thread that has room of its own for what it inflates. */
static void test_worker(void **state)
{
    stk_dataset *d = shards_open_good(ctx, GOLDEN, "deflated.tar?index=none");
    void *worker = NULL;

    assert_true(d->worker_bytes > 128 + 24);
    assert_int_equal(d->ops->worker_open(d, &worker), STK_OK);
    assert_non_null(worker);
    d->ops->worker_close(d, worker);
    stk_dataset_close(&d);
    d = shards_open_good(ctx, GOLDEN, "ragged.tar?index=none");
    assert_int_equal(d->ops->worker_open(d, &worker), STK_OK);
    assert_null(worker);
    assert_int_equal(d->worker_bytes, 0);
    stk_dataset_close(&d);
}

static void test_ragged(void **state)
{
    stk_dataset *d = shards_open_good(ctx, GOLDEN, "ragged.tar?index=none");
    int32_t tokens[SAMPLES];

    assert_int_equal(d->fields[0].layout, STK_RAGGED);
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k <= i; k++)
            tokens[k] = i + k;
        shard_take(d, (uint64_t)i, &sample);
        shard_check(d, &sample, "npz.tokens", tokens, (size_t)(i + 1) * sizeof *tokens);
        assert_true(sample.bounds[0] >= (size_t)(i + 1) * sizeof *tokens);
    }
    stk_dataset_close(&d);
}

static void test_chosen(void **state)
{
    stk_dataset *d = shards_open_good(ctx, GOLDEN, "deflated.tar?index=none&fields=npz.b,cls");
    stk_error err;

    assert_int_equal(d->num_fields, 2);
    shard_take(d, 1, &sample);
    assert_int_equal(sample.count, 2);
    shard_check(d, &sample, "npz.b", (float[]){1, 1.5f}, 8);
    stk_dataset_close(&d);
    d = shards_open_good(ctx, GOLDEN, "deflated.tar?index=none&fields=npz");
    assert_int_equal(d->num_fields, 2);
    stk_dataset_close(&d);
    assert_fails(shards_open(ctx, GOLDEN, "stored.tar?index=none&fields=npz.c", &d, &err),
                 STK_EINVAL, &err, "'npz.c'");
}

/* ---- Archives made here ---- */

/* One that is being made: an array of uint8[n] of a value, under a name. */
typedef struct npz_bytes {
    unsigned char *data;
    size_t size;
} npz_bytes;

static void npz_add(npz_bytes *z, const char *name, int n, int value, bool deflates)
{
    unsigned char file[512] = "\x93NUMPY\x01", packed[1024], local[30] = "PK\3\4";
    const size_t size = 128 + (size_t)n;

    file[8] = 118;
    memset(file + 10, ' ', 118);
    const int length = snprintf((char *)file + 10, 118,
                                "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }", n);
    file[10 + length] = ' ';
    file[127] = '\n';
    memset(file + 128, value, (size_t)n);
    const size_t stored = deflates ? zip_deflate(file, size, packed, sizeof packed) : size;
    zip_number(local + 8, deflates ? 8 : 0, 2);
    zip_number(local + 14, crc32(0, file, (unsigned)size), 4);
    zip_number(local + 18, stored, 4);
    zip_number(local + 22, size, 4);
    zip_number(local + 26, strlen(name), 2);
    zip_append(&z->data, &z->size, local, sizeof local);
    zip_append(&z->data, &z->size, name, strlen(name));
    zip_append(&z->data, &z->size, deflates ? packed : file, stored);
}

/* The directory is not read; its signature ends the files. */
static void npz_end(npz_bytes *z, tar_bytes *t, const char *member)
{
    zip_append(&z->data, &z->size, "PK\1\2", 4);
    tar_file(t, member, z->data, z->size);
    free(z->data);
    *z = (npz_bytes){NULL, 0};
}

static stk_dataset *open_shard(tar_bytes *t)
{
    tar_end(t);
    shard_write(folder, "a.tar", t);
    return shards_open_good(ctx, folder, "a.tar?index=none");
}

/* Names: arrays alone, others are passed over; a member of the same name is another field. */
static void test_names(void **state)
{
    npz_bytes z = {NULL, 0};
    tar_bytes t = {NULL, 0};

    npz_add(&z, "a.npy", 2, 1, false);
    npz_add(&z, "notes.txt", 2, 1, false);
    npz_add(&z, "b/c.npy", 2, 2, true);
    npz_end(&z, &t, "0.x.npz");
    npz_add(&z, "a.npy", 2, 3, false);
    tar_file(&t, "0.x.npz.a.npy", z.data + 35, 130);
    free(z.data);
    stk_dataset *d = open_shard(&t);
    assert_int_equal(d->num_fields, 3);
    shard_take(d, 0, &sample);
    shard_check(d, &sample, "x.npz/a.npy", "\1\1", 2);
    shard_check(d, &sample, "x.npz.b/c", "\2\2", 2);
    shard_check(d, &sample, "x.npz.a", "\3\3", 2);
    stk_dataset_close(&d);
}

/* Samples whose array differs from the first one's, in the same or another way of packing. */
static void test_bad_samples(void **state)
{
    static const struct {
        int n;
        bool deflates;
        stk_status status;
    } cases[] = {{4, true, STK_OK},
                 {4, false, STK_OK},
                 {3, true, STK_EFORMAT},
                 {9, true, STK_EFORMAT},
                 {4, true, STK_OK}};
    npz_bytes z = {NULL, 0};
    tar_bytes t = {NULL, 0};

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char name[128];
        snprintf(name, sizeof name, "%zu.npz", i);
        npz_add(&z, "a.npy", cases[i].n, (int)i, cases[i].deflates);
        npz_end(&z, &t, name);
    }
    stk_dataset *d = open_shard(&t);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        shard_take(d, i, &sample);
        assert_int_equal(sample.status, cases[i].status);
        if (cases[i].status == STK_OK)
            shard_check(d, &sample, "npz.a", memset((char[4]){0}, (int)i, 4), 4);
    }
    stk_dataset_close(&d);
    /* A stored one of varying length, among which one is deflated. */
    for (int i = 0; i < 3; i++) {
        char name[128];
        snprintf(name, sizeof name, "%d.npz", i);
        npz_add(&z, "a.npy", 2 + i, i, i == 1);
        npz_end(&z, &t, name);
    }
    d = open_shard(&t);
    assert_int_equal(d->fields[0].layout, STK_RAGGED);
    shard_take(d, 1, &sample);
    assert_int_equal(sample.status, STK_EKIND);
    shard_take(d, 2, &sample);
    shard_check(d, &sample, "npz.a", "\2\2\2\2", 4);
    stk_dataset_close(&d);
}

/* Damage of bytes is noticed, where the archive has them as they are as well. */
static void test_damage(void **state)
{
    for (int deflates = 0; deflates < 2; deflates++) {
        npz_bytes z = {NULL, 0};
        tar_bytes t = {NULL, 0};
        npz_add(&z, "a.npy", 4, 1, deflates);
        npz_end(&z, &t, "0.npz");
        npz_add(&z, "a.npy", 4, 1, deflates);
        const size_t last = z.size - 1;
        z.data[deflates ? 35 + 8 : last] ^= 1;
        npz_end(&z, &t, "1.npz");
        stk_dataset *d = open_shard(&t);
        shard_take(d, 0, &sample);
        shard_check(d, &sample, "npz.a", "\1\1\1\1", 4);
        shard_take(d, 1, &sample);
        assert_true(sample.status < 0 && sample.reason);
        stk_dataset_close(&d);
    }
}

/* Archives that are not read array by array are refused, unless they are left out. */
static void test_refused(void **state)
{
    static const struct {
        size_t at;
        const char *bytes;
        size_t size;
    } changes[] = {{6, "\1", 1},                                /* encrypted */
                   {6, "\10", 1},                               /* sizes behind */
                   {8, "\14", 1},                               /* bzip2 */
                   {0, "QK", 2},                                /* no archive */
                   {22, "\0\0\0", 3},                           /* sizes that differ */
                   {18, "\0\0\0\1\0\0\0\1", 8},                 /* beyond the member */
                   {18, "\377\377\377\377\377\377\377\377", 8}, /* of 64 bits, which are missing */
                   {26, "\377\377", 2},                         /* a name beyond it */
                   {28, "\377\377", 2},                         /* an extra field beyond it */
                   {163, "xxxx", 4}};                           /* no directory behind the array */
    npz_bytes z = {NULL, 0};
    tar_bytes t = {NULL, 0};
    stk_dataset *d = NULL;
    stk_error err;

    for (size_t i = 0; i < STK_COUNT(changes); i++) {
        npz_add(&z, "a.npy", 0, 1, false);
        zip_append(&z.data, &z.size, "PK\1\2", 4);
        memcpy(z.data + changes[i].at, changes[i].bytes, changes[i].size);
        npz_end(&z, &t, "0.npz");
        shard_text(&t, "0.cls", "7");
        tar_end(&t);
        shard_write(folder, "a.tar", &t);
        assert_fails(shards_open(ctx, folder, "a.tar?index=none", &d, &err), STK_ENOTSUP, &err,
                     "a.tar, record 0, byte 512: 'npz' is no archive");
        d = shards_open_good(ctx, folder, "a.tar?index=none&fields=cls");
        shard_take(d, 0, &sample);
        shard_check_label(d, &sample, 7);
        stk_dataset_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_worker),
        cmocka_unit_test(test_ragged), cmocka_unit_test(test_chosen),
        cmocka_unit_test(test_names),  cmocka_unit_test(test_bad_samples),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
