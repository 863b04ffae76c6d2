/* SPDX-License-Identifier: Apache-2.0 */
/* What a run that goes on finds of the runs before it: the last, and the best. */
#include <sys/stat.h>
#include <unistd.h>

#include "unit/train/kept.h"

/* Go on with a run, in a folder of the next version; `path` is the best then, and its score. */
static double next_version(run *r, uint64_t epochs, const char *monitor, char path[700])
{
    double score = NAN;

    stk_trainer_destroy(&r->t);
    r->b.options.max_epochs = (int64_t)epochs;
    r->b.options.logger = "csv";
    tiny_init(&r->m);
    r->m.ops.validation_step = log_series;
    assert_ok(stk_trainer_create(r->b.ctx, &r->b.options, &r->t, &r->b.err), &r->b.err);
    listen_to(r->t);
    add(&r->b, r->t, &stk__callback_model_checkpoint, "save_last", "true",
        monitor ? "monitor" : NULL, monitor, NULL);
    assert_ok(stk_trainer_fit(r->t, &r->m.base, &r->b.data, "last", &r->b.err), &r->b.err);
    snprintf(path, 700, "%s", stk_trainer_best_model_path(r->t) + strlen(r->b.folder));
    assert_int_equal(stk_trainer_best_model_score(r->t, &score), monitor != NULL);
    return score;
}

static void expect_found(run *r, const char *path)
{
    stk_trainer *t;

    r->b.options.logger = "false";
    assert_ok(stk_trainer_create(r->b.ctx, &r->b.options, &t, &r->b.err), &r->b.err);
    listen_to(t);
    assert_ok(stk_trainer_validate(t, &r->m.base, &r->b.data, "best", &r->b.err), &r->b.err);
    if (!strstr(said, path))
        fail_msg("no %s in %s", path, said);
    stk_trainer_destroy(&t);
}

/* What goes on has a folder of its own, and the best of both is the best; that of the other one is
 * not replaced. */
static void inherited(void **state)
{
#define BELOW(version, name) "/lightning_logs/version_" #version "/checkpoints/" name ".safetensors"
    static const double values[16] = {5, 1, 4, 3, 0.5, 9};
    char path[700], file[700], folder[400];
    run r;

    memcpy(series, values, sizeof series);
    run_open(&r, 2);
    assert_true(next_version(&r, 2, "val_loss", path) == 1);
    assert_string_equal(path, BELOW(0, "epoch=1-step=20"));
    /* Nothing is left to do; then two that are worse. */
    for (uint64_t epochs = 2; epochs < 5; epochs += 2) {
        assert_true(next_version(&r, epochs, "val_loss", path) == 1);
        assert_string_equal(path, BELOW(0, "epoch=1-step=20"));
        expect_found(&r, BELOW(0, "epoch=1-step=20"));
    }
    snprintf(folder, sizeof folder, "%s/lightning_logs/version_2/checkpoints", r.b.folder);
    assert_string_equal(list(folder), "epoch=3-step=40 last");
    /* From a folder that does not have the best itself; then a better one. */
    assert_true(next_version(&r, 4, "val_loss", path) == 1);
    assert_true(next_version(&r, 6, "val_loss", path) == 0.5);
    assert_string_equal(path, BELOW(4, "epoch=4-step=50"));
    expect_found(&r, BELOW(4, "epoch=4-step=50"));
    snprintf(folder, sizeof folder, "%s/lightning_logs/version_0/checkpoints", r.b.folder);
    assert_string_equal(list(folder), "epoch=1-step=20 last");
    /* One that is gone does not count. */
    snprintf(file, sizeof file, "%s" BELOW(4, "epoch=4-step=50"), r.b.folder);
    assert_int_equal(remove(file), 0);
    assert_true(next_version(&r, 7, "val_loss", path) == 0);
    assert_string_equal(path, BELOW(5, "epoch=6-step=70"));
    run_close(&r);
    /* Without a monitor it is the newest. */
    run_open(&r, 2);
    next_version(&r, 2, NULL, path);
    next_version(&r, 2, NULL, path);
    assert_string_equal(path, BELOW(0, "epoch=1-step=20"));
    next_version(&r, 3, NULL, path);
    assert_string_equal(path, BELOW(2, "epoch=2-step=30"));
    snprintf(folder, sizeof folder, "%s/lightning_logs/version_0/checkpoints", r.b.folder);
    assert_string_equal(list(folder), "epoch=1-step=20 last");
    run_close(&r);
#undef BELOW
}

