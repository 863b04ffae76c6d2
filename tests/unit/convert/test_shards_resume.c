/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions to shards that are killed or stopped: they go on behind the last whole shard, and
 * what is there at the end is what an undisturbed one writes, byte for byte. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

#define KILLED  42
#define SAMPLES 100
#define GROUP   16 /* samples from progress to progress */
#define SHARDS  64 /* more than any conversion here has */

static const char *const formats[] = {"webdataset", "tfrecord", "parquet"};
static const char *const endings[] = {"tar", "tfrecord", "parquet"};
static const char *const sizes[] = {"16KiB", "8KiB", "8KiB"};

/* A conversion, and what it does besides. */
typedef struct run {
    const char *target; /* with the format and its options */
    bool overwrite;
    uint64_t end_at; /* samples at which it ends, or behind them; 0: none */
    bool kill;       /* or it is stopped */
    stk_conversion *conversion;
    stk_conversion_report report;
    stk_error err;
} run;

static void progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    run *r = user;

    if (!r->end_at || done < r->end_at)
        return;
    if (r->kill)
        _exit(KILLED);
    stk_conversion_cancel(r->conversion);
}

static stk_status convert(run *r, const char *source)
{
    stk_context_options options;
    stk_convert_options convert;
    stk_context *ctx = NULL;

    stk_error_init(&r->err);
    stk_context_options_init(&options);
    options.progress = progress;
    options.progress_user = r;
    assert_ok(stk_context_create(&options, &ctx, &r->err), &r->err);
    stk_convert_options_init(&convert);
    convert.overwrite = r->overwrite;
    r->report = (stk_conversion_report){.struct_size = sizeof r->report};
    stk_status status = stk_conversion_create(ctx, source, r->target, &r->conversion, &r->err);
    if (status == STK_OK)
        status = stk_conversion_run(r->conversion, &convert, NULL, &r->report, &r->err);
    stk_conversion_destroy(&r->conversion);
    stk_context_destroy(&ctx);
    return status;
}

/* In a child that ends without any clean-up when so many samples are taken. */
static void kill_at(run *r, const char *source, uint64_t samples)
{
    int status;

    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        r->end_at = samples;
        r->kill = true;
        _exit(convert(r, source) == STK_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == KILLED);
}

/* ---- Folders --------------------------------------------------------------------------------- */

typedef struct folders {
    char to[256], whole[256]; /* the second: of an undisturbed conversion */
    char target[400];
    int format;
    int shards; /* of `whole` */
} folders;

static void name_shard(const folders *f, const char *folder, int number, char path[400])
{
    snprintf(path, 400, "%s/shard-%06d.%s", folder, number, endings[f->format]);
}

static int count_shards(const folders *f, const char *folder)
{
    char path[400];
    int n = 0;

    for (int i = 0; i < SHARDS; i++) {
        name_shard(f, folder, i, path);
        n += access(path, F_OK) == 0;
    }
    return n;
}

static void set_target(folders *f)
{
    snprintf(f->target, sizeof f->target, "%s:%s?shard_size=%s", formats[f->format], f->to,
             sizes[f->format]);
}

static void begin(folders *f, int format, const char *source)
{
    f->format = format;
    test_folder(f->to);
    test_folder(f->whole);
    snprintf(f->target, sizeof f->target, "%s:%s?shard_size=%s", formats[format], f->whole,
             sizes[format]);
    run r = {.target = f->target};
    assert_ok(convert(&r, source), &r.err);
    f->shards = count_shards(f, f->whole);
    set_target(f);
}

static void end(folders *f)
{
    test_folder_remove(f->to);
    test_folder_remove(f->whole);
}

static void anew(folders *f)
{
    test_folder_remove(f->to);
    test_folder(f->to);
    set_target(f);
}

static void *load(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat st;

    if (!file)
        fail_msg("%s is not there", path);
    assert_int_equal(fstat(fileno(file), &st), 0);
    void *data = malloc((size_t)st.st_size + 1);
    *size = fread(data, 1, (size_t)st.st_size, file);
    fclose(file);
    return data;
}

