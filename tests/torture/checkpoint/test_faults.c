/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saving and loading, in one file and in parts, while the n-th allocation or the n-th call on a
 * file fails, for every n until all succeed. At every moment the final name is a checkpoint that
 * verifies: the earlier or the new one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/durable.h"
#include "checkpoint/checkpoint.h"
#include "support/faults.h"
#include "support/support.h"

enum { MOST = 2000 };

/* ---- Calls on files that fail ---- */

typedef struct disk {
    stk__file_calls calls;
    faults faults;
    int error;
} disk;

static bool strikes(void *user)
{
    disk *d = user;

    if (!fault_strikes(&d->faults))
        return false;
    errno = d->error;
    return true;
}

static int disk_open(void *user, int folder, const char *name, int flags, mode_t mode)
{
    return strikes(user) ? -1 : stk__file_calls_system.open(NULL, folder, name, flags, mode);
}

static int disk_allocate(void *user, int fd, uint64_t bytes)
{
    return strikes(user) ? -1 : stk__file_calls_system.allocate(NULL, fd, bytes);
}

static ssize_t disk_write(void *user, int fd, const void *data, size_t length)
{
    if (strikes(user)) {
        /* A part of it is on the disk all the same. */
        int error = errno;
        if (write(fd, data, length / 2) < 0)
            return -1;
        errno = error;
        return -1;
    }
    return stk__file_calls_system.write(NULL, fd, data, length > 500 ? length / 2 : length);
}

static int disk_fsync(void *user, int fd)
{
    return strikes(user) ? -1 : 0;
}

static int disk_close(void *user, int fd)
{
    bool failed = strikes(user);
    int error = errno;

    close(fd);
    errno = error;
    return failed ? -1 : 0;
}

static int disk_rename(void *user, int folder, const char *from, const char *to, bool keep)
{
    return strikes(user) ? -1 : stk__file_calls_system.rename(NULL, folder, from, to, keep);
}

static int disk_link(void *user, int from_folder, const char *from, int folder, const char *to)
{
    return strikes(user) ? -1 : stk__file_calls_system.link(NULL, from_folder, from, folder, to);
}

static int disk_unlink(void *user, int folder, const char *name)
{
    return strikes(user) ? -1 : stk__file_calls_system.unlink(NULL, folder, name);
}

static int disk_mkdir(void *user, int folder, const char *name, mode_t mode)
{
    return strikes(user) ? -1 : stk__file_calls_system.mkdir(NULL, folder, name, mode);
}

static const stk__file_calls disk_calls = {
    .open = disk_open,
    .allocate = disk_allocate,
    .write = disk_write,
    .fsync = disk_fsync,
    .close = disk_close,
    .rename = disk_rename,
    .link = disk_link,
    .unlink = disk_unlink,
    .mkdir = disk_mkdir,
};

/* ---- The program ---- */

typedef struct paths {
    char folder[256], a[300], b[300], last[300];
} paths;

/* Of `w` in two parts; the second is on the disk before the first is handed over. */
static stk_status save_parts(stk__checkpoint_writer *writer, const char *path,
                             const stk_state_tensor *w, const stk_state_tensor *b,
                             const stk__checkpoint_text *text, const char *replaces, stk_error *err)
{
    stk__checkpoint_part part = {.number = 1, .count = 2};
    int64_t shape[] = {w->shape[0]};
    stk_state_tensor first = *w, second = *w;

    first.name = second.name = STK__CHECKPOINT_RANGE "w";
    first.shape[0] = 100;
    second.shape[0] = w->shape[0] - first.shape[0];
    first.bytes = 100 * sizeof(float);
    second.bytes = w->bytes - first.bytes;
    second.data = (float *)w->data + 100;
    const stk_state_tensor tensors[] = {
        first, {STK__CHECKPOINT_SHAPE "w", STK_INT64, 1, {1}, shape, sizeof shape}, *b};
    stk__checkpoint_part_draw(&part);
    STK_TRY(stk__checkpoint_save_part(writer, &part, path, &second, 1, text, 1, NULL, 0, err));
    STK_TRY(stk__checkpoint_flush(writer, err));
    part.number = 0;
    return stk__checkpoint_save_part(writer, &part, path, tensors, 3, text, 1, &replaces,
                                     replaces ? 1 : 0, err);
}

static stk_status save(stk__checkpoint_writer *writer, const char *path, int step, bool in_parts,
                       const char *replaces, stk_error *err)
{
    float weight[300];
    char text[16];

    for (int i = 0; i < 300; i++)
        weight[i] = (float)(step * 1000 + i);
    snprintf(text, sizeof text, "%d", step);
    const stk_state_tensor tensors[] = {
        {"w", STK_FLOAT32, 1, {300}, weight, sizeof weight},
        {"b", STK_UINT8, 1, {4}, weight, 4},
    };
    const stk__checkpoint_text texts[] = {{STK__CHECKPOINT_STEP, text}};
    return in_parts ? save_parts(writer, path, &tensors[0], &tensors[1], texts, replaces, err)
                    : stk__checkpoint_save(writer, path, tensors, 2, texts, 1, &replaces,
                                           replaces ? 1 : 0, NULL, err);
}

