/* SPDX-License-Identifier: Apache-2.0 */
/* Stores whose bytes are kept on a local disk: what is read, how often below, and what goes. */
#include "support/cached.h"

#include <fcntl.h>
#include <inttypes.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "base/tiers.h"
#include "store/fetch.h"

static void what_was_read_is_kept(void **state)
{
    cached *c = *state;
    stk_store *store = cached_open(c, "", "");

    cached_read_all(c, store, 1);
    assert_int_equal(counted->stats, 1);
    stk_store_close(&store);
    const uint64_t bytes = counted->bytes;
    assert_true(bytes <= CACHED_SIZE);
    store = cached_open(c, "slow+", "&latency=1ms");
    for (uint64_t i = 0; i < 3; i++)
        cached_read_all(c, store, i);
    stk_store_close(&store);
    assert_int_equal(counted->bytes, bytes);
    assert_int_equal(counted->stats, 2);
    cached_walk(c);
    assert_int_equal(cached_files, 1);
    assert_int_equal(cached_warnings, 0);
}

/* Offsets and lengths near the borders of blocks, cold and warm. */
static void every_range_is_right(void **state)
{
    enum { B = CACHED_BLOCK };
    static const uint64_t near[] = {0,     1,          B - 1,  B,           B + 1,      2 * B,
                                    65536, 40 * B - 1, 40 * B, 40 * B + 99, CACHED_SIZE};
    const size_t n = sizeof near / sizeof *near;
    cached *c = *state;

    for (size_t i = 0; i < n; i++) {
        stk_store *store = cached_open(c, i % 2 ? "slow+" : "", i % 2 ? "&latency=10us" : "");
        for (int warm = 0; warm < 2; warm++)
            for (size_t k = 0; k < n; k++)
                if (near[i] + near[k] <= CACHED_SIZE)
                    assert_int_equal(cached_read(c, store, near[i], near[k]), STK_OK);
        for (uint64_t length = 1; length < 3; length++)
            assert_int_equal(cached_read(c, store, CACHED_SIZE, length), STK_ETRUNCATED);
        stk_store_close(&store);
        test_folder_remove(c->dir);
        assert_int_equal(mkdir(c->dir, 0700), 0);
    }
}

/* ---- Many at once ---- */

typedef struct crowd {
    sem_t ended;
    atomic_uint failed;
} crowd;

static void on_ended(void *user, stk__transfer *list)
{
    crowd *all = user;

    for (stk__transfer *next; list; list = next) {
        next = list->next;
        all->failed += list->status != STK_OK;
        sem_post(&all->ended);
    }
}

enum { MANY = 300 };

/* Read drawn ranges, all at once; those that may end behind the object, too. */
static void read_many(const cached *c, stk_store *store, uint64_t seed, uint64_t deadline_ns,
                      bool stop)
{
    stk__transfer *transfers = calloc(MANY, sizeof *transfers);
    stk__fetcher *fetcher;
    crowd all = {0};
    const stk__fetcher_options options = {.ended = on_ended, .user = &all, .depth = 32};

    sem_init(&all.ended, 0, 0);
    assert_int_equal(stk__fetcher_create(store->context, &options, &fetcher), STK_OK);
    for (size_t i = 0; i < MANY; i++) {
        const uint64_t offset = test_random(&seed) % CACHED_SIZE,
                       length = test_random(&seed) % 60000;
        transfers[i] = (stk__transfer){.store = store,
                                       .key = "x",
                                       .offset = offset,
                                       .length = length,
                                       .data = malloc(length + 1),
                                       .up_to = true,
                                       .needed_next = i % 3 == 0,
                                       .deadline_ns = deadline_ns};
        transfers[i].next = i + 1 < MANY ? &transfers[i + 1] : NULL;
    }
    stk__fetcher_add(fetcher, transfers);
    stk__fetcher_pump(fetcher);
    if (stop)
        stk__fetcher_stop(fetcher, true);
    for (size_t i = 0; i < MANY; i++) {
        while (sem_trywait(&all.ended) != 0) {
            stk__fetcher_pump(fetcher);
            sched_yield();
        }
    }
    assert_true(stop || deadline_ns || all.failed == 0);
    for (size_t i = 0; i < MANY; i++) {
        const stk__transfer *t = &transfers[i];
        if (t->status == STK_OK) {
            assert_int_equal(t->got, STK_MIN(t->length, CACHED_SIZE - t->offset));
            assert_memory_equal(t->data, c->bytes + t->offset, t->got);
        }
        free(t->data);
    }
    stk__fetcher_destroy(&fetcher);
    sem_destroy(&all.ended);
    free(transfers);
}