/* The same where the runs lie in another store, below a URL with options. */
static void inherited_elsewhere(void **state)
{
#define FIRST "/lightning_logs/version_0/checkpoints/epoch=1-step=20.safetensors"
#define LATER "/lightning_logs/version_2/checkpoints/epoch=4-step=50.safetensors"
    static const double values[16] = {5, 1, 4, 3, 0.5, 9};
    char url[300], path[700], folder[400];
    run r;

    memcpy(series, values, sizeof series);
    run_open(&r, 2);
    snprintf(url, sizeof url, "slow+file://%s?latency=0", r.b.folder);
    r.b.options.default_root_dir = url;
    assert_true(next_version(&r, 2, "val_loss", path) == 1);
    assert_true(next_version(&r, 4, "val_loss", path) == 1);
    assert_string_equal(strstr(path, "/lightning_logs"), FIRST "?latency=0");
    expect_found(&r, FIRST "?latency=0");
    snprintf(folder, sizeof folder, "%s/lightning_logs/version_1/checkpoints", r.b.folder);
    assert_string_equal(list(folder), "epoch=3-step=40 last");
    assert_true(next_version(&r, 6, "val_loss", path) == 0.5);
    assert_string_equal(strstr(path, "/lightning_logs"), LATER "?latency=0");
    expect_found(&r, LATER "?latency=0");
    snprintf(folder, sizeof folder, "%s/lightning_logs/version_0/checkpoints", r.b.folder);
    assert_string_equal(list(folder), "epoch=1-step=20 last");
    run_close(&r);
#undef FIRST
#undef LATER
}

/* What a training before has saved has not the weights of the next one, however long that was. */
static void trained_again(void **state)
{
    run r;

    run_open(&r, 1);
    run_fit(&r);
    assert_non_null(stk_trainer_present_model_path(r.t));
    tiny_init(&r.m);
    r.m.fail_at = 10;
    assert_fails(stk_trainer_fit(r.t, &r.m.base, &r.b.data, NULL, &r.b.err), STK_EIO, &r.b.err,
                 "on purpose");
    assert_null(stk_trainer_present_model_path(r.t));
    run_close(&r);
}

static const char *from; /* a path in the place of the last */

/* Go on from the last checkpoint, if there is one, below a root as it is spelt; the best is then
 * in `path`. */
static void go_on(run *r, const char *root, const char *logger, uint64_t epochs, char path[700],
                  const char *const options[][2])
{
    uint64_t room[64];
    const stk_option_table *table = stk__callback_model_checkpoint.options;

    stk_trainer_destroy(&r->t);
    r->b.options.default_root_dir = root;
    r->b.options.logger = logger;
    r->b.options.max_epochs = (int64_t)epochs;
    tiny_init(&r->m);
    r->m.ops.validation_step = log_series;
    assert_ok(stk_trainer_create(r->b.ctx, &r->b.options, &r->t, &r->b.err), &r->b.err);
    listen_to(r->t);
    for (size_t i = 0; options[i][0] || options[i + 1][0];) {
        stk_options_init(table, room, sizeof room);
        for (; options[i][0]; i++)
            assert_ok(stk_options_set(table, room, options[i][0], options[i][1], &r->b.err),
                      &r->b.err);
        i += options[i + 1][0] != NULL;
        assert_ok(
            stk_trainer_add_callback(r->t, &stk__callback_model_checkpoint, room, NULL, &r->b.err),
            &r->b.err);
    }
    assert_ok(stk_trainer_fit(r->t, &r->m.base, &r->b.data, from ? from : "last", &r->b.err),
              &r->b.err);
    const char *best = stk_trainer_best_model_path(r->t);
    snprintf(path, 700, "%s", best ? best : "");
}

