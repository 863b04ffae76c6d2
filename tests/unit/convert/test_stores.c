/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures into another store than a local folder: what fails, is stopped or is killed goes on, and
 * becomes what a local conversion writes. */
#include "tree.h"

#include <errno.h>
#include <sys/wait.h>

#include "base/url.h"
#include "store/store.h"
#include "support/clock.h"

#define KILLED 42
#define PUTS   (TREE_FILES + 2) /* with the first and the last of the journal */

/* ---- A store that is a folder under another name, whose n-th put fails ---- */

static atomic_int num_puts, fails_at, canceled_at; /* 0: none */
static atomic_bool cuts, patient; /* the last byte is lost; a put had no deadline */
static bool for_good;             /* all puts after that fail, too */
static tree_run *canceled_run;
static stk_store_ops remote;

static char mirrored[64]; /* the folder of the last mirror */

char *mkdtemp(char *pattern)
{
    static unsigned number;
    char *end = pattern + strlen(pattern) - 6;

    do
        snprintf(end, 7, "%06x", (unsigned)(getpid() * 1000 + ++number) & 0xffffff);
    while (mkdir(pattern, 0700) != 0 && errno == EEXIST);
    if (strstr(pattern, "stoker-log"))
        snprintf(mirrored, sizeof mirrored, "%s", pattern);
    return pattern;
}

/* In a process that is killed it has no end. */
static void remove_mirror(void)
{
    char path[80];

    snprintf(path, sizeof path, "%s/log", mirrored);
    unlink(path);
    rmdir(mirrored);
}

static stk_status remote_open(stk_context *ctx, const char *url, const void *options,
                              stk_store **out, stk_error *err)
{
    char inner[600];

    snprintf(inner, sizeof inner, "file%s", url + strlen("remote"));
    STK_TRY(stk__store_file.open(ctx, inner, options, out, err));
    (*out)->ops = &remote;
    return STK_OK;
}

static stk_status (*write_all)(stk_put *put, const void *data, size_t length, stk_error *err);

static stk_status write_cut(stk_put *put, const void *data, size_t length, stk_error *err)
{
    return write_all(put, data, length - 1, err);
}

static stk_status remote_put(stk_store *store, const char *key, const stk_store_call *call,
                             stk_put **out, stk_error *err)
{
    static stk_put_ops cut;
    const int n = atomic_fetch_add(&num_puts, 1) + 1;

    if (!call->deadline_ns || call->deadline_ns > stk__now_ns() + UINT64_C(200000000000))
        atomic_store(&patient, true);
    if (n == atomic_load(&fails_at) || (for_good && atomic_load(&fails_at) && n > fails_at))
        return stk__fail(err, STK_EIO, STK_STAGE_STORE, "not now");
    if (n == atomic_load(&canceled_at))
        stk_conversion_cancel(canceled_run->conversion);
    if (call->canceled && call->canceled(call->user))
        return stk__fail(err, STK_ECANCELED, STK_STAGE_STORE, "put was canceled");
    STK_TRY(stk__store_file.put(store, key, call, out, err));
    if (atomic_load(&cuts) && !strstr(key, ".stoker")) {
        cut = *(*out)->ops;
        write_all = cut.write;
        cut.write = write_cut;
        (*out)->ops = &cut;
    }
    return STK_OK;
}

typedef struct folders {
    char base[256], from[300], to[300], whole[300], url[320];
} folders;

static void make_folders(folders *f, tree_run *run)
{
    stk_error err;

    atomic_store(&num_puts, 0);
    atomic_store(&fails_at, 0);
    atomic_store(&canceled_at, 0);
    atomic_store(&cuts, false);
    atomic_store(&patient, false);
    remote = stk__store_file;
    remote.name = "remote";
    remote.open = remote_open;
    remote.put = remote_put;
    test_folder(f->base);
    snprintf(f->from, sizeof f->from, "%s/from", f->base);
    snprintf(f->to, sizeof f->to, "%s/bucket/a b/to", f->base);
    snprintf(f->whole, sizeof f->whole, "%s/whole", f->base);
    snprintf(f->url, sizeof f->url, "remote:%s/bucket/a%%20b/to", f->base);
    assert_int_equal(mkdir(f->from, 0777), 0);
    tree_make(f->from);
    tree_run_init(run);
    run->images.max_side = 24;
    run->store = &remote;
    assert_ok(tree_convert(run, f->from, f->whole, &err), &err);
    snprintf(f->to, sizeof f->to, "%s/bucket", f->base);
    assert_int_equal(mkdir(f->to, 0777), 0);
    snprintf(f->to, sizeof f->to, "%s/bucket/a b/to", f->base);
}