static void each_block_is_read_once_below(void **state)
{
    cached *c = *state;

    for (int slow = 0; slow < 2; slow++) {
        stk_store *store =
            cached_open(c, slow ? "slow+" : "", slow ? "&latency=300us&order=random" : "");
        counted_reset();
        counted->block = CACHED_BLOCK;
        for (uint64_t i = 0; i < 3; i++)
            read_many(c, store, i + 1, 0, false);
        assert_int_equal(counted->twice, 0);
        assert_int_equal(counted->stats, 1);
        assert_true(counted->bytes <= CACHED_SIZE);
        stk_store_close(&store);
        test_folder_remove(c->dir);
        assert_int_equal(mkdir(c->dir, 0700), 0);
    }
}

static void reads_end_early(void **state)
{
    cached *c = *state;

    for (uint64_t i = 0; i < 8; i++) {
        stk_store *store = cached_open(c, "slow+", "&latency=2ms&distribution=exponential");
        read_many(c, store, i, i % 2 ? stk__now_ns() + 1000000 : 0, i % 2 == 0);
        if (i % 3 == 0) /* what was stopped is read by others */
            assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
        stk_store_close(&store);
    }
}

/* What fails below fails; it is neither kept nor said of others. */
static void failures_below_are_told(void **state)
{
    cached *c = *state;
    stk_store *store = cached_open(c, "slow+", "&fail=0.5&fail_kind=missing");
    unsigned char byte;
    stk_error err;
    unsigned failed = 0;

    for (unsigned i = 0; i < 40; i++)
        failed += cached_read(c, store, i * CACHED_BLOCK, CACHED_BLOCK) != STK_OK;
    assert_true(failed == 0 || failed == 40); /* a share of the objects: this one, or not */
    stk_store_close(&store);
    store = cached_open(c, "slow+", "&fail=0.3&seed=7");
    read_many(c, store, 3, 0, false);
    assert_fails(stk_store_read(store, "nothing", 0, 1, &byte, &err), STK_ENOENT, &err, "nothing");
    assert_fails(stk_store_read(store, "", 0, 1, &byte, &err), STK_EINVAL, &err, "");
    stk_store_close(&store);
}

/* ---- Objects that change ---- */

static void change(cached *c, stk_store *store, unsigned char by)
{
    stk_error err;

    for (size_t i = 0; i < CACHED_SIZE; i++)
        c->bytes[i] ^= by;
    if (store)
        assert_ok(stk_store_put(store, "x", c->bytes, CACHED_SIZE, NULL, &err), &err);
    else
        test_write(c->data, "new", c->bytes, CACHED_SIZE);
}

static void another_identity_is_another_object(void **state)
{
    cached *c = *state;
    stk_store *store = cached_open(c, "", "");
    stk_object_info info = {.struct_size = sizeof info};
    char from[300], to[300];
    unsigned char byte;
    stk_error err;

    cached_read_all(c, store, 1);
    change(c, NULL, 1);
    snprintf(from, sizeof from, "%s/new", c->data);
    snprintf(to, sizeof to, "%s/x", c->data);
    assert_int_equal(rename(from, to), 0);
    assert_ok(stk_store_stat(store, "x", NULL, &info, &err), &err);
    cached_read_all(c, store, 2);
    cached_walk(c);
    assert_int_equal(cached_files, 1); /* the old one is gone */
    change(c, store, 2);
    cached_read_all(c, store, 3);
    stk_store_close(&store);

    change(c, NULL, 4);
    assert_int_equal(rename(from, to), 0);
    store = cached_open(c, "", "");
    cached_read_all(c, store, 4);
    assert_ok(store->ops->remove(store, "x", &stk__store_call_none, &err), &err);
    assert_fails(stk_store_read(store, "x", 0, 1, &byte, &err), STK_ENOENT, &err, "x");
    assert_ok(stk_store_put(store, "x", c->bytes, CACHED_SIZE, NULL, &err), &err);
    assert_ok(store->ops->copy(store, "x", "y", &stk__store_call_none, &err), &err);
    cached_read_all(c, store, 5);
    stk_store_close(&store);
}

static stk_status count_one(void *user, const char *key, const stk_object_info *info)
{
    ++*(int *)user;
    return STK_OK;
}