/* Replace checkpoint 1 by 2, then 2 by 3 under its name, with links. The first failure. */
static stk_status run(stk_context *ctx, const stk__file_calls *calls, const paths *p, bool in_parts,
                      int64_t *acked)
{
    stk__checkpoint_writer *writer = NULL;
    stk_error err;

    STK_TRY(stk__checkpoint_writer_create_on(ctx, calls, &writer, &err));
    stk_status status = save(writer, p->b, 2, in_parts, p->a, &err);
    if (status == STK_OK)
        status = stk__checkpoint_flush(writer, &err);
    if (status == STK_OK) {
        *acked = 2;
        status = stk__checkpoint_link(writer, p->b, p->last, &err);
    }
    if (status == STK_OK)
        status = save(writer, p->b, 3, in_parts, NULL, &err);
    if (status == STK_OK)
        status = stk__checkpoint_flush(writer, &err);
    if (status == STK_OK)
        *acked = 3;
    stk__checkpoint_writer_destroy(&writer);
    return status;
}

static void begin(stk_context *ctx, const paths *p, bool in_parts)
{
    static stk__file_calls quick;
    static disk good = {.faults.left = FAULTS_NONE};
    stk__checkpoint_writer *writer = NULL;
    stk_error err;

    quick = disk_calls;
    quick.user = &good;
    unlink(p->b);
    unlink(p->last);
    assert_ok(stk__checkpoint_writer_create_on(ctx, &quick, &writer, &err), &err);
    assert_ok(save(writer, p->a, 1, in_parts, NULL, &err), &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    stk__checkpoint_writer_destroy(&writer);
}

/* Every file there is good, and the newest is no older than what was acknowledged. */
static void check(stk_context *ctx, const paths *p, int64_t acked)
{
    const char *const files[] = {p->a, p->b, p->last};
    stk__checkpoint *c = NULL;
    char found[300];
    stk_error err;

    for (size_t i = 0; i < 3; i++)
        if (access(files[i], F_OK) == 0)
            assert_ok(stk__checkpoint_verify(ctx, files[i], &err), &err);
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = p->folder}, found,
                                     sizeof found, &err),
              &err);
    assert_ok(stk__checkpoint_open(ctx, found, &c, &err), &err);
    int64_t step = strtoll(stk__checkpoint_find_text(c, STK__CHECKPOINT_STEP), NULL, 10);
    assert_true(step >= acked && step <= 3);
    const stk_state_tensor *t = stk__checkpoint_find(c, "w");
    assert_true(((const float *)t->data)[299] == (float)(step * 1000 + 299));
    stk__checkpoint_close(&c);
}

static void make_paths(paths *p)
{
    test_folder(p->folder);
    snprintf(p->a, sizeof p->a, "%s/a.ckpt", p->folder);
    snprintf(p->b, sizeof p->b, "%s/sub/b.ckpt", p->folder);
    snprintf(p->last, sizeof p->last, "%s/last.ckpt", p->folder);
}

static void files_fail(bool in_parts)
{
    stk_context *ctx = test_context();
    const int errors[] = {ENOSPC, EIO};
    paths p;

    make_paths(&p);
    for (int k = 0; k < 4; k++) {
        disk d = {.calls = disk_calls, .faults.for_good = k & 1, .error = errors[k / 2]};
        d.calls.user = &d;
        int64_t n = 0;
        for (; n < MOST; n++) {
            int64_t acked = 1;
            begin(ctx, &p, in_parts);
            d.faults.left = n;
            (void)run(ctx, &d.calls, &p, in_parts, &acked);
            check(ctx, &p, acked);
            if (!fault_struck(&d.faults)) {
                assert_int_equal(acked, 3);
                break;
            }
        }
        assert_true(n > 20 && n < MOST);
    }
    test_folder_remove(p.folder);
    stk_context_destroy(&ctx);
}

static void test_files_fail(void **state)
{
    files_fail(false);
    files_fail(true);
}

/* The whole life of a context. True when no allocation failed. */
static bool run_without_memory(const paths *p, bool in_parts, int64_t n, bool for_good)
{
    static disk good = {.faults.left = FAULTS_NONE};
    stk__file_calls calls = disk_calls;
    faults f = {.left = n, .for_good = for_good};
    stk_context_options options;
    stk_context *ctx = NULL;
    stk__checkpoint *c = NULL;
    int64_t acked = 1;
    char found[300];
    stk_error err;

    calls.user = &good;
    stk_context_options_init(&options);
    options.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    stk_error_init(&err);
    stk_status status = stk_context_create(&options, &ctx, &err);
    if (status == STK_OK)
        status = run(ctx, &calls, p, in_parts, &acked);
    if (status == STK_OK)
        status = stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = p->folder}, found,
                                        sizeof found, &err);
    if (status == STK_OK)
        status = stk__checkpoint_open(ctx, found, &c, &err);
    if (status == STK_OK)
        assert_int_equal(stk__checkpoint_count(c), 2);
    assert_true(status == STK_OK || status == STK_ENOMEM);
    stk__checkpoint_close(&c);
    stk_context_destroy(&ctx);
    assert_int_equal(f.held, 0);
    assert_true(!fault_struck(&f) || for_good || status != STK_OK || acked == 3);
    return !fault_struck(&f);
}

static void test_memory_fails(void **state)
{
    stk_context *ctx = test_context();
    paths p;

    make_paths(&p);
    for (int k = 0; k < 4; k++) {
        const bool for_good = k & 1, in_parts = k & 2;
        bool ended = false;
        for (int64_t n = 0; n < MOST && !ended; n++) {
            begin(ctx, &p, in_parts);
            ended = run_without_memory(&p, in_parts, n, for_good);
            check(ctx, &p, 1);
        }
        assert_true(ended);
    }
    test_folder_remove(p.folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_fail),
        cmocka_unit_test(test_memory_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
