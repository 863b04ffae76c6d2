/* A folder with an object, a folder to keep it in, and stores of both. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_CACHED_H
#define STK_TESTS_SUPPORT_CACHED_H

#include "support/counted.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHED_BLOCK 4096u
#define CACHED_SIZE  (40 * CACHED_BLOCK + 100)

typedef struct cached {
    stk_context *context;
    char data[256], dir[256];
    unsigned char bytes[CACHED_SIZE]; /* of the object "x" in `data` */
} cached;

static _Atomic unsigned cached_warnings;

static inline void cached_message(void *user, stk_message_level level, const char *message)
{
    if (level == STK_MESSAGE_WARNING)
        cached_warnings++;
    if (getenv("STOKER_TEST_VERBOSE"))
        fprintf(stderr, "%s\n", message);
}

/* A context that knows counted: and counts warnings. */
static inline stk_context *cached_context(void)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    stk_error err;

    stk_context_options_init(&options);
    options.on_message = cached_message;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    counted_add(ctx);
    return ctx;
}

static inline int cached_set_up(void **state)
{
    cached *c = calloc(1, sizeof *c);
    uint64_t seed = 5;

    c->context = cached_context();
    test_folder(c->data);
    test_folder(c->dir);
    for (size_t i = 0; i < CACHED_SIZE; i++)
        c->bytes[i] = (unsigned char)test_random(&seed);
    test_write(c->data, "x", c->bytes, CACHED_SIZE);
    counted_reset();
    cached_warnings = 0;
    *state = c;
    return 0;
}

static inline int cached_tear_down(void **state)
{
    cached *c = *state;

    stk_context_destroy(&c->context);
    test_folder_remove(c->data);
    test_folder_remove(c->dir);
    free(c);
    return 0;
}

/* The data through a cache; `wrapper` is "" or as "slow+", `options` as "&latency=1ms". */
static inline stk_status cached_try(const cached *c, stk_context *ctx, const char *wrapper,
                                    const char *options, stk_store **out, stk_error *err)
{
    char url[800];

    snprintf(url, sizeof url, "cache+%scounted://%s?dir=%s&block=4096%s", wrapper, c->data, c->dir,
             options);
    return stk_store_open(ctx, url, out, NULL, 0, err);
}

static inline stk_store *cached_open(const cached *c, const char *wrapper, const char *options)
{
    stk_store *store = NULL;
    stk_error err;

    assert_ok(cached_try(c, c->context, wrapper, options, &store, &err), &err);
    return store;
}

/* Whether a range comes, and is right where it does. */
static inline stk_status cached_read(const cached *c, stk_store *store, uint64_t offset,
                                     uint64_t length)
{
    unsigned char *got = malloc(length + 1);
    stk_error err;

    got[length] = 77;
    const stk_status status = stk_store_read(store, "x", offset, length, got, &err);
    if (status == STK_OK)
        assert_memory_equal(got, c->bytes + offset, length);
    assert_int_equal(got[length], 77);
    free(got);
    return status;
}

/* Ranges of the object, drawn and whole. */
static inline void cached_read_all(const cached *c, stk_store *store, uint64_t seed)
{
    for (int i = 0; i < 20; i++) {
        const uint64_t offset = test_random(&seed) % CACHED_SIZE;
        assert_int_equal(
            cached_read(c, store, offset, test_random(&seed) % (CACHED_SIZE - offset + 1)), STK_OK);
    }
    assert_int_equal(cached_read(c, store, 0, CACHED_SIZE), STK_OK);
}

/* ---- What lies in the cache ---- */

static char cached_found[700];
static uint64_t cached_bytes, cached_files;

static inline int cached_look(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    if (flag != FTW_F || strcmp(path + at->base, "state") == 0)
        return 0;
    /* Some file systems know what a file takes when it is written out. */
    struct stat written = *st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fdatasync(fd) == 0)
        (void)fstat(fd, &written);
    if (fd >= 0)
        close(fd);
    cached_bytes += (uint64_t)written.st_blocks * 512;
    cached_files++;
    snprintf(cached_found, sizeof cached_found, "%s", path);
    return 0;
}

/* Count the files of the cache; the path of one of them. */
static inline const char *cached_walk(const cached *c)
{
    cached_bytes = cached_files = 0;
    cached_found[0] = 0;
    assert_int_equal(nftw(c->dir, cached_look, 16, FTW_PHYS), 0);
    return cached_found;
}

#endif