static void remove_target(const folders *f)
{
    char path[300];

    snprintf(path, sizeof path, "%s/bucket", f->base);
    test_folder_remove(path);
    assert_int_equal(mkdir(path, 0777), 0);
}

static bool is_there(const folders *f, const char *name)
{
    char path[700];

    snprintf(path, sizeof path, "%s/%s", f->to, name);
    return access(path, F_OK) == 0;
}

/* All files are those of a local conversion, and so is the journal, but for lines of one that was
 * resumed. */
static void assert_whole(const folders *f)
{
    tree_equal(f->whole, f->to);
    bytes is = tree_load(f->to, ".stoker-convert"), local = tree_load(f->whole, ".stoker-convert");
    assert_non_null(is.data);
    assert_int_equal(is.size, local.size);
    assert_memory_equal(is.data, local.data, is.size);
    free(is.data);
    free(local.data);
    assert_false(is_there(f, ".stoker-convert-parts"));
    assert_false(is_there(f, ".stoker-convert-errors"));
}

/* With and without threads; done once, the second time everything is there. */
static void into_a_store(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    for (int workers = 0; workers < 4; workers += 3) {
        run.options.num_workers = workers;
        atomic_store(&num_puts, 0);
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        assert_int_equal(atomic_load(&num_puts), PUTS);
        assert_int_equal(run.report.verified, TREE_FILES);
        assert_whole(&f);
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        assert_int_equal(run.report.resumed, TREE_FILES);
        assert_whole(&f);
        remove_target(&f);
    }
    /* Storage that hangs is named: every put has an end. */
    assert_false(atomic_load(&patient));
    /* From such a store, and into one of memory that ends with its context. */
    char source[340];
    snprintf(source, sizeof source, "remote:%s", f.from);
    assert_ok(tree_convert(&run, source, f.url, &err), &err);
    tree_equal(f.whole, f.to);
    assert_ok(tree_convert(&run, f.from, "mem://there/small", &err), &err);
    assert_int_equal(run.report.total, TREE_FILES);
    /* A file: URL is the folder itself. */
    snprintf(source, sizeof source, "file:%s/local", f.base);
    assert_ok(tree_convert(&run, f.from, source, &err), &err);
    snprintf(source, sizeof source, "%s/local", f.base);
    tree_equal(f.whole, source);
    test_folder_remove(f.base);
}

/* Whichever put fails: the same again goes on, and what was put is not put twice. */
static void a_put_fails(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    for (int n = 1; n <= PUTS; n++) {
        atomic_store(&num_puts, 0);
        atomic_store(&fails_at, n);
        assert_fails(tree_convert(&run, f.from, f.url, &err), STK_EIO, &err, "not now");
        /* The journal tells of all before, at its end if not earlier. */
        atomic_store(&fails_at, 0);
        assert_int_equal(is_there(&f, ".stoker-convert"), n > 2);
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        assert_int_equal(run.report.resumed, n < PUTS ? STK_MAX(n - 2, 0) : TREE_FILES);
        assert_whole(&f);
        remove_target(&f);
        /* The same where all that follow fail: the journal is not put, nor left elsewhere. */
        for_good = true;
        atomic_store(&num_puts, 0);
        atomic_store(&fails_at, n);
        assert_fails(tree_convert(&run, f.from, f.url, &err), STK_EIO, &err, "not now");
        for_good = false;
        atomic_store(&fails_at, 0);
        assert_int_equal(access(mirrored, F_OK), -1);
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        assert_int_equal(run.report.resumed, 0);
        assert_whole(&f);
        remove_target(&f);
    }
    test_folder_remove(f.base);
}

static const char *lost; /* how the key ends that is not found out about; NULL: none */

static stk_status remote_stat(stk_store *store, const char *key, const stk_store_call *call,
                              stk_object_info *out, stk_error *err)
{
    const size_t length = strlen(key), end = lost ? strlen(lost) : 0;

    if (lost && length >= end && strcmp(key + length - end, lost) == 0)
        return stk__fail(err, STK_EIO, STK_STAGE_STORE, "no answer");
    return stk__store_file.stat(store, key, call, out, err);
}

