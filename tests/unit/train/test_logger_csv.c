/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.csv, hparams.yaml, the folders of runs. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/options.h"
#include "support/support.h"
#include "support/text.h"
#include "train/loggers/log_queue.h"
#include "train/loggers/loggers.h"
#include "train/loggers/run_folder.h"

static stk_logger *open_logger(stk_context *ctx, const stk_logger_ops *ops, const char *root,
                               const char *option, const char *value)
{
    stk__logger_options options;
    stk_logger *logger = NULL;
    stk_error err;

    stk_options_init(ops->options, &options, sizeof options);
    if (option)
        assert_ok(stk_options_set(ops->options, &options, option, value, &err), &err);
    assert_ok(ops->open(ctx, &options, root, &logger, &err), &err);
    return logger;
}

static void log_line(stk_logger *logger, int64_t step, const stk_metric *metrics, size_t n)
{
    stk_error err;

    assert_ok(logger->ops->log_metrics(logger, metrics, n, step, 0, &err), &err);
}

static void check_text(const char *folder, const char *name, const char *wanted)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = test_load(path, NULL);
    assert_non_null(text);
    assert_string_equal(text, wanted);
    free(text);
}

#define LOG(logger, step, ...)                                                                     \
    do {                                                                                           \
        const stk_metric metrics_[] = {__VA_ARGS__};                                               \
        log_line((logger), (step), metrics_, sizeof metrics_ / sizeof metrics_[0]);                \
    } while (0)

