/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers where something is rare or runs short: runs that begin at one place, objects without
 * an identity, threads that do not start and are not needed, memory, and more runs than are looked
 * at.
 */
#include <stdlib.h>
#include <string.h>

#include "store/container_store.h"
#include "support/faulty_context.h"
#include "support/faulty_threads.h"
#include "support/over_mem.h"
#include "support/zips.h"

/* A context of faulty memory with mem://z, which holds archives. */
typedef struct fixture {
    faults memory;
    stk_context *ctx;
    stk_store *mem;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    stk_error err;

    f->memory.left = FAULTS_NONE;
    f->ctx = faulty_context(&f->memory);
    assert_ok(stk_store_open(f->ctx, "mem://z", &f->mem, NULL, 0, &err), &err);
    zip_put(f->mem, "s.zip", "stored");
    zip_put(f->mem, "d.zip", "deflated");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    thread_faults.left = f->memory.left = FAULTS_NONE;
    stk_store_close(&f->mem);
    stk_context_destroy(&f->ctx);
    assert_int_equal(f->memory.held, 0);
    free(f);
    return 0;
}

static stk_store *open_zip(const fixture *f, const char *url)
{
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(f->ctx, url, &store, NULL, 0, &err), &err);
    return store;
}

static const char *const files[] = {"a.txt", "b/one.bin", "b/c/two.txt"};

/* ---- Runs ---- */

/* Another format over the tables of an archive. */
static stk__container_format other;

static stk__container *become_other(stk_store *store)
{
    stk__container *c = ((stk__container_store *)store)->container;

    other = *c->format;
    c->format = &other;
    return c;
}

/* Of each file another run at the first byte. */
static stk_status run_at_one_place(const stk__container *c, const void *tables, uint64_t payload,
                                   uint64_t size, uint64_t offset, stk__container_run *out)
{
    *out = (stk__container_run){.stored = 10 + payload % 2,
                                .decoded = 2000 + payload / 2,
                                .skip = offset,
                                .length = size - offset};
    return STK_OK;
}

static unsigned char byte_of(uint64_t stored, uint64_t decoded)
{
    return (unsigned char)(16 * stored + decoded);
}

static stk_status fill(const stk__container *c, const void *tables, stk__codec_state *state,
                       const stk__container_run *e, const void *stored, void *out,
                       const char **reason)
{
    memset(out, byte_of(e->stored, e->decoded), e->decoded);
    return STK_OK;
}

static void runs_at_one_place_are_told_apart(void **state)
{
    stk_store *store = open_zip(*state, "zip:mem://z/s.zip!/");
    const stk__container *c = become_other(store);
    stk_error err;

    other.extent = run_at_one_place;
    other.decode = fill;
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < STK_COUNT(files); i++) {
            const uint64_t payload = stk__container_find(c, files[i])->payload;
            unsigned char found[3];
            assert_ok(stk_store_read(store, files[i], 1, sizeof found, found, &err), &err);
            for (size_t k = 0; k < sizeof found; k++)
                assert_int_equal(found[k], byte_of(10 + payload % 2, 2000 + payload / 2));
        }
    stk_store_close(&store);
}

/* A run of each byte. */
static stk_status run_of_a_byte(const stk__container *c, const void *tables, uint64_t payload,
                                uint64_t size, uint64_t offset, stk__container_run *out)
{
    *out = (stk__container_run){.stored = 1, .decoded = 1, .length = 1, .raw = true};
    return STK_OK;
}

static void note_stored(void *user, const char *name, const char *value)
{
    if (strcmp(name, "stored") == 0)
        snprintf(user, 100, "%s", value);
}

static void so_many_runs_are_looked_at(void **state)
{
    stk_store *store = open_zip(*state, "zip:mem://z/s.zip!/");
    stk__container *c = become_other(store);
    stk__container_entry *file = &c->entries[stk__container_find(c, "a.txt") - c->entries];
    const uint64_t most = UINT64_C(1) << 22;
    char text[100] = "";
    stk_error err;

    other.extent = run_of_a_byte;
    file->length = most - 1;
    assert_ok(stk_store_describe(store, "a.txt", note_stored, text, &err), &err);
    assert_string_equal(text, "4194303 bytes, 100 % of unpacked");
    file->length = most + 1000;
    assert_ok(stk_store_describe(store, "a.txt", note_stored, text, &err), &err);
    assert_string_equal(text, "4194304 bytes of those that were looked at");
    stk_store_close(&store);
}

/* ---- Identity ---- */

/* mem: that does not know one object from its successor. */
static stk_store_ops nameless;

static stk_status nameless_open(stk_context *ctx, const char *url, const void *options,
                                stk_store **out, stk_error *err)
{
    return test_open_over_mem(&nameless, ctx, url, out, err);
}

