/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power cuts in a model: the calls of a run are recorded, and after each of them every state is
 * built that a disk may be left in: bytes that were not synced are all there, gone, zeros or half
 * there; of the changes of the folder that were not synced any subset is there. In each state the
 * newest checkpoint must load, and be no older than the last one that was acknowledged. The same
 * writer without fsync must be caught.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/support.h"
#include "train/checkpoint.h"
#include "train/durable.h"

enum { MAX_OPS = 512, MAX_FILES = 64, MAX_NAMES = 64, MAX_PENDING = 8, NAME = 64 };

/* ---- The record ---- */

typedef enum kind { OPEN, WRITE, FSYNC, FSYNC_FOLDER, RENAME, LINK, UNLINK, ACK } kind;

typedef struct op {
    kind kind;
    int file;                  /* number of the inode */
    char from[NAME], to[NAME]; /* names in the folder */
    uint8_t *data;
    size_t length;
    int step; /* of ACK */
} op;

typedef struct record {
    stk__file_calls calls;
    char folder[256];
    op ops[MAX_OPS];
    size_t n;
    int file_of_fd[1024]; /* -1: a folder */
    int num_files;
    bool lie; /* fsync does nothing */
} record;

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static op *add(record *r, kind k)
{
    assert_true(r->n < MAX_OPS);
    r->ops[r->n] = (op){.kind = k};
    return &r->ops[r->n++];
}

static int rec_open(void *user, const char *path, int flags, mode_t mode)
{
    record *r = user;
    int fd = open(path, flags, mode);

    if (fd < 0)
        return fd;
    assert_true(fd < 1024);
    r->file_of_fd[fd] = -1;
    if (flags & O_CREAT) {
        op *o = add(r, OPEN);
        assert_true(r->num_files < MAX_FILES);
        o->file = r->file_of_fd[fd] = r->num_files++;
        snprintf(o->to, sizeof o->to, "%s", last_name(path));
    }
    return fd;
}

/* Room set aside changes no byte that is read. */
static int rec_allocate(void *user, int fd, uint64_t bytes)
{
    return 0;
}

static ssize_t rec_write(void *user, int fd, const void *data, size_t length)
{
    record *r = user;
    /* In several parts, so that there are moments between them. */
    size_t part = length > 1500 ? 1500 : length;
    ssize_t n = write(fd, data, part);

    assert_int_equal(n, part);
    op *o = add(r, WRITE);
    o->file = r->file_of_fd[fd];
    o->data = malloc(part);
    assert_non_null(o->data);
    memcpy(o->data, data, part);
    o->length = part;
    return n;
}

static int rec_fsync(void *user, int fd)
{
    record *r = user;

    if (r->lie)
        return 0;
    op *o = add(r, r->file_of_fd[fd] < 0 ? FSYNC_FOLDER : FSYNC);
    o->file = r->file_of_fd[fd];
    return 0;
}

static int rec_close(void *user, int fd)
{
    return close(fd);
}

static int rec_rename(void *user, const char *from, const char *to)
{
    op *o = add(user, RENAME);

    snprintf(o->from, sizeof o->from, "%s", last_name(from));
    snprintf(o->to, sizeof o->to, "%s", last_name(to));
    return rename(from, to);
}

static int rec_link(void *user, const char *from, const char *to)
{
    op *o = add(user, LINK);

    snprintf(o->from, sizeof o->from, "%s", last_name(from));
    snprintf(o->to, sizeof o->to, "%s", last_name(to));
    return link(from, to);
}

static int rec_unlink(void *user, const char *path)
{
    if (unlink(path) < 0)
        return -1;
    op *o = add(user, UNLINK);
    snprintf(o->from, sizeof o->from, "%s", last_name(path));
    return 0;
}

static int rec_mkdir(void *user, const char *path, mode_t mode)
{
    return mkdir(path, mode);
}

/* ---- A disk ---- */

typedef struct inode {
    uint8_t *data;
    size_t length, synced;
} inode;

typedef struct name {
    char name[NAME];
    int file;
} name;

/* A change of the folder. Which inode a name means is known when the change is made. */
typedef struct change {
    char add[NAME], drop[NAME];
    int file;
} change;

typedef struct disk {
    inode files[MAX_FILES];
    name now[MAX_NAMES], safe[MAX_NAMES]; /* the folder as seen, and as synced */
    int num_now, num_safe;
    change pending[MAX_PENDING];
    int num_pending;
} disk;