/* A store that does not answer whether something is there does not make it lost. */
static void a_look_fails(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    remote.stat = remote_stat;
    run.images.keep_png = true;
    assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
    lost = ".stoker-convert";
    assert_fails(tree_convert(&run, f.from, f.url, &err), STK_EIO, &err, "no answer");
    assert_true(is_there(&f, ".stoker-convert"));
    /* A file of an earlier conversion that is to go is not forgotten. */
    run.images.keep_png = false;
    run.options.overwrite = true;
    lost = "rgb.png";
    assert_fails(tree_convert(&run, f.from, f.url, &err), STK_EIO, &err, "no answer");
    lost = NULL;
    assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
    assert_false(is_there(&f, "cat/rgb.png"));
    assert_whole(&f);
    test_folder_remove(f.base);
}

/* The end of the caller's patience is no failure of the store. */
static void is_stopped(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    canceled_run = &run;
    for (int workers = 0; workers < 4; workers += 3) {
        run.options.num_workers = workers;
        atomic_store(&num_puts, 0);
        atomic_store(&canceled_at, 6);
        assert_fails(tree_convert(&run, f.from, f.url, &err), STK_ECANCELED, &err,
                     "run the same again");
        atomic_store(&canceled_at, 0);
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        /* The other two were at work. */
        assert_in_range(run.report.resumed, workers ? 2 : 4, workers ? 6 : 4);
        assert_whole(&f);
        remove_target(&f);
    }
    test_folder_remove(f.base);
}

static int step_s; /* by which the clock goes on at each file */

static void exit_at(void *user, uint64_t done)
{
    atomic_fetch_add(&ahead, step_s);
    if (done == *(uint64_t *)user) {
        remove_mirror();
        _exit(KILLED);
    }
}

/* The journal is put every 30 s; what came after is done again. */
static void is_killed(void **state)
{
    static const struct {
        uint64_t files, resumed;
        int step_s;
    } rows[] = {{3, 0, 0}, {1, 0, 31}, {2, 2, 31}, {9, 9, 31}, {3, 0, 11}, {6, 4, 11}, {8, 7, 11}};
    folders f;
    tree_run run;
    stk_error err;
    int status;

    make_folders(&f, &run);
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            uint64_t files = rows[i].files;
            run.progress = exit_at;
            run.user = &files;
            step_s = rows[i].step_s;
            _exit(tree_convert(&run, f.from, f.url, &err) == STK_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == KILLED);
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        assert_int_equal(run.report.resumed, rows[i].resumed);
        assert_whole(&f);
        remove_target(&f);
    }
    test_folder_remove(f.base);
}

/* Other bytes than were put are found, and do not stay. */
static void is_read_back(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    atomic_store(&cuts, true);
    assert_fails(tree_convert(&run, f.from, f.url, &err), STK_EIO, &err, "read back");
    assert_false(is_there(&f, "cat/base.jpg"));
    /* Where nothing is removed the journal says whose it is. */
    remote.remove = NULL;
    assert_fails(tree_convert(&run, f.from, f.url, &err), STK_EIO, &err, "read back");
    remote.remove = stk__store_file.remove;
    assert_true(is_there(&f, "cat/base.jpg"));
    run.options.verify = STK_VERIFY_NONE;
    assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
    assert_int_equal(run.report.resumed, 0);
    /* Their sizes are not those that were noted, so they are done again. */
    atomic_store(&cuts, false);
    run.options.verify = STK_VERIFY_FULL;
    assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
    assert_int_equal(run.report.resumed, 0);
    assert_whole(&f);
    test_folder_remove(f.base);
}

