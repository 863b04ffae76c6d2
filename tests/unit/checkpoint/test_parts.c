/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in parts: they are one when all parts are there, and no part is taken for one of
 * another save. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "parts.h"
#include "support/text.h"

typedef struct bench {
    stk_context *ctx;
    messages said;
    char folder[256], a[300], b[300], last[300];
    stk__checkpoint_writer *writers[MOST_PARTS];
    stk_error err;
} bench;

static void begin(bench *b)
{
    *b = (bench){.ctx = NULL};
    b->ctx = context_with(&b->said);
    test_folder(b->folder);
    snprintf(b->a, sizeof b->a, "%s/a.ckpt", b->folder);
    snprintf(b->b, sizeof b->b, "%s/b.ckpt", b->folder);
    snprintf(b->last, sizeof b->last, "%s/last.ckpt", b->folder);
    for (int i = 0; i < MOST_PARTS; i++)
        b->writers[i] = quick_writer(b->ctx);
}

static void end(bench *b)
{
    for (int i = 0; i < MOST_PARTS; i++)
        stk__checkpoint_writer_destroy(&b->writers[i]);
    test_folder_remove(b->folder);
    stk_context_destroy(&b->ctx);
}

static char *part_file(const bench *b, const char *path, const stk__checkpoint_part *part,
                       uint32_t number)
{
    static char file[500];
    char *made = stk__part_path(b->ctx, path, part, number);

    assert_non_null(made);
    snprintf(file, sizeof file, "%s", made);
    stk__free(b->ctx, made);
    return file;
}

/* ---- Together -------------------------------------------------------------------------------- */

static void parts_are_one(void **state)
{
    bench b;

    begin(&b);
    for (uint32_t count = 2; count <= MOST_PARTS; count++) {
        const stk__checkpoint_part part = save_all(b.writers, count, b.a, (int)count, NULL);
        check(b.ctx, b.a, (int)count);
        /* Those of the save before are gone with it. */
        assert_int_equal(count_parts(b.folder), count - 1);
        for (uint32_t k = 1; k < count; k++)
            assert_true(exists(part_file(&b, b.a, &part, k)));
    }
    /* One file in the place of parts. */
    save(b.writers[0], b.a, 9, NULL, 0);
    assert_ok(stk__checkpoint_flush(b.writers[0], &b.err), &b.err);
    check(b.ctx, b.a, 9);
    assert_int_equal(count_parts(b.folder), 0);
    end(&b);
}

static void the_first_comes_last(void **state)
{
    stk__checkpoint_part part = {.count = 3};
    char found[300];
    bench b;

    begin(&b);
    save(b.writers[0], b.b, 1, NULL, 0);
    stk__checkpoint_part_draw(&part);
    save_part(b.writers[0], &part, b.a, 2, b.b);
    part.number = 2;
    save_part(b.writers[2], &part, b.a, 2, b.b);
    assert_ok(stk__checkpoint_flush(b.writers[2], &b.err), &b.err);
    /* Without part 1 there is no checkpoint, and what it replaces is there. */
    assert_ok(stk__checkpoint_newest(b.ctx, &(stk__newest_where){.runs = b.folder}, found,
                                     sizeof found, &b.err),
              &b.err);
    assert_string_equal(found, b.b);
    assert_false(exists(b.a));
    assert_ok(stk__checkpoint_poll(b.writers[0], &b.err), &b.err);
    part.number = 1;
    save_part(b.writers[1], &part, b.a, 2, NULL);
    assert_ok(stk__checkpoint_flush(b.writers[0], &b.err), &b.err);
    check(b.ctx, b.a, 2);
    assert_false(exists(b.b));
    assert_int_equal(b.said.count, 0);
    end(&b);
}

static ssize_t full(void *user, int fd, const void *data, size_t length)
{
    errno = ENOSPC;
    return -1;
}