static int find(const name *names, int n, const char *wanted)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i].name, wanted) == 0)
            return i;
    return -1;
}

static void apply(name *names, int *n, const change *c)
{
    int at;

    if (c->drop[0] && (at = find(names, *n, c->drop)) >= 0)
        names[at] = names[--*n];
    if (!c->add[0])
        return;
    at = find(names, *n, c->add);
    if (at < 0) {
        assert_true(*n < MAX_NAMES);
        at = (*n)++;
        snprintf(names[at].name, NAME, "%s", c->add);
    }
    names[at].file = c->file;
}

static void change_folder(disk *d, const char *add, const char *drop, int file)
{
    change c = {.file = file};

    snprintf(c.add, NAME, "%s", add);
    snprintf(c.drop, NAME, "%s", drop);
    apply(d->now, &d->num_now, &c);
    /* Without any sync the list grows: the oldest become safe, as they do in time. */
    if (d->num_pending == MAX_PENDING) {
        apply(d->safe, &d->num_safe, &d->pending[0]);
        memmove(d->pending, d->pending + 1, (MAX_PENDING - 1) * sizeof *d->pending);
        d->num_pending--;
    }
    d->pending[d->num_pending++] = c;
}

static void replay(disk *d, const op *o)
{
    inode *f = &d->files[o->file < 0 ? 0 : o->file];
    int at;

    switch (o->kind) {
    case OPEN:
        change_folder(d, o->to, "", o->file);
        break;
    case WRITE:
        f->data = realloc(f->data, f->length + o->length);
        assert_non_null(f->data);
        memcpy(f->data + f->length, o->data, o->length);
        f->length += o->length;
        break;
    case FSYNC:
        f->synced = f->length;
        break;
    case FSYNC_FOLDER:
        memcpy(d->safe, d->now, sizeof d->now);
        d->num_safe = d->num_now;
        d->num_pending = 0;
        break;
    case RENAME:
    case LINK:
        at = find(d->now, d->num_now, o->from);
        assert_true(at >= 0);
        change_folder(d, o->to, o->kind == RENAME ? o->from : "", d->now[at].file);
        break;
    case UNLINK:
        change_folder(d, "", o->from, 0);
        break;
    case ACK:
        break;
    }
}

/* What becomes of bytes that were not synced. */
enum { ALL, NONE, ZEROS, HALF, FATES };

static void put_file(const char *folder, const char *file, const inode *f, int fate)
{
    size_t open = f->length - f->synced;
    size_t length = f->synced + (fate == NONE ? 0 : fate == HALF ? open / 2 : open);

    uint8_t *bytes = malloc(length + 1);
    assert_non_null(bytes);
    if (length)
        memcpy(bytes, f->data, length);
    if (fate == ZEROS)
        memset(bytes + f->synced, 0, open);
    test_write(folder, file, bytes, length);
    free(bytes);
}

/* Build the folder as a cut leaves it. */
static void build(const disk *d, unsigned subset, int fate, const char *folder)
{
    name names[MAX_NAMES];
    int n = d->num_safe;

    memcpy(names, d->safe, sizeof names);
    for (int i = 0; i < d->num_pending; i++)
        if (subset >> i & 1)
            apply(names, &n, &d->pending[i]);
    for (int i = 0; i < n; i++)
        put_file(folder, names[i].name, &d->files[names[i].file], fate);
}

/* Whether a checkpoint of step `acked` or later loads. */
static bool is_good(stk_context *ctx, const char *folder, int acked)
{
    stk__checkpoint *c = NULL;
    char found[300];
    bool good = false;
    stk_error err;

    if (stk__checkpoint_newest(ctx, folder, found, sizeof found, &err) != STK_OK)
        return false;
    if (stk__checkpoint_open(ctx, found, &c, &err) == STK_OK) {
        int step = atoi(stk__checkpoint_find_text(c, STK__CHECKPOINT_STEP));
        const stk_state_tensor *t = stk__checkpoint_find(c, "w");
        /* That a verified checkpoint is of other bytes is not to be, fsync or not. */
        for (int i = 0; i < 600; i++)
            assert_true(((const float *)t->data)[i] == (float)(step * 1000 + i));
        good = step >= acked;
    }
    stk__checkpoint_close(&c);
    return good;
}

