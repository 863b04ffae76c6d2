/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: what is saved is read back, what is damaged is never taken for one. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/files.h"
#include "state.h"
#include "support/text.h"

stk_status stk_checkpoint_describe(stk_context *ctx, const char *path,
                                   void (*line)(void *user, const char *name, const char *value),
                                   void *user, stk_error *err);

/* ---- Tests ---- */

static void test_round_trip(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = NULL;
    char folder[256], a[300], b[300], c[300];
    stk_error err;

    test_folder(folder);
    snprintf(a, sizeof a, "%s/new/deep/a.ckpt", folder);
    snprintf(b, sizeof b, "%s/new/deep/b.ckpt", folder);
    snprintf(c, sizeof c, "%s/new/./deep//b.ckpt", folder);
    assert_ok(stk__checkpoint_writer_create(ctx, &writer, &err), &err);
    save(writer, a, 1, NULL, 0);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    check(ctx, a, 1);
    stk__checkpoint_writer_destroy(&writer);
    writer = quick_writer(ctx);
    assert_ok(stk__checkpoint_reserve(writer, 100000, &err), &err);
    assert_ok(stk__checkpoint_reserve(writer, 10, &err), &err);
    /* Over itself, twice in a row without waiting. */
    save(writer, a, 2, NULL, 0);
    save(writer, a, 3, NULL, 0);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    check(ctx, a, 3);
    /* What it replaces goes, but not itself under any spelling. */
    save(writer, b, 4, (const char *const[]){a, b, c, "not there"}, 4);
    stk__checkpoint_writer_destroy(&writer);
    assert_null(writer);
    assert_false(exists(a));
    check(ctx, b, 4);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_link(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = quick_writer(ctx);
    char folder[256], a[300], b[300], last[300];
    stk_error err;

    test_folder(folder);
    snprintf(a, sizeof a, "%s/a.ckpt", folder);
    snprintf(b, sizeof b, "%s/b.ckpt", folder);
    snprintf(last, sizeof last, "%s/last.ckpt", folder);
    save(writer, a, 1, NULL, 0);
    assert_ok(stk__checkpoint_link(writer, a, last, &err), &err);
    assert_ok(stk__checkpoint_link(writer, a, last, &err), &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    check(ctx, last, 1);
    save(writer, b, 2, (const char *const[]){a}, 1);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    check(ctx, last, 1);
    assert_ok(stk__checkpoint_link(writer, b, last, &err), &err);
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    check(ctx, last, 2);
    stk__checkpoint_writer_destroy(&writer);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A new file: writing over one makes some file systems wait for the disk. */
static void rewrite(const char *folder, const uint8_t *bytes, size_t length)
{
    char path[300];

    snprintf(path, sizeof path, "%s/x.ckpt", folder);
    unlink(path);
    test_write(folder, "x.ckpt", bytes, length);
}

/* Every byte flipped, every length cut: never taken for good, and the message names the file. */
static void test_damage(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = quick_writer(ctx);
    stk__checkpoint *c = NULL;
    char folder[256], path[300];
    stk_error err;
    size_t length;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/x.ckpt", folder);
    save(writer, path, 7, NULL, 0);
    stk__checkpoint_writer_destroy(&writer);
    uint8_t *bytes = test_load(path, &length);
    for (size_t i = 0; i < length; i += i < 700 ? 1 : 37) {
        bytes[i] ^= (uint8_t)(1u << (i % 8));
        rewrite(folder, bytes, length);
        stk_status status = stk__checkpoint_open(ctx, path, &c, &err);
        assert_true(status == STK_ECHECKSUM || status == STK_EFORMAT || status == STK_ETRUNCATED ||
                    status == STK_EKIND);
        assert_null(c);
        assert_non_null(strstr(err.text, path));
        assert_int_equal(stk__checkpoint_verify(ctx, path, NULL), status);
        bytes[i] ^= (uint8_t)(1u << (i % 8));
    }
    for (size_t n = 0; n < length; n += n < 700 ? 1 : 97) {
        rewrite(folder, bytes, n);
        assert_fails(stk__checkpoint_open(ctx, path, &c, &err), STK_ETRUNCATED, &err, path);
    }
    rewrite(folder, bytes, length);
    check(ctx, path, 7);
    free(bytes);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Of a later version, whose layout may mean something else: refused, and passed over as the newest.
 */
static void test_other_layout(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = quick_writer(ctx);
    stk__checkpoint *c = NULL;
    char folder[256], path[300], found[300];
    stk_error err;
    size_t length;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/x.ckpt", folder);
    save(writer, path, 7, NULL, 0);
    stk__checkpoint_writer_destroy(&writer);
    uint8_t *bytes = test_load(path, &length);
    char *layout = memmem(bytes, length, "\"stoker.layout\":\"1\"", 19);
    assert_non_null(layout);
    layout[17] = '2';
    rewrite(folder, bytes, length);
    assert_fails(stk__checkpoint_open(ctx, path, &c, &err), STK_EKIND, &err, "layout '2'");
    assert_fails(stk__checkpoint_verify(ctx, path, &err), STK_EKIND, &err, path);
    assert_fails(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = folder}, found,
                                        sizeof found, &err),
                 STK_ENOENT, &err, folder);
    /* Whose own name is another's, it is no checkpoint. */
    memcpy(layout + 1, "Stoker", 6);
    rewrite(folder, bytes, length);
    assert_fails(stk__checkpoint_open(ctx, path, &c, &err), STK_EFORMAT, &err, "no checkpoint");
    free(bytes);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Two checkpoints mixed, and a file of another program. */
static void test_other_files(void **state)
{
    static const char other[] = "\x3e\0\0\0\0\0\0\0"
                                "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
                                "         xy";
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = quick_writer(ctx);
    stk__checkpoint *c = NULL;
    char folder[256], a[300], b[300];
    size_t la, lb;
    stk_error err;

    test_folder(folder);
    snprintf(a, sizeof a, "%s/a.ckpt", folder);
    snprintf(b, sizeof b, "%s/b.ckpt", folder);
    save(writer, a, 1, NULL, 0);
    save(writer, b, 2, NULL, 0);
    stk__checkpoint_writer_destroy(&writer);
    uint8_t *x = test_load(a, &la), *y = test_load(b, &lb);
    assert_int_equal(la, lb);
    memcpy(y, x, la / 2);
    test_write(folder, "b.ckpt", y, lb);
    assert_fails(stk__checkpoint_open(ctx, b, &c, &err), STK_ECHECKSUM, &err, "damaged");
    size_t json = strlen(other + 8) - 2;
    char small[128] = {0};
    memcpy(small, other, 8 + json + 2);
    small[0] = (char)json;
    test_write(folder, "b.ckpt", small, 8 + json + 2);
    assert_fails(stk__checkpoint_open(ctx, b, &c, &err), STK_EFORMAT, &err,
                 "no checkpoint of Stoker");
    /* An ONNX model with the name of its writer, and one that begins with its graph. */
    for (size_t i = 0; i < 2; i++) {
        memcpy(small, i ? "\x08\x09\x3a\x54graph" : "\x08\x09\x12\x06stoker", 10);
        test_write(folder, "b.ckpt", small, sizeof small);
        assert_fails(stk__checkpoint_open(ctx, b, &c, &err), STK_EKIND, &err,
                     "it is an ONNX model");
    }
    free(x);
    free(y);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void set_time(const char *path, time_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

typedef struct timed {
    const char *name;
    int step;
    time_t time;
} timed;

static void save_timed(stk__checkpoint_writer *writer, const char *folder, const timed *files,
                       size_t n)
{
    char path[400];
    stk_error err;

    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        save(writer, path, files[i].step, NULL, 0);
        assert_ok(stk__checkpoint_flush(writer, &err), &err);
        set_time(path, files[i].time);
    }
}

static void test_newest(void **state)
{
    messages said = {0};
    stk_context *ctx = context_with(&said);
    stk__checkpoint_writer *writer = quick_writer(ctx);
    char folder[256], path[300], found[300], small[8];
    stk_error err;
    size_t length;

    test_folder(folder);
    assert_fails(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = folder}, found,
                                        sizeof found, &err),
                 STK_ENOENT, &err, "no checkpoint in");
    snprintf(path, sizeof path, "%s/none", folder);
    assert_fails(
        stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = path}, found, sizeof found, &err),
        STK_ENOENT, &err, path);
    static const struct {
        const char *name;
        int step;
    } files[] = {{"version_2/checkpoints/step=9.ckpt", 9},
                 {"version_2/checkpoints/step=10.safetensors", 10},
                 {"version_2/checkpoints/step=11.ckpt", 11},
                 {"version_2/checkpoints/.hidden.ckpt", 99},
                 {"version_2/checkpoints/not.one", 98},
                 {"version_1/checkpoints/step=50.ckpt", 50}};
    for (size_t i = 0; i < STK_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        save(writer, path, files[i].step, NULL, 0);
    }
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    /* Of another program. */
    test_write(folder, "version_2/checkpoints/lightning.ckpt", "PK\3\4 and a lot more", 19);
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = folder}, found, sizeof found,
                                     &err),
              &err);
    check(ctx, found, 11);
    assert_int_equal(said.count, 0);
    assert_fails(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = folder}, small,
                                        sizeof small, &err),
                 STK_ELIMIT, &err, "too long");
    /* The newest is damaged in its data: it is named, and the one before is taken. */
    snprintf(path, sizeof path, "%s/%s", folder, files[2].name);
    uint8_t *bytes = test_load(path, &length);
    bytes[length - 1] ^= 1;
    test_write(folder, files[2].name, bytes, length);
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = folder}, found, sizeof found,
                                     &err),
              &err);
    check(ctx, found, 10);
    assert_int_equal(said.count, 1);
    assert_non_null(strstr(said.last, "step=11.ckpt"));
    assert_non_null(strstr(said.last, "skipped"));
    /* Now in its header, and the next is cut. */
    test_write(folder, files[2].name, bytes, 100);
    test_write(folder, files[1].name, bytes, 0);
    said.count = 0;
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = folder}, found, sizeof found,
                                     &err),
              &err);
    check(ctx, found, 9);
    assert_int_equal(said.count, 2);
    free(bytes);
    /* Nothing good is left. */
    test_write(folder, files[0].name, "x", 1);
    test_write(folder, files[5].name, "x", 1);
    assert_fails(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = folder}, found,
                                        sizeof found, &err),
                 STK_ENOENT, &err, "4 were found and are damaged");
    stk__checkpoint_writer_destroy(&writer);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* The newest of the runs of one folder: none of another run below it, and one without a number
 * where it is younger than the last of the highest. */