static void test_columns(void **state)
{
    stk_context *ctx = test_context();
    char folder[256];
    stk_error err;

    test_folder(folder);
    stk_logger *csv = open_logger(ctx, &stk__logger_csv, folder, NULL, NULL);
    assert_int_equal(csv->version, 0);
    assert_string_equal(csv->run_name, "lightning_logs");
    assert_string_equal(csv->save_dir, folder);
    LOG(csv, 0, {"loss", 0.5}, {"epoch", 0});
    LOG(csv, 1, {"loss", 0.25}, {"epoch", 0});
    assert_ok(csv->ops->flush(csv, &err), &err);
    check_text(csv->log_dir, "metrics.csv", "epoch,loss,step\n0,0.5,0\n0,0.25,1\n");
    /* New names, some of which lie in front, behind and between; and one that needs quotes. */
    LOG(csv, 2, {"acc", 1}, {"z", NAN}, {"epoch", 1});
    LOG(csv, 3, {"m,\"n\"", -INFINITY}, {"step", 77}, {"loss", 1e-9});
    LOG(csv, 4, {"loss", 0.1});
    assert_ok(csv->ops->flush(csv, &err), &err);
    check_text(csv->log_dir, "metrics.csv",
               "acc,epoch,loss,\"m,\"\"n\"\"\",step,z\n"
               ",0,0.5,,0,\n"
               ",0,0.25,,1,\n"
               "1,1,,,2,nan\n"
               ",,1e-09,-inf,3,\n"
               ",,0.1,,4,\n");
    csv->ops->close(csv);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A run goes on under its number: the file keeps its lines, but for half a one at its end. */
static void test_continue(void **state)
{
    static const char old[] = "epoch,\"a,b\",step\r\n0,1.5,0\r\n1,,1\r\n2,3";
    stk_context *ctx = test_context();
    char folder[256], log_dir[400];
    stk_error err;

    test_folder(folder);
    test_write(folder, "lightning_logs/version_3/metrics.csv", old, sizeof old - 1);
    snprintf(log_dir, sizeof log_dir, "%s/lightning_logs/version_3", folder);
    stk_logger *csv = open_logger(ctx, &stk__logger_csv, folder, "version", "3");
    assert_string_equal(csv->log_dir, log_dir);
    LOG(csv, 5, {"a,b", 7});
    LOG(csv, 6, {"new", 8});
    csv->ops->close(csv);
    check_text(log_dir, "metrics.csv", "\"a,b\",epoch,new,step\n1.5,0,,0\n,1,,1\n7,,,5\n,,8,6\n");
    /* The next run has the next number. */
    csv = open_logger(ctx, &stk__logger_csv, folder, NULL, NULL);
    assert_int_equal(csv->version, 4);
    LOG(csv, 0, {"x", 1});
    csv->ops->close(csv);
    csv = open_logger(ctx, &stk__logger_csv, folder, "prefix", "run");
    assert_int_equal(csv->version, 5);
    LOG(csv, 0, {"x", 1});
    assert_ok(csv->ops->flush(csv, &err), &err);
    check_text(csv->log_dir, "metrics.csv", "run-x,step\n1,0\n");
    csv->ops->close(csv);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* A line of `length` bytes behind a sound header. */
static void write_long(const char *folder, size_t length)
{
    char *text = malloc(length + 16);

    assert_non_null(text);
    int head = snprintf(text, 16, "step,x\n");
    memset(text + head, '1', length);
    text[(size_t)head + length - 1] = '\n';
    test_write(folder, "lightning_logs/version_0/metrics.csv", text, (size_t)head + length);
    free(text);
}

/* The header has as many cells as the last line. */
static void check_square(const char *folder)
{
    char path[400];
    size_t first = 0, last = 0;

    snprintf(path, sizeof path, "%s/lightning_logs/version_1/metrics.csv", folder);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (int c, line = 0, begun = 0; (c = fgetc(f)) != EOF; begun = c != '\n') {
        line += c == '\n';
        last = begun ? last + (c == ',') : 0;
        first += c == ',' && line == 0;
    }
    fclose(f);
    assert_int_equal(first, last);
}

/* A file that is no log is not taken into memory whole, and columns are bounded. */
static void test_limits(void **state)
{
    static const size_t max_line = 8 << 20, max_columns = 16384;
    stk_context *ctx = test_context();
    stk__logger_options options;
    stk_logger *csv = NULL;
    char folder[256], name[32];
    stk_metric metric = {.name = name};
    stk_error err;

    test_folder(folder);
    stk_options_init(stk__logger_csv.options, &options, sizeof options);
    options.version = 0;
    for (size_t over = 0; over <= 1; over++) {
        write_long(folder, max_line + over);
        stk_status status = stk__logger_csv.open(ctx, &options, folder, &csv, &err);
        if (over) {
            assert_fails(status, STK_ELIMIT, &err, "MAX_LINE");
        } else {
            assert_ok(status, &err);
            csv->ops->close(csv);
        }
    }
    csv = open_logger(ctx, &stk__logger_csv, folder, "version", "1");
    stk_metric *many = calloc(max_columns, sizeof *many);
    char(*names)[16] = calloc(max_columns, sizeof *names);
    assert_true(many && names);
    for (size_t i = 0; i < max_columns; i++) {
        snprintf(names[i], sizeof names[i], "m%05zu", i);
        many[i].name = names[i];
    }
    /* With the step it is one too many; those before it have got their columns. */
    log_line(csv, 1, many, 2);
    assert_fails(csv->ops->log_metrics(csv, many, max_columns, 2, 0, &err), STK_ELIMIT, &err,
                 "MAX_COLUMNS");
    log_line(csv, 3, many, 1);
    csv->ops->close(csv);
    check_square(folder);
    /* What the file says is still the order of its lines: it is taken as it is. */
    csv = open_logger(ctx, &stk__logger_csv, folder, "version", "1");
    snprintf(name, sizeof name, "new");
    assert_fails(csv->ops->log_metrics(csv, &metric, 1, 4, 0, &err), STK_ELIMIT, &err,
                 "MAX_COLUMNS");
    csv->ops->close(csv);
    free(names);
    free(many);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Many lines, with a name that is new in the middle: all of them are there, in order. */
static void test_many(void **state)
{
    enum { LINES = 20000 };
    stk_context *ctx = test_context();
    char folder[256], path[400], line[200], wanted[200];

    test_folder(folder);
    stk_logger *csv = open_logger(ctx, &stk__logger_csv, folder, NULL, NULL);
    snprintf(path, sizeof path, "%s/metrics.csv", csv->log_dir);
    for (int i = 0; i < LINES; i++) {
        LOG(csv, i, {"loss", i * 0.5}, {i < LINES / 2 ? "loss" : "a", i * 0.5});
    }
    csv->ops->close(csv);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "a,loss,step\n");
    for (int i = 0; i < LINES; i++) {
        assert_non_null(fgets(line, sizeof line, f));
        char half[32];
        snprintf(half, sizeof half, i % 2 ? "%d.5" : "%d", i / 2);
        snprintf(wanted, sizeof wanted, "%s,%s,%d\n", i < LINES / 2 ? "" : half, half, i);
        assert_string_equal(line, wanted);
    }
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_hparams(void **state)
{
    static const stk_hparam params[] = {
        {"lr", "0.001"},
        {"name", "a b: c # d"},
        {"quote", "say \"x\"\\\n\t"},
        {"empty", ""},
        {"dash", "-"},
        {"list", "[1, 2]"},
        {"two words", "true"},
        {"path", "a/b.c-d_e+f"},
        {"utf", "\xc3\xa9"},
        {"broken", "x\xffy\xc3"},
        {"minus", "-1.5e-3"},
    };
    stk_context *ctx = test_context();
    stk_config *config = NULL;
    char folder[256], path[400];
    stk_error err;

    test_folder(folder);
    stk_logger *csv = open_logger(ctx, &stk__logger_csv, folder, NULL, NULL);
    assert_ok(csv->ops->log_hyperparams(csv, params, STK_COUNT(params), &err), &err);
    check_text(csv->log_dir, "hparams.yaml",
               "lr: 0.001\nname: \"a b: c # d\"\nquote: \"say \\\"x\\\"\\\\\\u000a\\u0009\"\n"
               "empty: \"\"\ndash: \"-\"\nlist: \"[1, 2]\"\n\"two words\": true\n"
               "path: a/b.c-d_e+f\nutf: \"\xc3\xa9\"\nbroken: \"x?y?\"\nminus: -1.5e-3\n");
    /* libyaml reads back what was meant. */
    snprintf(path, sizeof path, "%s/hparams.yaml", csv->log_dir);
    assert_ok(stk_config_create(ctx, &config, &err), &err);
    assert_ok(stk_config_load(config, path, &err), &err);
    assert_string_equal(stk_config_get(config, "quote", 0), params[2].value);
    assert_string_equal(stk_config_get(config, "name", 0), params[1].value);
    stk_config_destroy(&config);
    assert_ok(csv->ops->log_hyperparams(csv, NULL, 0, &err), &err);
    check_text(csv->log_dir, "hparams.yaml", "{}\n");
    csv->ops->close(csv);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- Folders ---- */

enum { RUNS = 16, OPENERS = 4 };

typedef struct opener {
    stk_context *ctx;
    const char *folder;
    int64_t versions[RUNS];
} opener;

static void *open_runs(void *user)
{
    opener *o = user;

    for (int i = 0; i < RUNS; i++) {
        stk_logger *logger = open_logger(o->ctx, &stk__logger_csv, o->folder, NULL, NULL);
        o->versions[i] = logger->version;
        logger->ops->close(logger);
    }
    return NULL;
}

/* However many begin at once, each has a folder of its own. */
static void test_versions(void **state)
{
    stk_context *ctx = test_context();
    opener openers[OPENERS];
    pthread_t threads[OPENERS];
    bool seen[RUNS * OPENERS] = {0};
    char folder[256];

    test_folder(folder);
    for (int i = 0; i < OPENERS; i++) {
        openers[i] = (opener){.ctx = ctx, .folder = folder};
        assert_int_equal(pthread_create(&threads[i], NULL, open_runs, &openers[i]), 0);
    }
    for (int i = 0; i < OPENERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < OPENERS; i++)
        for (int k = 0; k < RUNS; k++) {
            assert_in_range(openers[i].versions[k], 0, RUNS * OPENERS - 1);
            assert_false(seen[openers[i].versions[k]]);
            seen[openers[i].versions[k]] = true;
        }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* What another process learns when it tries to have the file: 0 or errno. */
static int lock_of_another(const char *folder)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[1024];
    int how;

    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDWR);
        _exit(fd < 0 || fcntl(fd, F_SETLK, &all) < 0 ? errno : 0);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

/* A file is one process's at a time, also after it was written anew for a new column. */
static void test_taken(void **state)
{
    stk__logger_options options = {.struct_size = sizeof options, .name = "runs", .version = 0};
    stk_context *ctx = test_context();
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char folder[256], path[512], byte = 0;
    stk_logger *csv;
    stk_error err;
    int to[2], from[2];

    test_folder(folder);
    assert_ok(stk__logger_csv.open(ctx, &options, folder, &csv, &err), &err);
    LOG(csv, 0, {"loss", 0.5});
    assert_int_equal(lock_of_another(csv->log_dir), EAGAIN);
    assert_ok(csv->ops->flush(csv, &err), &err);
    LOG(csv, 1, {"more", 0.5});
    assert_int_equal(lock_of_another(csv->log_dir), EAGAIN);
    snprintf(path, sizeof path, "%s/metrics.csv", csv->log_dir);
    csv->ops->close(csv);

    assert_true(pipe(to) == 0 && pipe(from) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDWR);
        close(to[1]);
        if (fd < 0 || fcntl(fd, F_SETLK, &all) < 0 || write(from[1], &byte, 1) != 1)
            _exit(1);
        _exit(read(to[0], &byte, 1) != 0);
    }
    close(from[1]);
    assert_int_equal(read(from[0], &byte, 1), 1);
    assert_fails(stk__logger_csv.open(ctx, &options, folder, &csv, &err), STK_EBUSY, &err,
                 "another training writes");
    assert_non_null(strstr(err.text, "another version"));
    close(from[0]);
    close(to[0]);
    close(to[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_ok(stk__logger_csv.open(ctx, &options, folder, &csv, &err), &err);
    csv->ops->close(csv);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_bad_folders(void **state)
{
    const stk_logger_ops *const kinds[] = {&stk__logger_csv, &stk__logger_tensorboard};
    stk_context *ctx = test_context();
    stk_logger *logger = NULL;
    char folder[256], path[400];
    stk_error err;

    test_folder(folder);
    test_write(folder, "lightning_logs", "x", 1);
    for (size_t i = 0; i < 2; i++) {
        assert_true(kinds[i]->open(ctx, NULL, folder, &logger, &err) < 0);
        assert_null(logger);
        assert_non_null(strstr(err.text, "lightning_logs"));
    }
    /* The file cannot be made. */
    snprintf(path, sizeof path, "%s/other/version_0/metrics.csv/x", folder);
    test_write(folder, "other/version_0/metrics.csv/x", "x", 1);
    stk__logger_options options;
    stk_options_init(stk__logger_csv.options, &options, sizeof options);
    options.name = "other";
    options.version = 0;
    assert_true(stk__logger_csv.open(ctx, &options, folder, &logger, &err) < 0);
    assert_non_null(strstr(err.text, "metrics.csv"));
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* ---- A disk that is full ---- */

/* The limit on the size of files stands for it: a write beyond it fails with EFBIG. */
static void test_full(void **state)
{
    struct rlimit before, small = {4096, RLIM_INFINITY};
    stk_context *ctx = test_context();
    stk_status status = STK_OK;
    char folder[256], path[400];
    struct stat st;
    stk_error err;

    test_folder(folder);
    stk_logger *csv = open_logger(ctx, &stk__logger_csv, folder, NULL, NULL);
    snprintf(path, sizeof path, "%s/metrics.csv", csv->log_dir);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 1000 && status == STK_OK; i++) {
        const stk_metric m = {"loss", i};
        status = csv->ops->log_metrics(csv, &m, 1, i, 0, &err);
        if (status == STK_OK)
            status = csv->ops->flush(csv, &err);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(status < 0);
    assert_non_null(strstr(err.text, path));
    /* It ends with a whole line. */
    assert_int_equal(stat(path, &st), 0);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    assert_int_equal(fgetc(f), '\n');
    fclose(f);
    assert_true(st.st_size > 3000 && st.st_size <= 4096);
    csv->ops->close(csv);
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

static void test_options(void **state)
{
    stk_error err;

    assert_ok(stk__options_check(stk__logger_csv.options, &err), &err);
    assert_ok(stk__options_check(stk__logger_tensorboard.options, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),  cmocka_unit_test(test_continue),
        cmocka_unit_test(test_many),     cmocka_unit_test(test_hparams),
        cmocka_unit_test(test_versions), cmocka_unit_test(test_bad_folders),
        cmocka_unit_test(test_full),     cmocka_unit_test(test_options),
        cmocka_unit_test(test_limits),   cmocka_unit_test(test_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
