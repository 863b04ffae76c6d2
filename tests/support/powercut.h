/* calls on files -> what a power cut may leave of them */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power cuts in a model, in the program that includes this. After so many calls of the record a cut
 * is drawn: bytes that were not synced are there, gone, zero or half there, and of the changes of
 * folders that were not synced any subset is there. fsync() of a file makes its bytes safe and not
 * its name; that of a folder the changes of its names; that of a new folder's parent the folder
 * itself. A rename is one change, between two folders as well.
 */
#ifndef STK_TESTS_POWERCUT_H
#define STK_TESTS_POWERCUT_H

#include "support/powercut_record.h"

/* What a disk, or a control, leaves out. */
typedef enum cut_lie {
    CUT_HONEST,
    CUT_NO_FILE_SYNC,   /* fsync() and fdatasync() of files, and syncfs(), do nothing */
    CUT_NO_FOLDER_SYNC, /* fsync() of folders does nothing */
    CUT_NO_PARENT_SYNC  /* nor does it for new folders in them, syncfs() aside */
} cut_lie;

/* ---- A disk ---- */

typedef struct cut_bytes {
    uint8_t *data;
    size_t length;
} cut_bytes;

typedef struct cut_entry {
    int folder, node;
    char name[CUT_NAME];
} cut_entry;

/* A change of names, whole or not at all. */
typedef struct cut_change {
    int drop_folder, add_folder, node; /* folder -1: nothing */
    char drop[CUT_NAME], add[CUT_NAME];
    bool makes_folder;
} cut_change;

static struct {
    cut_lie lie;
    cut_bytes now[CUT_NODES], safe[CUT_NODES];
    cut_entry names[CUT_NAMES]; /* as synced */
    int num_names;
    cut_change pending[CUT_CHANGES];
    int num_pending;
    uint64_t random;
} disk;

static void cut_copy(cut_bytes *to, const cut_bytes *from)
{
    to->data = realloc(to->data, from->length + 1);
    assert_non_null(to->data);
    if (from->length)
        memcpy(to->data, from->data, from->length);
    to->length = from->length;
}

static void cut_resize(cut_bytes *b, size_t length)
{
    b->data = realloc(b->data, length + 1);
    assert_non_null(b->data);
    if (length > b->length)
        memset(b->data + b->length, 0, length - b->length);
    b->length = length;
}

static int cut_find(const cut_entry *names, int n, int folder, const char *name)
{
    for (int i = 0; i < n; i++)
        if (names[i].folder == folder && strcmp(names[i].name, name) == 0)
            return i;
    return -1;
}

static void cut_apply(cut_entry *names, int *n, const cut_change *c)
{
    int at = c->drop_folder < 0 ? -1 : cut_find(names, *n, c->drop_folder, c->drop);

    if (at >= 0)
        names[at] = names[--*n];
    if (c->add_folder < 0)
        return;
    at = cut_find(names, *n, c->add_folder, c->add);
    if (at < 0) {
        assert_true(*n < CUT_NAMES);
        at = (*n)++;
    }
    names[at] = (cut_entry){.folder = c->add_folder, .node = c->node};
    memcpy(names[at].name, c->add, CUT_NAME);
}

/* Changes that touch a folder (-1: all) are safe. */
static void cut_settle(int folder, cut_lie lie)
{
    int left = 0;

    for (int i = 0; i < disk.num_pending; i++) {
        const cut_change *c = &disk.pending[i];
        bool touched = folder < 0 || c->add_folder == folder || c->drop_folder == folder;
        if (touched && !(lie == CUT_NO_PARENT_SYNC && c->makes_folder))
            cut_apply(disk.names, &disk.num_names, c);
        else
            disk.pending[left++] = *c;
    }
    disk.num_pending = left;
}

static void cut_replay(const cut_op *op)
{
    cut_bytes *b = &disk.now[op->node];

    switch (op->kind) {
    case CUT_DATA:
        if (op->offset + op->length > b->length)
            cut_resize(b, op->offset + op->length);
        memcpy(b->data + op->offset, op->data, op->length);
        break;
    case CUT_SIZE:
        cut_resize(b, op->offset);
        break;
    case CUT_SYNC:
        if (cut.folder[op->node] ? disk.lie != CUT_NO_FOLDER_SYNC : disk.lie != CUT_NO_FILE_SYNC) {
            if (cut.folder[op->node])
                cut_settle(op->node, disk.lie);
            else
                cut_copy(&disk.safe[op->node], b);
        }
        break;
    case CUT_SYNC_ALL:
        for (int i = 0; i < cut.num_nodes && disk.lie != CUT_NO_FILE_SYNC; i++)
            cut_copy(&disk.safe[i], &disk.now[i]);
        cut_settle(-1, CUT_HONEST);
        break;
    case CUT_ACK:
        break;
    default: {
        cut_change c = {.drop_folder = op->kind == CUT_LINK ? -1 : op->from_folder,
                        .add_folder = op->to_folder,
                        .node = op->node,
                        .makes_folder = op->kind == CUT_MKDIR};
        memcpy(c.drop, op->from, CUT_NAME);
        memcpy(c.add, op->to, CUT_NAME);
        assert_true(disk.num_pending < CUT_CHANGES);
        disk.pending[disk.num_pending++] = c;
    }
    }
}