static void is_refused(void **state)
{
    char url[400], source[340], path[400];
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    snprintf(source, sizeof source, "remote:%s", f.from);
    assert_fails(tree_convert(&run, source, source, &err), STK_EINVAL, &err, "is the folder");
    snprintf(url, sizeof url, "%s/", source);
    assert_fails(tree_convert(&run, source, url, &err), STK_EINVAL, &err, "is the folder");
    snprintf(url, sizeof url, "slow+%s/cat/in?latency=0", source);
    assert_fails(tree_convert(&run, source, url, &err), STK_EINVAL, &err, "lies in the folder");
    snprintf(url, sizeof url, "remote:%s?follow_links=true", f.base);
    run.options.overwrite = true;
    assert_fails(tree_convert(&run, source, url, &err), STK_EINVAL, &err, "holds the folder");
    /* Below a wrapper is a local folder, whatever it is called. */
    snprintf(url, sizeof url, "slow+file:%s/cat/in?latency=0", f.from);
    assert_fails(tree_convert(&run, f.from, url, &err), STK_EINVAL, &err, "lies in the folder");
    snprintf(url, sizeof url, "slow+%s/../from?latency=0", f.from);
    assert_fails(tree_convert(&run, f.from, url, &err), STK_EINVAL, &err, "is the folder");
    assert_int_equal(chdir(f.from), 0);
    assert_fails(tree_convert(&run, f.from, "slow+file:new?latency=0", &err), STK_EINVAL, &err,
                 "lies in the folder");
    assert_int_equal(chdir("/"), 0);
    run.options.overwrite = false;
    /* What is there and no conversion began. */
    test_write(f.base, "bucket/a b/to/notes", "x", 1);
    assert_fails(tree_convert(&run, f.from, f.url, &err), STK_EINVAL, &err, "is not empty");
    assert_false(is_there(&f, ".stoker-convert"));
    remote.list = NULL;
    assert_fails(tree_convert(&run, f.from, f.url, &err), STK_ENOTSUP, &err, "cannot be told");
    run.options.overwrite = true;
    assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
    assert_true(is_there(&f, "notes"));
    snprintf(path, sizeof path, "%s/notes", f.to);
    assert_int_equal(unlink(path), 0);
    assert_whole(&f);
    run.options.overwrite = false;
    remote.put = NULL;
    snprintf(url, sizeof url, "%s/new", f.url);
    remote.list = stk__store_file.list;
    assert_fails(tree_convert(&run, f.from, url, &err), STK_ENOTSUP, &err, "cannot be written");
    assert_fails(tree_convert(&run, f.from, "nostore://x", &err), STK_ENOTSUP, &err, "no store");
    test_folder_remove(f.base);
}

/* With other options names change: what no longer belongs goes, or stays where nothing is removed.
 */
static void other_options(void **state)
{
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    for (int removes = 0; removes < 2; removes++) {
        remote.remove = removes ? stk__store_file.remove : NULL;
        run.images.keep_png = true;
        run.options.overwrite = false;
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        assert_true(is_there(&f, "cat/rgb.png") && !is_there(&f, "cat/rgb.jpg"));
        run.images.keep_png = false;
        assert_fails(tree_convert(&run, f.from, f.url, &err), STK_EMISMATCH, &err, "keep_png");
        run.options.overwrite = true;
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        assert_true(is_there(&f, "cat/rgb.jpg"));
        assert_int_equal(is_there(&f, "cat/rgb.png"), !removes);
        if (removes)
            assert_whole(&f);
        remove_target(&f);
    }
    test_folder_remove(f.base);
}

/* The list of what was left out, and its end. */
static void broken_sources(void **state)
{
    char path[400];
    folders f;
    tree_run run;
    stk_error err;

    make_folders(&f, &run);
    for (int removes = 0; removes < 2; removes++) {
        remote.remove = removes ? stk__store_file.remove : NULL;
        test_write(f.from, "dog/text.png", "no picture", 10);
        run.options.on_error = 1;
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        bytes list = tree_load(f.to, ".stoker-convert-errors");
        assert_non_null(list.data);
        assert_non_null(strstr((char *)list.data, "dog/text.png\tSTK_EFORMAT\t"));
        free(list.data);
        snprintf(path, sizeof path, "%s/dog/text.png", f.from);
        assert_int_equal(unlink(path), 0);
        assert_ok(tree_convert(&run, f.from, f.url, &err), &err);
        list = tree_load(f.to, ".stoker-convert-errors");
        assert_int_equal(list.data != NULL, !removes);
        assert_int_equal(list.size, 0);
        free(list.data);
        remove_target(&f);
    }
    test_folder_remove(f.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(into_a_store),   cmocka_unit_test(a_look_fails),
        cmocka_unit_test(a_put_fails),    cmocka_unit_test(is_stopped),
        cmocka_unit_test(is_killed),      cmocka_unit_test(is_read_back),
        cmocka_unit_test(is_refused),     cmocka_unit_test(other_options),
        cmocka_unit_test(broken_sources),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