/* All states after all prefixes, until `enough` bad ones are found. Returns how many are bad. */
static uint64_t cut_everywhere(stk_context *ctx, const record *r, uint64_t enough, uint64_t *states)
{
    static disk d;
    uint64_t bad = 0;
    int acked = 0;

    memset(&d, 0, sizeof d);
    *states = 0;
    for (size_t k = 0; k < r->n && bad < enough; k++) {
        replay(&d, &r->ops[k]);
        if (r->ops[k].kind == ACK)
            acked = r->ops[k].step;
        if (acked == 0)
            continue;
        for (unsigned subset = 0; subset < 1u << d.num_pending && bad < enough; subset++)
            for (int fate = 0; fate < FATES; fate++) {
                char folder[256];
                test_folder(folder);
                build(&d, subset, fate, folder);
                bad += !is_good(ctx, folder, acked);
                (*states)++;
                test_folder_remove(folder);
            }
    }
    for (int i = 0; i < MAX_FILES; i++)
        free(d.files[i].data);
    return bad;
}

/* ---- The run ---- */

static void save(stk__checkpoint_writer *writer, const record *r, const char *file, int step,
                 const char *replaces)
{
    float weight[600];
    char path[400], old[400], text[16];
    const char *const olds[] = {old};
    stk_error err;

    for (int i = 0; i < 600; i++)
        weight[i] = (float)(step * 1000 + i);
    snprintf(text, sizeof text, "%d", step);
    snprintf(path, sizeof path, "%s/%s", r->folder, file);
    snprintf(old, sizeof old, "%s/%s", r->folder, replaces);
    const stk_state_tensor tensor = {"w", STK_FLOAT32, 1, {600}, weight, sizeof weight};
    const stk__checkpoint_text texts[] = {{STK__CHECKPOINT_STEP, text}};
    assert_ok(stk__checkpoint_save(writer, path, &tensor, 1, texts, 1, olds, replaces[0] ? 1 : 0,
                                   NULL, &err),
              &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
}

/* The caller is told that a checkpoint is safe when flush() returns. */
static void ack(record *r, int step)
{
    add(r, ACK)->step = step;
}

static void run(stk_context *ctx, record *r)
{
    stk__checkpoint_writer *writer = NULL;
    char path[400], last[400];
    stk_error err;

    r->calls = (stk__file_calls){.open = rec_open,
                                 .allocate = rec_allocate,
                                 .write = rec_write,
                                 .fsync = rec_fsync,
                                 .close = rec_close,
                                 .rename = rec_rename,
                                 .link = rec_link,
                                 .unlink = rec_unlink,
                                 .mkdir = rec_mkdir,
                                 .user = r};
    test_folder(r->folder);
    assert_ok(stk__checkpoint_writer_create_on(ctx, &r->calls, &writer, &err), &err);
    save(writer, r, "a.ckpt", 1, "");
    ack(r, 1);
    save(writer, r, "b.ckpt", 2, "a.ckpt");
    ack(r, 2);
    snprintf(path, sizeof path, "%s/b.ckpt", r->folder);
    snprintf(last, sizeof last, "%s/last.ckpt", r->folder);
    assert_ok(stk__checkpoint_link(writer, path, last, &err), &err);
    /* Over a name that is there, and once more. */
    save(writer, r, "b.ckpt", 3, "");
    ack(r, 3);
    assert_ok(stk__checkpoint_link(writer, path, last, &err), &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    assert_ok(stk__checkpoint_remove(writer, path, &err), &err);
    save(writer, r, "c.ckpt", 4, "last.ckpt");
    ack(r, 4);
    stk__checkpoint_writer_destroy(&writer);
    test_folder_remove(r->folder);
}

static void release(record *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->ops[i].data);
    free(r);
}

static void check(bool lie)
{
    stk_context *ctx = test_context();
    uint64_t states;

    record *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->lie = lie;
    run(ctx, r);
    uint64_t bad = cut_everywhere(ctx, r, lie ? 50 : UINT64_MAX, &states);
    print_message("%s: %llu of %llu states without the last checkpoint\n",
                  lie ? "without fsync" : "with fsync", (unsigned long long)bad,
                  (unsigned long long)states);
    assert_true(lie || states > 100);
    if (lie)
        assert_true(bad > 0);
    else
        assert_int_equal(bad, 0);
    release(r);
    stk_context_destroy(&ctx);
}

static void test_cuts(void **state)
{
    check(false);
}

static void test_control(void **state)
{
    check(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_control),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