/* mem: under another name, for a test to add with calls of its own. */
static stk_store_ops mem_as(const char *name)
{
    stk_store_ops ops = stk__store_mem;

    ops.name = name;
    return ops;
}

static stk_status nameless_stat(stk_store *store, const char *key, const stk_store_call *call,
                                stk_object_info *out, stk_error *err)
{
    const stk_status status = stk__store_mem.stat(store, key, call, out, err);

    out->identity = 0;
    return status;
}

static stk_status no_identity(void *user, const char *key, const stk_object_info *info)
{
    assert_int_equal(info->identity, 0);
    return STK_OK;
}

static void what_is_unknown_stays_unknown(void **state)
{
    const fixture *f = *state;
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    nameless = mem_as("nameless");
    nameless.open = nameless_open;
    nameless.stat = nameless_stat;
    assert_ok(stk_driver_add(f->ctx, STK_DRIVER_STORE, &nameless, &err), &err);
    stk_store *known = open_zip(f, "zip:mem://z/s.zip!/");
    stk_store *store = open_zip(f, "zip:nameless://z/s.zip!/");
    assert_ok(stk_store_stat(known, files[0], NULL, &info, &err), &err);
    assert_true(info.identity != 0);
    assert_ok(stk_store_stat(store, files[0], NULL, &info, &err), &err);
    assert_int_equal(info.identity, 0);
    assert_ok(stk_store_list(store, "b", NULL, no_identity, NULL, &err), &err);
    stk_store_close(&store);
    stk_store_close(&known);
}

/* ---- Threads ---- */

static int ended;

static void note_end(stk_read *read, stk_status status)
{
    assert_int_equal(status, STK_OK);
    ended++;
}

/* Where no thread starts, who would hand the work over does it; and starts are not tried for ever.
 */
static void who_reads_unpacks_where_no_thread_starts(void **state)
{
    unsigned char found[900], whole[900];
    stk_store *store = open_zip(*state, "zip:mem://z/d.zip!/b/c");
    stk_error err;

    assert_ok(stk_store_read(store, "two.txt", 0, sizeof whole, whole, &err), &err);
    stk_store_close(&store);
    store = open_zip(*state, "zip:mem://z/d.zip!/b/c");
    thread_faults.left = 0;
    thread_faults.for_good = true;
    for (int i = 0; i < 2 * STK__CONTAINER_UNPACKERS; i++) {
        stk_read read = {.struct_size = sizeof read,
                         .key = "two.txt",
                         .length = sizeof found,
                         .data = found,
                         .done = note_end};
        ended = 0;
        memset(found, 0, sizeof found);
        assert_int_equal(store->ops->submit(store, &read), STK_OK);
        assert_int_equal(ended, 1);
        assert_memory_equal(found, whole, sizeof found);
    }
    assert_true(fault_struck(&thread_faults));
    assert_true(thread_faults.left >= -STK__CONTAINER_UNPACKERS);
    thread_faults.left = FAULTS_NONE;
    stk_store_close(&store);
}

/* mem: that gives bytes without a read. */
static stk_store_ops ready;

static stk_status ready_open(stk_context *ctx, const char *url, const void *options,
                             stk_store **out, stk_error *err)
{
    return test_open_over_mem(&ready, ctx, url, out, err);
}

static stk_status ready_read_now(stk_store *store, const char *key, uint64_t offset,
                                 uint64_t length, void *data)
{
    stk_read read = {.struct_size = sizeof read,
                     .key = key,
                     .offset = offset,
                     .length = length,
                     .data = data,
                     .done = note_end};

    return stk__store_mem.submit(store, &read);
}

/* A packed file that is wanted as a whole is unpacked by who goes on with it; a part is not. */
static void packed_files_are_had_without_waiting(void **state)
{
    unsigned char found[900], whole[900];
    const fixture *f = *state;
    stk_error err;

    ready = mem_as("ready");
    ready.open = ready_open;
    ready.read_now = ready_read_now;
    assert_ok(stk_driver_add(f->ctx, STK_DRIVER_STORE, &ready, &err), &err);
    stk_store *stored = open_zip(f, "zip:mem://z/s.zip!/b/c");
    stk_store *store = open_zip(f, "zip:ready://z/d.zip!/b/c");

    assert_ok(stk_store_read(stored, "two.txt", 0, sizeof whole, whole, &err), &err);
    memset(found, '#', sizeof found);
    assert_int_equal(store->ops->read_now(store, "two.txt", 0, 100, found), STK_EAGAIN);
    for (size_t i = 100; i < sizeof found; i++)
        assert_int_equal(found[i], '#');
    assert_int_equal(store->ops->read_now(store, "two.txt", 0, sizeof found, found), STK_OK);
    assert_memory_equal(found, whole, sizeof found);
    stk_store_close(&stored);
    stk_store_close(&store);
}