/* Options of callbacks, parted by {0}. */
#define CALLBACKS(...)                                                                             \
    (const char *const[][2])                                                                       \
    {                                                                                              \
        __VA_ARGS__, {0},                                                                          \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define MONITORED                                                                                  \
    {                                                                                              \
        "monitor", "val_loss"                                                                      \
    }

static void expect_end(const char *path, const char *end)
{
    const size_t length = strlen(path), n = strlen(end);

    if (length < n || strcmp(path + length - n, end) != 0)
        fail_msg("'%s' does not end in '%s'", path, end);
}

/* However the folder of the runs is spelt, and wherever it was moved to, the best is found again.
 */
static void spelt_otherwise(void **state)
{
#define LAST "epoch=1-step=20.safetensors"
#define BEST "lightning_logs/version_0/checkpoints/" LAST
    static const double values[16] = {5, 1, 4, 3, 6, 9};
    char path[700], here[400], other[300];
    run r;

    memcpy(series, values, sizeof series);
    assert_non_null(getcwd(here, sizeof here));
    run_open(&r, 2);
    snprintf(other, sizeof other, "%s/moved", r.b.folder);
    assert_int_equal(chdir(r.b.folder), 0);
    const char *const roots[] = {".", r.b.folder, "./", "../", other};
    for (uint64_t i = 0; i < STK_COUNT(roots); i++) {
        const char *root = roots[i];
        if (i == 3) { /* the same tree from another folder */
            root = strrchr(r.b.folder, '/') + 1;
            assert_int_equal(chdir(".."), 0);
        }
        char newest[700];
        snprintf(newest, sizeof newest, "%s/lightning_logs/version_0/checkpoints/" LAST,
                 r.b.folder);
        from = i == 2 ? newest : NULL;
        if (i == 4) {
            char logs[400], there[400];
            snprintf(logs, sizeof logs, "%s/lightning_logs", r.b.folder);
            snprintf(there, sizeof there, "%s/lightning_logs", other);
            assert_int_equal(mkdir(other, 0777), 0);
            assert_int_equal(rename(logs, there), 0);
        }
        go_on(&r, root, "csv", 2 + i, path, CALLBACKS(MONITORED));
        expect_end(path, BEST);
        assert_int_equal(access(path, R_OK), 0);
        assert_memory_equal(path, root, i == 0 ? 0 : strlen(root));
    }
    assert_int_equal(chdir(here), 0);
    run_close(&r);
#undef BEST
#undef LAST
}

/* A folder that was given is the same one in other words: the one that is kept is replaced. */
static void folder_spelt_otherwise(void **state)
{
    static const double values[16] = {5, 1, 0.5, 0.25, 7};
    char path[700], here[400];
    run r;

    memcpy(series, values, sizeof series);
    assert_non_null(getcwd(here, sizeof here));
    for (int weights_only = 0; weights_only < 2; weights_only++) {
        const char *alone = weights_only ? "true" : "false";
        run_open(&r, 2);
        assert_int_equal(chdir(r.b.folder), 0);
        const char *const folders[] = {"kept", r.dir, "./kept/../kept", "kept"};
        for (uint64_t i = 0; i < STK_COUNT(folders); i++) {
            char name[32];
            go_on(&r, ".", "false", 2 + i, path,
                  CALLBACKS(MONITORED, {"dirpath", folders[i]}, {"filename", "{epoch}"},
                            {"save_weights_only", alone}, {0}, {"every_n_epochs", "1"}));
            snprintf(name, sizeof name, "epoch=%d", i < 3 ? (int)i + 1 : 3);
            assert_string_equal(list(r.dir), name);
        }
        assert_int_equal(chdir(here), 0);
        run_close(&r);
    }
}

/* The best without what it takes to go on, which another callback keeps. */
#define WEIGHTS_ALONE                                                                              \
    CALLBACKS(MONITORED, {"filename", "best"}, {"save_weights_only", "true"}, {0},                 \
              {"every_n_train_steps", "10"})

/* The best stays the best where it has weights alone, and where it is looked for at other times. */
static void inherited_otherwise(void **state)
{
    static const double values[16] = {1, 2, 4, 3};
    char path[700];
    run r;

    memcpy(series, values, sizeof series);
    run_open(&r, 2);
    go_on(&r, r.b.folder, "csv", 2, path, WEIGHTS_ALONE);
    go_on(&r, r.b.folder, "csv", 4, path, WEIGHTS_ALONE);
    expect_end(path, "version_0/checkpoints/best.safetensors");
    run_close(&r);
    /* Weights alone may be the youngest. */
    series[1] = 0.5;
    run_open(&r, 2);
    for (uint64_t epochs = 2; epochs < 4; epochs++)
        go_on(&r, r.b.folder, "csv", epochs, path, WEIGHTS_ALONE);
    assert_int_equal(r.m.train_steps, 10);
    memcpy(series, values, sizeof series);
    run_close(&r);
    run_open(&r, 2);
    go_on(&r, r.b.folder, "csv", 2, path, CALLBACKS(MONITORED));
    go_on(&r, r.b.folder, "csv", 4, path, CALLBACKS(MONITORED, {"every_n_epochs", "2"}));
    expect_end(path, "version_0/checkpoints/epoch=0-step=10.safetensors");
    run_close(&r);
}

/* A folder that is given begins anew, also beside those of the runs before. */
static void given_folder(void **state)
{
    static const double values[16] = {1, 2, 4, 3};
    char path[700], dir[400];
    run r;

    memcpy(series, values, sizeof series);
    run_open(&r, 2);
    snprintf(dir, sizeof dir, "%s/lightning_logs/version_7/checkpoints", r.b.folder);
    go_on(&r, r.b.folder, "csv", 2, path, CALLBACKS(MONITORED));
    expect_end(path, "version_0/checkpoints/epoch=0-step=10.safetensors");
    go_on(&r, r.b.folder, "csv", 4, path, CALLBACKS(MONITORED, {"dirpath", dir}));
    assert_int_equal(r.m.train_steps, 30);
    expect_end(path, "version_7/checkpoints/epoch=1-step=20.safetensors");
    run_close(&r);
}

/* The last is the newest of all callbacks that keep some, also where only the second says it. */
static void last_of_two(void **state)
{
    static const double values[16] = {5, 1, 4, 3};
    char path[700];
    run r;

    memcpy(series, values, sizeof series);
    for (int logs = 0; logs < 2; logs++) {
        const char *logger = logs ? "csv" : "false";
        run_open(&r, 3);
        const char *const(*const two)[2] =
            CALLBACKS(MONITORED, {"dirpath", r.dir}, {0}, {"every_n_train_steps", "10"},
                      {"save_last", "true"});
        go_on(&r, r.b.folder, logger, 3, path, two);
        expect_end(path, "/kept/epoch=1-step=20.safetensors");
        expect_end(stk_trainer_last_model_path(r.t), "/checkpoints/last.safetensors");
        go_on(&r, r.b.folder, logger, 4, path, two);
        assert_int_equal(r.m.train_steps, 10);
        run_close(&r);
    }
}

/* One that compares a metric says which is the best, also behind one that does not. */
static void behind_another(void **state)
{
    static const double values[16] = {5, 1, 4};
    double score = 0;
    run r;

    memcpy(series, values, sizeof series);
    run_open(&r, 3);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "every_n_train_steps", "8", "save_last", "true",
        NULL);
    add(&r.b, r.t, &stk__callback_model_checkpoint, "monitor", "val_loss", "filename",
        "best-{epoch}", NULL);
    run_fit(&r);
    assert_true(stk_trainer_best_model_score(r.t, &score) && score == 1);
    assert_non_null(strstr(stk_trainer_best_model_path(r.t), "/best-epoch=1.safetensors"));
    assert_non_null(strstr(stk_trainer_last_model_path(r.t), "/last.safetensors"));
    expect_found(&r, "/best-epoch=1.safetensors");
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inherited),
        cmocka_unit_test(inherited_elsewhere),
        cmocka_unit_test(trained_again),
        cmocka_unit_test(behind_another),
        cmocka_unit_test(spelt_otherwise),
        cmocka_unit_test(last_of_two),
        cmocka_unit_test(folder_spelt_otherwise),
        cmocka_unit_test(inherited_otherwise),
        cmocka_unit_test(given_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