static void what_was_listed_is_not_asked_for(void **state)
{
    cached *c = *state;
    stk_store *store = cached_open(c, "", "");
    stk_error err;
    int n = 0;

    assert_ok(stk_store_list(store, "", NULL, count_one, &n, &err), &err);
    assert_int_equal(n, 1);
    cached_read_all(c, store, 1);
    assert_int_equal(counted->stats, 0);
    stk_store_close(&store);
}

/* ---- Options, and what is told ---- */

static void options_are_checked(void **state)
{
    cached *c = *state;
    stk_store *store = NULL;
    stk_error err;

    assert_fails(stk_store_open(c->context, "cache+mem://x", &store, NULL, 0, &err), STK_EINVAL,
                 &err, "cache+mem://x?dir=FOLDER");
    assert_fails(stk_store_open(c->context, "cache:/tmp?dir=/tmp", &store, NULL, 0, &err),
                 STK_EINVAL, &err, "wraps nothing");
    assert_fails(cached_try(c, c->context, "", "&block=5000", &store, &err), STK_EINVAL, &err,
                 "power of two");
    assert_fails(cached_try(c, c->context, "", "&sise=1GiB", &store, &err), STK_EINVAL, &err,
                 "'size'");
    assert_fails(
        stk_store_open(c->context, "cache+file:///no/such?dir=/tmp", &store, NULL, 0, &err),
        STK_ENOENT, &err, "no");
}

static void note_line(void *user, const char *name, const char *value)
{
    char *text = user;

    snprintf(text + strlen(text), 2000 - strlen(text), "%s: %s\n", name, value);
}

static void it_says_what_it_saved(void **state)
{
    cached *c = *state;
    stk_store *store = cached_open(c, "", "");
    char text[2000] = "";
    stk_error err;

    assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
    stk_store_close(&store);
    store = cached_open(c, "", "");
    assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
    assert_ok(stk_store_describe(store, "", note_line, text, &err), &err);
    assert_non_null(strstr(text, c->dir));
    assert_non_null(strstr(text, "cache reads: 1, 163940 bytes\n"));
    assert_non_null(strstr(text, "cache hits: 163940 bytes, 100 %\n"));
    assert_non_null(strstr(text, "reads below: 0, 0 bytes\n"));
    stk_store_close(&store);
}

/* What the context counts is what a loader reports. */
static void tiers_are_counted(void **state)
{
    cached *c = *state;
    const stk_tier *disk, *remote;
    stk_tiers then, now;

    disk = &now.of[STK_TIER_DISK];
    remote = &now.of[STK_TIER_REMOTE];
    for (int slow = 0; slow < 2; slow++) {
        stk__tiers_get(c->context, &then);
        stk_store *store = cached_open(c, slow ? "slow+" : "", slow ? "&latency=1ms" : "");
        assert_int_equal(cached_read(c, store, CACHED_BLOCK, 4 * CACHED_BLOCK), STK_OK);
        stk_store_close(&store);
        stk__tiers_get(c->context, &now);
        stk__tiers_subtract(&now, &then);
        assert_int_equal(remote->bytes, 4 * CACHED_BLOCK);
        assert_int_equal(remote->reads, 1);
        assert_true(remote->ns >= (slow ? 1000000u : 1u));
        assert_int_equal(disk->reads, 0);
        /* Long ones are read by the engine, and short ones within the call. */
        store = cached_open(c, "", "");
        for (uint64_t length = 100; length < CACHED_SIZE; length *= 50)
            assert_int_equal(cached_read(c, store, CACHED_BLOCK, length), STK_OK);
        assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
        stk_store_close(&store);
        stk__tiers_get(c->context, &now);
        stk__tiers_subtract(&now, &then);
        assert_int_equal(disk->bytes, 100 + 5000 + 4 * CACHED_BLOCK);
        assert_true(disk->reads >= 3 && disk->ns > 0);
        assert_int_equal(remote->bytes, CACHED_SIZE);
        test_folder_remove(c->dir);
        assert_int_equal(mkdir(c->dir, 0700), 0);
    }
}

/* ---- What goes ---- */

enum { OBJECTS = 64, OBJECT = 65536 };

static void write_objects(const cached *c, const char *prefix)
{
    unsigned char bytes[OBJECT];
    char name[40];

    for (unsigned i = 0; i < OBJECTS; i++) {
        memset(bytes, (int)i, sizeof bytes);
        snprintf(name, sizeof name, "%s%u", prefix, i);
        test_write(c->data, name, bytes, sizeof bytes);
    }
}

