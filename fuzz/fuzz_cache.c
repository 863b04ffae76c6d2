/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a cache. Input: a byte that says which, and what lies there when a cache is opened.
 * What is read is right whatever that is, and reading it once more needs nothing of the store below
 * that the disk has room for.
 */
#include "fuzz_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/cache/cache.h"

#define SIZE 10000u /* of the object: two blocks and a part */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[200], file[700], state[400];
static uint8_t bytes[SIZE];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)flag, (void)at;
    return remove(path);
}

static void clean(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int find_file(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    if (flag == FTW_F && strcmp(path + at->base, "state") != 0)
        snprintf(file, sizeof file, "%s", path);
    return 0;
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

/* Open the cache, read, close it. */
static void use(uint64_t offset, uint64_t length)
{
    stk_context *ctx = fuzz_context();
    const uint64_t held = fuzz_held(ctx);
    uint8_t got[SIZE];
    stk_store *store = NULL;
    char url[600];
    stk_error err;

    snprintf(url, sizeof url, "cache+file://%s/data?dir=%s/cache&block=4096&size=1MiB", folder,
             folder);
    FUZZ_CHECK(stk_store_open(ctx, url, &store, NULL, 0, &err) == STK_OK);
    FUZZ_CHECK(stk_store_read(store, "x", offset, length, got, &err) == STK_OK);
    FUZZ_CHECK(memcmp(got, bytes + offset, length) == 0);
    if (store->ops->read_now(store, "x", offset, length, got) == STK_OK)
        FUZZ_CHECK(memcmp(got, bytes + offset, length) == 0);
    stk_store_close(&store);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
}

static void set_up(void)
{
    const char *base = getenv("TMPDIR");
    char path[300];

    snprintf(folder, sizeof folder, "%s/stoker-fuzz-XXXXXX", base ? base : "/tmp");
    FUZZ_CHECK(mkdtemp(folder) && atexit(clean) == 0);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    snprintf(path, sizeof path, "%s/data", folder);
    FUZZ_CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/data/x", folder);
    write_file(path, bytes, SIZE);
    use(0, SIZE);
    snprintf(path, sizeof path, "%s/cache", folder);
    snprintf(state, sizeof state, "%s/" STK__CACHE_OWN "/state", path);
    FUZZ_CHECK(nftw(path, find_file, 16, FTW_PHYS) == 0 && file[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!folder[0])
        set_up();
    if (size < 1)
        return 0;
    if (data[0] & 1) {
        write_file(state, data + 1, size - 1);
    } else if (data[0] & 2) {
        /* What is right, with the input over it from its second byte on. */
        use(0, SIZE);
        int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (size > 2)
            FUZZ_CHECK(fd >= 0 &&
                       pwrite(fd, data + 2, size - 2, data[1] * 2) == (ssize_t)(size - 2));
        close(fd);
    } else {
        write_file(file, data + 1, size - 1);
    }
    use(0, SIZE);
    use(data[0] * 16, 4096);
    return 0;
}