static void a_part_that_fails(void **state)
{
    static stk__file_calls calls;
    stk__checkpoint_part part = {.count = 2};
    stk__checkpoint_writer *failing = NULL;
    bench b;

    begin(&b);
    calls = stk__file_calls_system;
    calls.write = full;
    assert_ok(stk__checkpoint_writer_create_on(b.ctx, &calls, &failing, &b.err), &b.err);
    save(b.writers[0], b.b, 1, NULL, 0);
    stk__checkpoint_part_draw(&part);
    save_part(b.writers[0], &part, b.a, 2, b.b);
    assert_ok(stk__checkpoint_link(b.writers[0], b.a, b.last, &b.err), &b.err);
    part.number = 1;
    save_part(failing, &part, b.a, 2, NULL);
    assert_fails(stk__checkpoint_flush(failing, &b.err), STK_ENOSPC, &b.err, "-00001-of-00002");
    assert_fails(stk__checkpoint_flush(b.writers[0], &b.err), STK_EIO, &b.err,
                 "rank 1 of 2 could not write its part");
    assert_false(exists(b.a));
    assert_false(exists(b.last));
    check(b.ctx, b.b, 1);
    stk__checkpoint_writer_destroy(&failing);

    /* One that is gone and cannot say so. */
    stk__checkpoint_part_draw(&part);
    part.number = 0;
    save_part(b.writers[0], &part, b.a, 3, b.b);
    stk__checkpoint_hurry(b.writers[0]);
    assert_fails(stk__checkpoint_flush(b.writers[0], &b.err), STK_ETIMEDOUT, &b.err,
                 "the part of rank 1 of 2 did not come");
    check(b.ctx, b.b, 1);
    end(&b);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void parts_stay_for_a_name(void **state)
{
    char other[400], folder[300];
    bench b;

    begin(&b);
    save_all(b.writers, 3, b.a, 1, NULL);
    assert_ok(stk__checkpoint_link(b.writers[0], b.a, b.last, &b.err), &b.err);
    save_all(b.writers, 2, b.b, 2, b.a);
    assert_false(exists(b.a));
    check(b.ctx, b.last, 1);
    assert_int_equal(count_parts(b.folder), 2 + 1);
    assert_ok(stk__checkpoint_link(b.writers[0], b.b, b.last, &b.err), &b.err);
    assert_ok(stk__checkpoint_flush(b.writers[0], &b.err), &b.err);
    assert_int_equal(count_parts(b.folder), 1);
    check(b.ctx, b.last, 2);
    /* Of another folder. */
    snprintf(folder, sizeof folder, "%s/other", b.folder);
    snprintf(other, sizeof other, "%s/c.ckpt", folder);
    assert_ok(stk__checkpoint_link(b.writers[0], b.b, other, &b.err), &b.err);
    save_all(b.writers, 2, b.b, 3, b.last);
    check(b.ctx, b.b, 3);
    check(b.ctx, other, 2);
    assert_int_equal(count_parts(b.folder), 1);
    assert_int_equal(count_parts(folder), 1);
    end(&b);
}

static void make_old(const char *path)
{
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void touch(const char *folder, const char *name)
{
    test_write(folder, name, "x", 1);
}

/* What killed runs left, where nothing needs it and nobody may be at work. */
static void left_parts_are_removed(void **state)
{
    char run[300], a[400], parts[400], orphan[500], found[500];
    stk__checkpoint_part part = {.count = 2, .number = 1};
    bench b;

    begin(&b);
    snprintf(run, sizeof run, "%s/version_0", b.folder);
    snprintf(a, sizeof a, "%s/a.ckpt", run);
    snprintf(parts, sizeof parts, "%s/" STK__CHECKPOINT_PARTS, run);
    const stk__checkpoint_part needed = save_all(b.writers, 2, a, 1, NULL);
    make_old(part_file(&b, a, &needed, 1));
    stk__checkpoint_part_draw(&part);
    save_part(b.writers[1], &part, a, 2, NULL);
    assert_ok(stk__checkpoint_flush(b.writers[1], &b.err), &b.err);
    snprintf(orphan, sizeof orphan, "%s", part_file(&b, a, &part, 1));
    touch(parts, "notes.safetensors");
    snprintf(found, sizeof found, "%s/notes.safetensors", parts);
    make_old(found);
    assert_int_equal(count_parts(run), 3);

    const stk__newest_where where = {.runs = b.folder, .goes_on = true};
    assert_ok(stk__checkpoint_newest(b.ctx, &where, found, sizeof found, &b.err), &b.err);
    assert_true(exists(orphan)); /* it is young */
    make_old(orphan);
    const stk__newest_where looks = {.runs = b.folder};
    assert_ok(stk__checkpoint_newest(b.ctx, &looks, found, sizeof found, &b.err), &b.err);
    assert_true(exists(orphan)); /* nothing goes on */
    assert_ok(stk__checkpoint_newest(b.ctx, &where, found, sizeof found, &b.err), &b.err);
    assert_string_equal(found, a);
    assert_false(exists(orphan));
    assert_int_equal(count_parts(run), 2);
    check(b.ctx, a, 1);
    end(&b);
}

/* ---- Torn ------------------------------------------------------------------------------------ */

/* It is no checkpoint, and an older one is found in its place. */
static void assert_torn(bench *b, stk_status status, const char *message)
{
    stk__checkpoint *c = NULL;
    char found[300];

    assert_fails(stk__checkpoint_open(b->ctx, b->a, &c, &b->err), status, &b->err, message);
    assert_null(c);
    assert_fails(stk__checkpoint_verify(b->ctx, b->a, &b->err), status, &b->err, message);
    assert_fails(stk_checkpoint_consolidate(b->ctx, b->a, b->last, NULL, &b->err), status, &b->err,
                 message);
    assert_false(exists(b->last));
    assert_ok(stk__checkpoint_newest(b->ctx, &(stk__newest_where){.runs = b->folder}, found,
                                     sizeof found, &b->err),
              &b->err);
    assert_string_equal(found, b->b);
}

static void copy_file(const char *from, const char *to)
{
    uint8_t bytes[16384];
    FILE *f = fopen(from, "rb");

    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_true(n > 0 && n < sizeof bytes);
    f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void torn_parts(void **state)
{
    char file[500], kept[600], other[500];
    struct stat st;
    bench b;

    begin(&b);
    save(b.writers[0], b.b, 1, NULL, 0);
    assert_ok(stk__checkpoint_flush(b.writers[0], &b.err), &b.err);
    const stk__checkpoint_part part = save_all(b.writers, 3, b.a, 2, NULL);
    snprintf(file, sizeof file, "%s", part_file(&b, b.a, &part, 1));
    snprintf(kept, sizeof kept, "%s.kept", file);
    copy_file(file, kept);

    assert_int_equal(unlink(file), 0);
    assert_torn(&b, STK_ENOENT, "lies in 3 parts, and part 1 is not there");
    copy_file(kept, file);
    check(b.ctx, b.a, 2);

    test_flip_bit(file, 1);
    assert_torn(&b, STK_ECHECKSUM, file);
    copy_file(kept, file);

    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(truncate(file, st.st_size - 100), 0);
    assert_torn(&b, STK_ETRUNCATED, file);
    assert_int_equal(truncate(file, 0), 0);
    assert_torn(&b, STK_ETRUNCATED, "is empty");

    /* Another part of this save, a checkpoint in one file, and this part of another save. */
    copy_file(part_file(&b, b.a, &part, 2), file);
    assert_torn(&b, STK_EFORMAT, "it is another part of it");
    copy_file(b.b, file);
    assert_torn(&b, STK_EFORMAT, "it is a file of its own");
    snprintf(other, sizeof other, "%s/other", b.folder);
    assert_int_equal(mkdir(other, 0777), 0);
    snprintf(other, sizeof other, "%s/other/a.ckpt", b.folder);
    const stk__checkpoint_part second = save_all(b.writers, 3, other, 2, NULL);
    copy_file(part_file(&b, other, &second, 1), file);
    snprintf(other, sizeof other, "%s/other", b.folder);
    test_folder_remove(other);
    assert_torn(&b, STK_EFORMAT, "it is of another save");

    /* A part is none by itself. */
    stk__checkpoint *c = NULL;
    assert_fails(stk__checkpoint_open(b.ctx, kept, &c, &b.err), STK_EFORMAT, &b.err,
                 "is part 1 of 3 of a checkpoint");
    copy_file(kept, file);
    check(b.ctx, b.a, 2);
    test_flip_bit(b.a, 1);
    assert_torn(&b, STK_ECHECKSUM, b.a);
    end(&b);
}

/* ---- Hostile --------------------------------------------------------------------------------- */

/* What is wrong with tensors whose bytes are as they were written. */
typedef struct lie {
    const char *part; /* text behind the number of the save; NULL: as it is */
    stk_state_tensor shape, first, second, more;
    const char *message;
} lie;

static float values[64];
static int64_t sides[3][STK_MAX_RANK + 1] = {{4, 3}, {-4, -3}, {INT64_MAX, INT64_MAX}};

#define SHAPE(n, of)                                                                               \
    {                                                                                              \
        STK__CHECKPOINT_SHAPE "w", STK_INT64, 1, {n}, of, 8 * (n)                                  \
    }
#define RANGE(n)                                                                                   \
    {                                                                                              \
        STK__CHECKPOINT_RANGE "w", STK_FLOAT32, 1, {n}, values, 4 * (n)                            \
    }

static const lie lies[] = {
    {NULL, SHAPE(2, sides[0]), RANGE(6), RANGE(6), {0}, NULL},
    {NULL, SHAPE(2, sides[0]), RANGE(12), RANGE(0), {0}, NULL},
    {NULL, SHAPE(2, sides[0]), RANGE(6), RANGE(5), {0}, "is less than its shape says"},
    {NULL, SHAPE(2, sides[0]), RANGE(6), RANGE(7), {0}, "is more than its shape says"},
    {NULL, SHAPE(2, sides[0]), RANGE(13), RANGE(0), {0}, "is larger there"},
    {NULL, SHAPE(2, sides[1]), RANGE(6), RANGE(6), {0}, "a shape that none can have"},
    {NULL, SHAPE(2, sides[2]), RANGE(6), RANGE(6), {0}, "a shape that none can have"},
    {NULL, SHAPE(STK_MAX_RANK + 1, sides[0]), RANGE(6), RANGE(6), {0}, "has no shape"},
    {NULL,
     {STK__CHECKPOINT_SHAPE "w", STK_FLOAT64, 1, {2}, sides[0], 16},
     RANGE(6),
     RANGE(6),
     {0},
     "has no shape"},
    {NULL,
     SHAPE(2, sides[0]),
     RANGE(6),
     {STK__CHECKPOINT_RANGE "w", STK_INT32, 1, {6}, values, 24},
     {0},
     "is of another type"},
    {NULL,
     SHAPE(2, sides[0]),
     RANGE(6),
     {STK__CHECKPOINT_RANGE "v", STK_FLOAT32, 1, {6}, values, 24},
     {0},
     "missing in one of them"},
    {NULL,
     SHAPE(2, sides[0]),
     {STK__CHECKPOINT_RANGE "v", STK_FLOAT32, 1, {6}, values, 24},
     RANGE(6),
     {0},
     "has no range in the first"},
    {NULL,
     SHAPE(2, sides[0]),
     {STK__CHECKPOINT_RANGE "w", STK_FLOAT32, 2, {3, 2}, values, 24},
     RANGE(6),
     {0},
     "has no range in the first"},
    {NULL,
     SHAPE(2, sides[0]),
     RANGE(6),
     RANGE(6),
     {"w", STK_FLOAT32, 2, {4, 3}, values, 48},
     "is there as a whole, too"},
    {NULL,
     SHAPE(2, sides[0]),
     RANGE(6),
     RANGE(6),
     {STK__CHECKPOINT_RANGE "v", STK_FLOAT32, 1, {6}, values, 24},
     "has ranges of tensors without a shape"},
    {"", SHAPE(2, sides[0]), RANGE(6), RANGE(6), {0}, "which is none"},
    {" 0 1", SHAPE(2, sides[0]), RANGE(6), RANGE(6), {0}, "which is none"},
    {" 2 2", SHAPE(2, sides[0]), RANGE(6), RANGE(6), {0}, "which is none"},
    {" 0 2 ", SHAPE(2, sides[0]), RANGE(6), RANGE(6), {0}, "which is none"},
    {" 0 1048577", SHAPE(2, sides[0]), RANGE(6), RANGE(6), {0}, "which is none"},
    {" 0 99999999999999999999", SHAPE(2, sides[0]), RANGE(6), RANGE(6), {0}, "which is none"},
    {" 0 1048576", SHAPE(2, sides[0]), RANGE(6), RANGE(6), {0}, "part 1 is not there"},
};

/* Files that are whole and say what the row says. */
static void write_lie(bench *b, const lie *l)
{
    stk__checkpoint_part part = {.count = 2};
    char texts[2][STK__CHECKPOINT_PART_TEXT + 32];
    const stk_state_tensor first[] = {l->shape, l->first, l->more};
    char folder[400];

    stk__checkpoint_part_draw(&part);
    stk__part_text(&part, texts[0]);
    if (l->part)
        snprintf(texts[0] + 32, sizeof texts[0] - 32, "%s", l->part);
    part.number = 1;
    stk__part_text(&part, texts[1]);
    const stk__checkpoint_text own[2] = {{STK__CHECKPOINT_PART, texts[0]},
                                         {STK__CHECKPOINT_PART, texts[1]}};
    const char *file = part_file(b, b->a, &part, 1);
    snprintf(folder, sizeof folder, "%s/" STK__CHECKPOINT_PARTS, b->folder);
    if (exists(folder))
        test_folder_remove(folder);
    assert_ok(stk__checkpoint_save(b->writers[0], b->a, first, l->more.name ? 3 : 2, &own[0], 1,
                                   NULL, 0, NULL, &b->err),
              &b->err);
    assert_ok(stk__checkpoint_save(b->writers[0], file, &l->second, 1, &own[1], 1, NULL, 0, NULL,
                                   &b->err),
              &b->err);
    assert_ok(stk__checkpoint_flush(b->writers[0], &b->err), &b->err);
}

static void lying_parts(void **state)
{
    bench b;

    begin(&b);
    for (size_t i = 0; i < STK_COUNT(lies); i++) {
        const lie *l = &lies[i];
        stk__checkpoint *c = NULL;
        write_lie(&b, l);
        const stk_status status = stk__checkpoint_open(b.ctx, b.a, &c, &b.err);
        if (!l->message) {
            assert_ok(status, &b.err);
            assert_int_equal(stk__checkpoint_count(c), 1);
            assert_int_equal(stk__checkpoint_find(c, "w")->rank, 2);
        } else {
            assert_fails(status, strstr(l->message, "not there") ? STK_ENOENT : STK_EFORMAT, &b.err,
                         l->message);
        }
        stk__checkpoint_close(&c);
        assert_int_equal(stk__checkpoint_verify(b.ctx, b.a, &b.err), status);
    }
    end(&b);
}

/* ---- One file -------------------------------------------------------------------------------- */

typedef struct lines {
    char text[4096];
    size_t used;
} lines;

static void add_line(void *user, const char *name, const char *value)
{
    lines *l = user;

    l->used +=
        (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, "%s: %s\n", name, value);
}

static void one_file_of_parts(void **state)
{
    stk_store_call keeps = {.struct_size = sizeof keeps, .no_replace = true};
    lines l = {.used = 0};
    stk__checkpoint_part part;
    bench b;

    begin(&b);
    save_all(b.writers, 4, b.a, 1, NULL);
    assert_ok(stk_checkpoint_consolidate(b.ctx, b.a, b.b, &keeps, &b.err), &b.err);
    check(b.ctx, b.b, 1);
    assert_false(stk__parts_of(b.ctx, b.b, &part));
    assert_fails(stk_checkpoint_consolidate(b.ctx, b.a, b.b, &keeps, &b.err), STK_EEXIST, &b.err,
                 "exists already");
    assert_ok(stk_checkpoint_describe(b.ctx, b.a, add_line, &l, &b.err), &b.err);
    assert_non_null(strstr(l.text, "\nparts: 4\n"));
    assert_non_null(strstr(l.text, "\nlayer.weight: float32 [100, 10]\n"));
    assert_non_null(strstr(l.text, "\ntensors: 3\n"));
    assert_null(strstr(l.text, "stoker.part"));
    /* In its own place. */
    assert_ok(stk_checkpoint_consolidate(b.ctx, b.a, b.a, NULL, &b.err), &b.err);
    check(b.ctx, b.a, 1);
    assert_int_equal(count_parts(b.folder), 0);
    /* What lies in one file is written anew. */
    assert_ok(stk_checkpoint_consolidate(b.ctx, b.a, b.last, NULL, &b.err), &b.err);
    check(b.ctx, b.last, 1);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_one),
        cmocka_unit_test(the_first_comes_last),
        cmocka_unit_test(a_part_that_fails),
        cmocka_unit_test(parts_stay_for_a_name),
        cmocka_unit_test(left_parts_are_removed),
        cmocka_unit_test(torn_parts),
        cmocka_unit_test(lying_parts),
        cmocka_unit_test(one_file_of_parts),
    };

    return cmocka_run_group_tests_name("checkpoint/parts", tests, NULL, NULL);
}