/* ---- Memory ---- */

/* How many of the allocations of opening d.zip may fail, each once, and it opens; with the tables
 * of an archive that is in use, and perhaps of one that is not. */
static int spared(bool idle)
{
    unsigned char found[6], right[6];
    bool struck = true;
    int count = 0;

    for (int64_t n = 0; struck; n++) {
        void *state = NULL;
        assert_int_equal(set_up(&state), 0);
        fixture *f = state;
        zip_put(f->mem, "m.zip", "mixed");
        stk_store *used = open_zip(f, "zip:mem://z/m.zip!/"), *store = NULL;
        stk_error err;
        assert_ok(stk_store_read(used, "a.txt", 0, sizeof right, right, &err), &err);
        if (idle)
            store = open_zip(f, "zip:mem://z/s.zip!/");
        stk_store_close(&store);
        f->memory.left = n;
        const stk_status status =
            stk_store_open(f->ctx, "zip:mem://z/d.zip!/", &store, NULL, 0, &err);
        struck = fault_struck(&f->memory);
        f->memory.left = FAULTS_NONE;
        assert_true(status == STK_OK || (struck && status == STK_ENOMEM));
        count += struck && status == STK_OK;
        assert_ok(stk_store_read(used, "a.txt", 0, sizeof found, found, &err), &err);
        assert_memory_equal(found, right, sizeof found);
        stk_store_close(&store);
        stk_store_close(&used);
        tear_down(&state);
    }
    return count;
}

static void what_nobody_uses_makes_room(void **state)
{
    assert_true(spared(true) > spared(false));
}

#define MANY 3000

/* An archive of many empty files in a folder. */
static void put_many(const char *folder)
{
    stk_context *ctx = test_context();
    stk_store *from = NULL, *to = NULL;
    char name[32];
    stk_error err;

    assert_ok(stk_store_open(ctx, "mem://many", &from, NULL, 0, &err), &err);
    assert_ok(stk_store_open(ctx, folder, &to, NULL, 0, &err), &err);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "folder/file-%08d", i);
        assert_ok(stk_store_put(from, name, "", 0, NULL, &err), &err);
    }
    zip_all(from, to, "many.zip", false);
    zip_put(to, "few.zip", "stored");
    stk_store_close(&from);
    stk_store_close(&to);
    stk_context_destroy(&ctx);
}

static uint64_t held(const stk_context *ctx)
{
    stk_memory_stats stats = {.struct_size = sizeof stats};

    stk_context_memory(ctx, &stats);
    return stats.bytes;
}

/* Open an archive of a folder; *taken: bytes that it holds then. */
static stk_status open_within(const char *folder, const char *name, uint64_t limit, uint64_t *taken,
                              stk_error *err)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_store *store = NULL;
    char url[300];

    snprintf(url, sizeof url, "zip:%s/%s!/", folder, name);
    stk_context_options_init(&options);
    options.memory_limit = limit;
    assert_ok(stk_context_create(&options, &ctx, err), err);
    const uint64_t before = held(ctx);
    const stk_status status = stk_store_open(ctx, url, &store, NULL, 0, err);
    *taken = held(ctx) - before;
    stk_store_close(&store);
    stk_context_destroy(&ctx);
    return status;
}

/* Whatever memory_limit lets an archive open: what stays of it is a quarter of that at most. */
static void tables_and_paths_take_a_quarter(void **state)
{
    stk_status status = STK_ENOMEM, before = STK_ENOMEM;
    char folder[256];
    uint64_t rest, taken, limit = 256 << 10;
    stk_error err;

    test_folder(folder);
    put_many(folder);
    /* What a store takes beside. */
    assert_ok(open_within(folder, "few.zip", 0, &rest, &err), &err);
    while (status != STK_OK) {
        before = status;
        limit += limit / 16;
        status = open_within(folder, "many.zip", limit, &taken, &err);
        if (status == STK_ELIMIT)
            assert_non_null(strstr(err.text, "a quarter of memory_limit; raise it"));
        else
            assert_true(status == STK_OK || status == STK_ENOMEM);
    }
    assert_int_equal(before, STK_ELIMIT);
    assert_true(taken - rest <= limit / 4 + 4096); /* with what an allocation takes itself */
    test_folder_remove(folder);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(runs_at_one_place_are_told_apart),     TEST(so_many_runs_are_looked_at),
        TEST(what_is_unknown_stays_unknown),        TEST(who_reads_unpacks_where_no_thread_starts),
        TEST(packed_files_are_had_without_waiting), TEST(what_nobody_uses_makes_room),
        TEST(tables_and_paths_take_a_quarter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