static void test_newest_run(void **state)
{
    static const timed files[] = {{"B/version_0/checkpoints/a.ckpt", 40, 5000},
                                  {"B/version_1/checkpoints/a.ckpt", 10, 1000},
                                  {"B/version_1/checkpoints/b.ckpt", 20, 2000},
                                  {"B/c.ckpt", 90, 9000},
                                  {"B/other/version_7/checkpoints/a.ckpt", 91, 9000},
                                  {"A/version_8/checkpoints/a.ckpt", 92, 9000},
                                  {"checkpoints/a.ckpt", 7, 1500},
                                  {"checkpoints/b.ckpt", 8, 1400}};
    static const struct {
        time_t time; /* of the run without a number */
        int step;
    } expected[] = {{1500, 20}, {2000, 20}, {2001, 7}};
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = quick_writer(ctx);
    char folder[256], runs[300], other[300], path[400], found[400];
    stk_error err;

    test_folder(folder);
    snprintf(runs, sizeof runs, "%s/B", folder);
    snprintf(other, sizeof other, "%s/checkpoints", folder);
    assert_fails(stk__checkpoint_newest(
                     ctx, &(stk__newest_where){.runs = runs, .other = other, .goes_on = false},
                     found, sizeof found, &err),
                 STK_ENOENT, &err, "/B' or '");
    save_timed(writer, folder, files, STK_COUNT(files));
    for (size_t i = 0; i < STK_COUNT(expected); i++) {
        snprintf(path, sizeof path, "%s/checkpoints/a.ckpt", folder);
        set_time(path, expected[i].time);
        assert_ok(stk__checkpoint_newest(
                      ctx, &(stk__newest_where){.runs = runs, .other = other, .goes_on = false},
                      found, sizeof found, &err),
                  &err);
        check(ctx, found, expected[i].step);
    }
    stk__checkpoint_writer_destroy(&writer);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* The folder of the run itself is one of those of all runs: a damaged file there is named once. */
static void test_newest_of_own(void **state)
{
    static const char *const files[] = {"version_5/checkpoints/a.ckpt",
                                        "version_5/checkpoints/b.ckpt",
                                        "version_4/checkpoints/c.ckpt"};
    messages said = {0};
    stk_context *ctx = context_with(&said);
    stk__checkpoint_writer *writer = quick_writer(ctx);
    char folder[256], own[300], other[300], path[300], found[300];
    stk_error err;
    size_t length;

    test_folder(folder);
    snprintf(own, sizeof own, "%s/version_5/checkpoints", folder);
    snprintf(other, sizeof other, "%s/checkpoints", folder);
    for (size_t i = 0; i < STK_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        save(writer, path, (int)i, NULL, 0);
    }
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    const stk__newest_where where = {
        .own = (const char *const[]){own}, .num_own = 1, .runs = folder, .other = other};
    assert_ok(stk__checkpoint_newest(ctx, &where, found, sizeof found, &err), &err);
    check(ctx, found, 1);
    /* In its data, and in its header. */
    snprintf(path, sizeof path, "%s/%s", folder, files[0]);
    uint8_t *bytes = test_load(path, &length);
    bytes[length - 1] ^= 1;
    test_write(folder, files[0], bytes, length);
    test_write(folder, files[1], bytes, 100);
    assert_ok(stk__checkpoint_newest(ctx, &where, found, sizeof found, &err), &err);
    check(ctx, found, 2);
    assert_int_equal(said.count, 2);
    test_write(folder, files[2], bytes, 100);
    assert_fails(stk__checkpoint_newest(ctx, &where, found, sizeof found, &err), STK_ENOENT, &err,
                 "3 were found and are damaged");
    free(bytes);
    stk__checkpoint_writer_destroy(&writer);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A run of two folders, one of which has nothing good: all runs count, each by its version. */
static void test_newest_of_two(void **state)
{
    static const timed files[] = {{"version_5/a/x.ckpt", 5, 1000},
                                  {"version_4/a/x.ckpt", 9, 2000},
                                  {"version_4/b/x.ckpt", 10, 3000}};
    messages said = {0};
    stk_context *ctx = context_with(&said);
    stk__checkpoint_writer *writer = quick_writer(ctx);
    char folder[256], own[2][300], found[400];
    stk_error err;

    test_folder(folder);
    save_timed(writer, folder, files, STK_COUNT(files));
    test_write(folder, files[2].name, "damaged", 7);
    for (int version = 4; version <= 5; version++) {
        const stk__newest_where where = {
            .own = (const char *const[]){own[0], own[1]}, .num_own = 2, .runs = folder};
        snprintf(own[0], sizeof own[0], "%s/version_%d/a", folder, version);
        snprintf(own[1], sizeof own[1], "%s/version_%d/b", folder, version);
        assert_ok(stk__checkpoint_newest(ctx, &where, found, sizeof found, &err), &err);
        check(ctx, found, 5);
    }
    assert_int_equal(said.count, 2);
    stk__checkpoint_writer_destroy(&writer);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Runs that share a folder: a long one, then a short one, whose two saves of one step are as old as
 * the system's clock can tell. */
static void test_newest_of_shared(void **state)
{
    static const timed files[] = {{"epoch=2-step=12.ckpt", 12, 1000},
                                  {"epoch=0-step=4.ckpt", 4, 2000},
                                  {"epoch=0-step=3.ckpt", 3, 2000}};
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = quick_writer(ctx);
    char folder[256], found[400];
    stk_error err;

    test_folder(folder);
    save_timed(writer, folder, files, STK_COUNT(files));
    assert_ok(stk__checkpoint_newest(ctx, &(stk__newest_where){.runs = folder}, found, sizeof found,
                                     &err),
              &err);
    check(ctx, found, 4);
    stk__checkpoint_writer_destroy(&writer);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A run that goes on removes what killed ones left unfinished, in folders of runs; not what is
 * being written, and nothing of others. */
static void test_unfinished(void **state)
{
    static const char *const names[] = {
        "version_0/checkpoints/.stoker-put-00000001", "version_1/.stoker-put-00000002",
        "version_1/checkpoints/.stoker-put-00000003", "data/.stoker-put-00000004"};
    stk_context *ctx = test_context();
    char folder[256], other[300], path[300], found[300];
    stk_error err;

    test_folder(folder);
    snprintf(other, sizeof other, "%s/data", folder);
    for (size_t i = 0; i < STK_COUNT(names); i++)
        test_write(folder, names[i], "half", 4);
    snprintf(path, sizeof path, "%s/%s", folder, names[2]);
    const int written = open(path, O_RDONLY);
    assert_int_equal(flock(written, LOCK_EX | LOCK_NB), 0);
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        assert_int_equal(
            stk__checkpoint_newest(
                ctx, &(stk__newest_where){.runs = folder, .other = other, .goes_on = goes_on},
                found, sizeof found, &err),
            STK_ENOENT);
        for (size_t i = 0; i < STK_COUNT(names); i++) {
            snprintf(path, sizeof path, "%s/%s", folder, names[i]);
            assert_int_equal(access(path, F_OK) == 0, !goes_on || i >= 2);
        }
    }
    close(written);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- Bad states, descriptions ---- */

static void test_bad_state(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = quick_writer(ctx);
    char folder[256], path[300];
    stk_error err;
    model m;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/a.ckpt", folder);
    save(writer, path, 1, NULL, 0);
    fill(&m, 2);
    m.tensors[1].bytes--;
    assert_fails(stk__checkpoint_save(writer, path, m.tensors, 3, m.texts, 2, NULL, 0, NULL, &err),
                 STK_EINVAL, &err, "layer.weight");
    fill(&m, 2);
    m.texts[1].name = "stoker.xxh3";
    assert_fails(stk__checkpoint_save(writer, path, m.tensors, 3, m.texts, 2, NULL, 0, NULL, &err),
                 STK_EINVAL, &err, "stoker.xxh3");
    assert_ok(stk__checkpoint_flush(writer, &err), &err);
    check(ctx, path, 1);
    stk__checkpoint_writer_destroy(&writer);
    stk__checkpoint_writer_destroy(&writer);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

typedef struct lines {
    char text[8192];
} lines;

static void add_line(void *user, const char *name, const char *value)
{
    lines *l = user;
    size_t at = strlen(l->text);

    snprintf(l->text + at, sizeof l->text - at, "%s=%s\n", name, value);
}

static void test_describe(void **state)
{
    stk_context *ctx = test_context();
    stk__checkpoint_writer *writer = quick_writer(ctx);
    char folder[256], path[300];
    lines l = {{0}};
    size_t length;
    stk_error err;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/a.ckpt", folder);
    save(writer, path, 42, NULL, 0);
    stk__checkpoint_writer_destroy(&writer);
    assert_ok(stk_checkpoint_describe(ctx, path, add_line, &l, &err), &err);
    assert_non_null(strstr(l.text, "verified=yes"));
    assert_non_null(strstr(l.text, "\nglobal_step=42\n"));
    assert_non_null(strstr(l.text, "\nparameters=1000\n"));
    assert_non_null(strstr(l.text, "\ntensors=3\n"));
    assert_non_null(strstr(l.text, "\nlayer.weight=float32 [100, 10]\n"));
    assert_non_null(strstr(l.text, "\nlayer.count=int64 []\n"));
    assert_null(strstr(l.text, "stoker."));
    uint8_t *bytes = test_load(path, &length);
    bytes[length - 1] ^= 1;
    test_write(folder, "a.ckpt", bytes, length);
    free(bytes);
    assert_fails(stk_checkpoint_describe(ctx, path, add_line, &l, &err), STK_ECHECKSUM, &err, path);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_link),
        cmocka_unit_test(test_damage),           cmocka_unit_test(test_other_layout),
        cmocka_unit_test(test_other_files),      cmocka_unit_test(test_newest),
        cmocka_unit_test(test_newest_of_own),    cmocka_unit_test(test_newest_run),
        cmocka_unit_test(test_newest_of_shared), cmocka_unit_test(test_unfinished),
        cmocka_unit_test(test_bad_state),        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_newest_of_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