/* Read each object once, in a drawn order; bytes that came from below. */
static uint64_t read_epoch(stk_store *store, const char *prefix, uint64_t *seed)
{
    const uint64_t before = counted->bytes;
    unsigned order[OBJECTS];
    unsigned char bytes[OBJECT];
    char name[40];
    stk_error err;

    for (unsigned i = 0; i < OBJECTS; i++)
        order[i] = i;
    for (unsigned i = OBJECTS; i > 1; i--) {
        const unsigned k = (unsigned)(test_random(seed) % i), swap = order[k];
        order[k] = order[i - 1];
        order[i - 1] = swap;
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        snprintf(name, sizeof name, "%s%u", prefix, order[i]);
        assert_ok(stk_store_read(store, name, 0, OBJECT, bytes, &err), &err);
        for (unsigned k = 0; k < OBJECT; k += 997)
            assert_int_equal(bytes[k], order[i]);
    }
    return counted->bytes - before;
}

/* The same through a store of its own: what waits to be kept is kept when it closes. */
static uint64_t open_epoch(const cached *c, const char *options, const char *prefix, uint64_t *seed)
{
    stk_store *store = cached_open(c, "", options);
    const uint64_t below = read_epoch(store, prefix, seed);

    stk_store_close(&store);
    return below;
}

/* The folder `sub` of the data, as a store of its own. */
static cached sub_of(const cached *c)
{
    cached sub = *c;

    snprintf(sub.data, sizeof sub.data, "%.200s/sub", c->data);
    return sub;
}

/* Until nothing waits to be kept: what does is read from memory meanwhile. */
static void wait_for_keeper(stk_store *store, uint64_t fetched)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t kept = 0, not_kept = 0;
    stk_error err;

    for (int i = 0; kept + not_kept < fetched; i++) {
        char text[2000] = "";
        assert_ok(stk_store_describe(store, "", note_line, text, &err), &err);
        const char *line = strstr(text, "\nkept: ");
        assert_non_null(line);
        assert_int_equal(
            sscanf(line, "\nkept: %" SCNu64 " bytes, %" SCNu64 " not", &kept, &not_kept), 2);
        assert_true(i < 30000);
        nanosleep(&pause, NULL);
    }
}

/* Of a dataset twice as large as the cache about half of the reads hit, in every order. */
static void half_a_dataset_hits_half_the_time(void **state)
{
    cached *c = *state;
    uint64_t seed = 11, below = 0;

    write_objects(c, "o");
    for (int epoch = 0; epoch < 8; epoch++) {
        /* What waits to be kept is kept when a store closes. */
        stk_store *store = cached_open(c, "", "&size=2MiB");
        const uint64_t bytes = read_epoch(store, "o", &seed);
        below += epoch ? bytes : 0;
        wait_for_keeper(store, bytes);
        if (epoch % 2)
            below += read_epoch(store, "o", &seed);
        stk_store_close(&store);
        cached_walk(c);
        assert_true(cached_bytes <= 2 << 20);
    }
    const double hit_rate = 1.0 - (double)below / (11.0 * OBJECTS * OBJECT);
    if (hit_rate < 0.4 || hit_rate > 0.5)
        fail_msg("%.3f of the bytes of later epochs were kept", hit_rate);
}

/* What nobody has open makes room for what somebody has, whose next epochs then hit. */
static void closed_stores_make_room(void **state)
{
    cached *c = *state;
    uint64_t seed = 12;

    write_objects(c, "o");
    write_objects(c, "sub/o");
    stk_store *store = cached_open(c, "", "&size=6MiB");
    read_epoch(store, "o", &seed);
    assert_int_equal(read_epoch(store, "o", &seed), 0);
    stk_store_close(&store);

    const cached other = sub_of(c);
    store = cached_open(&other, "", "&size=6MiB");
    read_epoch(store, "o", &seed);
    assert_true(read_epoch(store, "o", &seed) <= OBJECTS * OBJECT / 8);
    /* While files come and go, a walk may meet more than there are at any time. */
    stk_store_close(&store);
    cached_walk(c);
    assert_true(cached_bytes <= 6 << 20);
}