static void cut_put_file(int node, const char *path)
{
    const cut_bytes *now = &disk.now[node], *safe = &disk.safe[node];
    cut_bytes left = {0};

    switch (test_random(&disk.random) % 4) {
    case 0:
        cut_copy(&left, now);
        break;
    case 1:
        cut_copy(&left, safe);
        break;
    case 2:
        cut_copy(&left, now);
        for (size_t i = 0; i < now->length; i++)
            if (i >= safe->length || safe->data[i] != now->data[i])
                left.data[i] = 0;
        break;
    default:
        cut_copy(&left, now);
        if (now->length > safe->length)
            left.length = safe->length + (now->length - safe->length) / 2;
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(left.data, 1, left.length, f), left.length);
    assert_int_equal(fclose(f), 0);
    free(left.data);
}

static void cut_put_folder(const cut_entry *names, int n, int folder, const char *path, int depth)
{
    char below[1024];

    for (int i = 0; i < n && depth < 32; i++) {
        if (names[i].folder != folder)
            continue;
        assert_true(snprintf(below, sizeof below, "%s/%s", path, names[i].name) <
                    (int)sizeof below);
        if (cut.folder[names[i].node]) {
            assert_int_equal(mkdir(below, 0777), 0);
            cut_put_folder(names, n, names[i].node, below, depth + 1);
        } else
            cut_put_file(names[i].node, below);
    }
}

/* What a cut here leaves, drawn. */
static void cut_draw(const char *path)
{
    static cut_entry names[CUT_NAMES];
    int n = disk.num_names;

    memcpy(names, disk.names, (size_t)n * sizeof *names);
    uint64_t how = test_random(&disk.random) % 4; /* all, none, or each or not */

    for (int i = 0; i < disk.num_pending; i++)
        if (how == 0 || (how > 1 && test_random(&disk.random) % 2))
            cut_apply(names, &n, &disk.pending[i]);
    cut_put_folder(names, n, 0, path, 0);
}

/* Whether what is in `folder` will do after the caller was told `acked` (0: nothing yet). */
typedef bool cut_good(void *user, const char *folder, int acked);

/* Cuts of a test: STOKER_TEST_CUTS, by ./dev powercut. */
static uint64_t cut_wanted(void)
{
    const char *given = getenv("STOKER_TEST_CUTS");

    return given && *given ? strtoull(given, NULL, 10) : 200;
}

static uint64_t cut_states(uint64_t cuts, int acked, cut_good *good, void *user)
{
    uint64_t bad = 0;

    for (uint64_t i = 0; i < cuts; i++) {
        char folder[256];
        test_folder(folder);
        cut_draw(folder);
        bad += !good(user, folder, acked);
        test_folder_remove(folder);
    }
    return bad;
}

/* Draw `cuts` states spread over the record, and a quarter as many after its end; how many are
 * bad. */
static uint64_t cut_everywhere(uint64_t cuts, cut_lie lie, cut_good *good, void *user)
{
    uint64_t bad = 0;
    int acked = 0;

    memset(&disk, 0, sizeof disk);
    disk.lie = lie;
    disk.random = 20261122;
    for (size_t k = 0; k < cut.n; k++) {
        cut_replay(&cut.ops[k]);
        if (cut.ops[k].kind == CUT_ACK)
            acked = cut.ops[k].ack;
        bad += cut_states(cuts * (k + 1) / cut.n - cuts * k / cut.n, acked, good, user);
    }
    bad += cut_states(cuts / 4, acked, good, user);
    for (int i = 0; i < CUT_NODES; i++) {
        free(disk.now[i].data);
        free(disk.safe[i].data);
    }
    return bad;
}

/* Cuts of what was recorded below `folder`, which goes then: an honest disk leaves nothing bad, of
 * one that leaves something out `cuts` moments show it. */
static inline void cut_check(const char *folder, cut_lie lie, uint64_t cuts, cut_good *good,
                             void *user)
{
    const uint64_t bad = cut_everywhere(lie ? cuts : cut_wanted(), lie, good, user);

    test_folder_remove(folder);
    if (lie)
        assert_true(bad > 0);
    else
        assert_int_equal(bad, 0);
}

static inline void cut_each_lie(void (*check)(cut_lie lie))
{
    check(CUT_NO_FILE_SYNC);
    check(CUT_NO_FOLDER_SYNC);
    check(CUT_NO_PARENT_SYNC);
}

/* Folders of the test lie in memory, where there is such a place. */
static inline void cut_in_memory(void)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
}

#endif