/* The shards are those of the undisturbed conversion, and no more. */
static void check_same(const folders *f)
{
    char path[400];

    assert_int_equal(count_shards(f, f->to), f->shards);
    for (int i = 0; i < f->shards; i++) {
        size_t size, wanted;
        name_shard(f, f->to, i, path);
        void *data = load(path, &size);
        name_shard(f, f->whole, i, path);
        void *whole = load(path, &wanted);
        assert_int_equal(size, wanted);
        assert_memory_equal(data, whole, size);
        free(data);
        free(whole);
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

#define SOURCE "digits:?size=100"

/* Killed at each group, then run again. */
static void test_killed(void **state)
{
    for (int format = 0; format < 3; format++) {
        uint64_t resumed = 0;
        folders f;
        begin(&f, format, SOURCE);
        assert_true(f.shards > 5);
        for (uint64_t at = GROUP; at < SAMPLES; at += GROUP) {
            run r = {.target = f.target};
            kill_at(&r, SOURCE, at);
            const int left = count_shards(&f, f.to);
            assert_ok(convert(&r, SOURCE), &r.err);
            check_same(&f);
            assert_int_equal(r.report.total, SAMPLES);
            assert_true(r.report.resumed <= at && (r.report.resumed > 0) == (left > 0));
            assert_true(r.report.resumed >= resumed);
            resumed = r.report.resumed;
            anew(&f);
        }
        assert_true(resumed > SAMPLES / 2);
        end(&f);
    }
}

/* Killed again and again on its way, from where it goes on each time. */
static void test_killed_often(void **state)
{
    for (int format = 0; format < 3; format++) {
        folders f;
        begin(&f, format, SOURCE);
        run r = {.target = f.target};
        for (uint64_t at = GROUP; at < SAMPLES; at += GROUP)
            kill_at(&r, SOURCE, at);
        assert_ok(convert(&r, SOURCE), &r.err);
        assert_true(r.report.resumed > SAMPLES / 2);
        check_same(&f);
        end(&f);
    }
}

/* One that came to its end has nothing left to do; with overwrite it is done anew. */
static void test_again(void **state)
{
    struct stat before, after;
    char path[400];

    for (int format = 0; format < 3; format++) {
        folders f;
        begin(&f, format, SOURCE);
        run r = {.target = f.target};
        assert_ok(convert(&r, SOURCE), &r.err);
        const uint64_t bytes = r.report.bytes_after;
        assert_int_equal(r.report.resumed, 0);
        name_shard(&f, f.to, f.shards - 1, path);
        assert_int_equal(stat(path, &before), 0);
        assert_ok(convert(&r, SOURCE), &r.err);
        assert_int_equal(r.report.resumed, SAMPLES);
        assert_int_equal(r.report.bytes_after, bytes);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        check_same(&f);
        r.overwrite = true;
        assert_ok(convert(&r, SOURCE), &r.err);
        assert_int_equal(r.report.resumed, 0);
        assert_int_equal(stat(path, &after), 0);
        assert_int_not_equal(before.st_ino, after.st_ino);
        check_same(&f);
        end(&f);
    }
}

/* A shard that is gone or cut since is done again, with those behind it. */
static void test_lost(void **state)
{
    char path[400];

    for (int format = 0; format < 3; format++)
        for (int cut = 0; cut < 2; cut++) {
            folders f;
            begin(&f, format, SOURCE);
            run r = {.target = f.target};
            assert_ok(convert(&r, SOURCE), &r.err);
            name_shard(&f, f.to, 2, path);
            assert_int_equal(cut ? truncate(path, 100) : unlink(path), 0);
            assert_ok(convert(&r, SOURCE), &r.err);
            assert_true(r.report.resumed > 0 && r.report.resumed < SAMPLES / 2);
            check_same(&f);
            end(&f);
        }
}

/* A kill within the write of a line leaves one that is torn. */
static void test_torn_journal(void **state)
{
    char path[400];
    struct stat st;
    folders f;

    begin(&f, 0, SOURCE);
    for (int bytes = 1; bytes < 90; bytes += 7) {
        run r = {.target = f.target};
        snprintf(path, sizeof path, "%s/.stoker-convert", f.to);
        kill_at(&r, SOURCE, 4 * GROUP);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, st.st_size - bytes), 0);
        assert_ok(convert(&r, SOURCE), &r.err);
        assert_true(r.report.resumed > 0 && r.report.resumed < 4 * GROUP);
        check_same(&f);
        anew(&f);
    }
    end(&f);
}

/* Other samples and other options are no part of it, unless all is to be done anew. */
static void test_other(void **state)
{
    folders f;

    begin(&f, 1, "digits:?size=60");
    run r = {.target = f.target};
    kill_at(&r, SOURCE, 5 * GROUP);
    assert_true(count_shards(&f, f.to) > f.shards);
    assert_fails(convert(&r, "digits:?size=60"), STK_EMISMATCH, &r.err,
                 "begun as a conversion of ?size=100 and not of ?size=60");
    snprintf(f.target, sizeof f.target, "tfrecord:%s?shard_size=32KiB", f.to);
    assert_fails(convert(&r, SOURCE), STK_EMISMATCH, &r.err, "with shard_size=");
    set_target(&f);
    /* What was overwritten goes with the rest also where the run that began it was killed. */
    r.overwrite = true;
    kill_at(&r, "digits:?size=60", 2 * GROUP);
    r.overwrite = false;
    assert_ok(convert(&r, "digits:?size=60"), &r.err);
    assert_true(r.report.resumed > 0);
    check_same(&f);
    end(&f);
}

/* The same spec, and other samples behind it. */
static void test_changed_source(void **state)
{
    static const char bytes[64];
    char source[300], folder[256];
    folders f;

    test_folder(folder);
    snprintf(source, sizeof source, "tokens:%s/a.bin?length=4", folder);
    test_write(folder, "a.bin", bytes, 32);
    begin(&f, 1, source);
    run r = {.target = f.target};
    assert_ok(convert(&r, source), &r.err);
    test_write(folder, "a.bin", bytes, 64);
    assert_fails(convert(&r, source), STK_EMISMATCH, &r.err, "of other samples");
    end(&f);
    test_folder_remove(folder);
}

/* Stopped in another store than a folder, whose journal is put when it ends. */
static void test_stopped_in_a_store(void **state)
{
    char folder[256], target[400];

    test_folder(folder);
    snprintf(target, sizeof target, "webdataset:slow+file://%s/out?latency=1us&shard_size=16KiB",
             folder);
    run r = {.target = target, .end_at = 5 * GROUP};
    assert_fails(convert(&r, SOURCE), STK_ECANCELED, &r.err, "goes on behind the last whole shard");
    r.end_at = 0;
    assert_ok(convert(&r, SOURCE), &r.err);
    assert_true(r.report.resumed > 3 * GROUP);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),         cmocka_unit_test(test_killed_often),
        cmocka_unit_test(test_again),          cmocka_unit_test(test_lost),
        cmocka_unit_test(test_torn_journal),   cmocka_unit_test(test_other),
        cmocka_unit_test(test_changed_source), cmocka_unit_test(test_stopped_in_a_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