static int make_old(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    const struct timespec times[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};

    return utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

/* What of an open store is not read any more makes room after some epochs without it. */
static void what_is_not_used_any_more_makes_room(void **state)
{
    cached *c = *state;
    uint64_t seed = 14;

    write_objects(c, "old");
    write_objects(c, "new");
    open_epoch(c, "&size=6MiB", "old", &seed);
    assert_int_equal(nftw(c->dir, make_old, 16, FTW_PHYS), 0);
    /* One epoch more is no reason: what was not read yet may be needed. */
    open_epoch(c, "&size=6MiB", "new", &seed);
    assert_int_equal(open_epoch(c, "&size=6MiB", "old", &seed), 0);
    assert_int_equal(nftw(c->dir, make_old, 16, FTW_PHYS), 0);
    stk_store *store = cached_open(c, "", "&size=6MiB");
    for (int epoch = 0; epoch < 4; epoch++)
        read_epoch(store, "new", &seed);
    stk_store_close(&store);
    assert_true(open_epoch(c, "&size=6MiB", "new", &seed) <= OBJECTS * OBJECT / 8);
}

/* The bound holds for what a file system adds when it writes the many pieces of a file out. */
static void pieces_of_files_stay_within_the_bound(void **state)
{
    cached *c = *state;
    unsigned char bytes[CACHED_BLOCK];
    char name[40];
    stk_error err;

    write_objects(c, "o");
    for (uint64_t at = 0; at < OBJECT; at += 2 * CACHED_BLOCK) {
        /* No more at a time than may wait to be kept. */
        stk_store *store = cached_open(c, "", "&size=2MiB");
        for (unsigned i = 0; i < OBJECTS; i++) {
            snprintf(name, sizeof name, "o%u", i);
            assert_ok(stk_store_read(store, name, at, sizeof bytes, bytes, &err), &err);
        }
        stk_store_close(&store);
    }
    cached_walk(c);
    assert_true(cached_bytes > 3 << 19);
    assert_true(cached_bytes <= 2 << 20);
}

/* Older versions make room before what a store that is closed may need again. */
static void older_versions_go_first(void **state)
{
    cached *c = *state;
    const cached other = sub_of(c);
    char from[300], to[300];
    uint64_t seed = 15;

    write_objects(c, "o");
    write_objects(c, "sub/o");
    open_epoch(&other, "&size=10MiB", "o", &seed);
    open_epoch(c, "&size=10MiB", "o", &seed);
    assert_int_equal(nftw(c->dir, make_old, 16, FTW_PHYS), 0);
    write_objects(c, "n");
    for (unsigned i = 0; i < OBJECTS; i++) {
        snprintf(from, sizeof from, "%s/n%u", c->data, i);
        snprintf(to, sizeof to, "%s/o%u", c->data, i);
        assert_int_equal(rename(from, to), 0);
    }
    assert_int_equal(open_epoch(c, "&size=10MiB", "o", &seed), OBJECTS * OBJECT);
    assert_true(open_epoch(c, "&size=10MiB", "o", &seed) <= OBJECTS * OBJECT / 8);
    assert_int_equal(open_epoch(&other, "&size=10MiB", "o", &seed), 0);
}

/* Two that are open have equal shares in the end, however full it was. */
static void open_stores_share(void **state)
{
    cached *c = *state;
    uint64_t seed = 13;

    write_objects(c, "o");
    write_objects(c, "sub/o");
    stk_store *first = cached_open(c, "", "&size=2MiB");
    read_epoch(first, "o", &seed);
    const cached other = sub_of(c);
    const uint64_t all = OBJECTS * OBJECT;
    uint64_t below = 0;
    for (int epoch = 0; epoch < 3; epoch++)
        below = open_epoch(&other, "&size=2MiB", "o", &seed);
    if (below < all / 8 * 5 || below > all / 8 * 7)
        fail_msg("the second store reads %.2f of its bytes below", (double)below / (double)all);
    cached_walk(c);
    assert_true(cached_bytes <= 2 << 20);
    stk_store_close(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_read_is_kept, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(every_range_is_right, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(each_block_is_read_once_below, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(reads_end_early, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(failures_below_are_told, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(another_identity_is_another_object, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(what_was_listed_is_not_asked_for, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(options_are_checked, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(it_says_what_it_saved, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(tiers_are_counted, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(half_a_dataset_hits_half_the_time, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(closed_stores_make_room, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_used_any_more_makes_room, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(pieces_of_files_stay_within_the_bound, cached_set_up,
                                        cached_tear_down),
        cmocka_unit_test_setup_teardown(older_versions_go_first, cached_set_up, cached_tear_down),
        cmocka_unit_test_setup_teardown(open_stores_share, cached_set_up, cached_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
