/* SPDX-License-Identifier: Apache-2.0 */
/* A run in an object store: it goes on from there, and no store ends it. */
#include <dirent.h>

#include "checkpoint/checkpoint.h"
#include "support/http_server.h"
#include "unit/train/said.h"

static char warning[2048];

static void hear(void *user, stk_message_level level, const char *text)
{
    (void)user;
    if (level == STK_MESSAGE_WARNING && strstr(text, "uploaded"))
        snprintf(warning, sizeof warning, "%s", text);
}

typedef struct world {
    bench b;
    http_server *server;
} world;

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    stk_context_options options;
    char stores[512];

    *state = w;
    bench_open(&w->b);
    w->server = http_server_start(&(http_server_options){.seed = 1, .s3 = true});
    assert_non_null(w->server);
    stk_dataset_close(&w->b.dataset);
    stk_context_destroy(&w->b.ctx);
    snprintf(stores, sizeof stores, "s3(endpoint='%s', anonymous=true, region=eu-north-1)",
             http_server_url(w->server));
    stk_context_options_init(&options);
    options.stores = stores;
    options.on_message = hear;
    assert_ok(stk_context_create(&options, &w->b.ctx, &w->b.err), &w->b.err);
    assert_ok(
        stk_dataset_open(w->b.ctx, "synthetic:?size=40&shape=2x2x1", &w->b.dataset, &w->b.err),
        &w->b.err);
    w->b.train.dataset = w->b.val.dataset = w->b.dataset;
    w->b.options.enable_checkpointing = STK_SWITCH_TRUE;
    w->b.options.logger = "csv";
    w->b.options.default_root_dir = "s3://bucket/run";
    w->b.options.upload_dir = w->b.folder;
    w->b.options.upload_deadline = 60;
    *warning = 0;
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;

    http_server_stop(&w->server);
    bench_close(&w->b);
    free(w);
    return 0;
}

static bool is_there(world *w, const char *path)
{
    size_t length;
    void *bytes = http_server_get(w->server, path, &length);

    free(bytes);
    return bytes != NULL;
}

/* Of a run of 3 epochs. */
#define CHECKPOINTS "/bucket/run/lightning_logs/version_%d/checkpoints/%s"
static bool has(world *w, int version, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, CHECKPOINTS, version, name);
    return is_there(w, path);
}

static void fit(world *w, tiny *m, uint64_t epochs, const char *from)
{
    stk_trainer *t;

    tiny_init(m);
    w->b.options.max_epochs = (int64_t)epochs;
    assert_ok(bench_fit(&w->b, m, from, &t), &w->b.err);
    stk_trainer_destroy(&t);
}

static unsigned entries(const char *folder)
{
    unsigned n = 0;
    DIR *dir = opendir(folder);

    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void it_goes_on_from_the_store(void **state)
{
    static const char *const from[] = {
        "s3://bucket/run/last", "last",
        "s3://bucket/run/lightning_logs/version_0/checkpoints/epoch=1-step=20.safetensors"};
    world *w = *state;
    tiny straight, m;

    /* A line for a machine that may be taken away begins anew where there is nothing. */
    fit(w, &m, 2, "s3://bucket/run/last");
    assert_true(has(w, 0, "epoch=1-step=20.safetensors"));
    assert_true(has(w, 0, "epoch=1-step=20.safetensors.complete"));
    assert_false(has(w, 0, "epoch=0-step=10.safetensors"));
    assert_false(has(w, 0, "epoch=0-step=10.safetensors.complete"));
    assert_true(is_there(w, "/bucket/run/lightning_logs/version_0/metrics.csv"));
    assert_int_equal(entries(w->b.folder), 0);
    bench plain;
    bench_open(&plain);
    plain.options.max_epochs = 3;
    bench_train(&plain, &straight);
    bench_close(&plain);
    for (size_t i = 0; i < STK_COUNT(from); i++) {
        fit(w, &m, 3, from[i]);
        assert_memory_equal(m.weight, straight.weight, sizeof m.weight);
        assert_int_equal(m.train_steps, i ? i == 1 ? 0 : 10 : 10);
    }
    assert_string_equal(warning, "");
}

/* It dies in the middle: the training does not, the files are here, and it goes on from them. */
static void a_store_dies(void **state)
{
    world *w = *state;
    tiny m, other;
    stk_trainer *t;
    char path[512];

    tiny_init(&m);
    w->b.options.max_epochs = 2;
    w->b.options.upload_deadline = 0.2;
    const int fault =
        http_server_fault(w->server, &(http_fault){.path = "*/checkpoints/*", .status = 500});
    assert_true(fault > 0);
    assert_ok(bench_fit(&w->b, &m, NULL, &t), &w->b.err);
    assert_true(http_server_struck(w->server, fault) > 0);
    assert_non_null(strstr(warning, "1 checkpoint is not uploaded, "));
    const char *folder = strstr(warning, "kept in '");
    assert_non_null(folder);
    assert_int_equal(sscanf(folder, "kept in '%400[^']'", path), 1);
    /* What is asked of the same trainer finds it. */
    assert_ok(stk_trainer_test(t, &m.base, &w->b.data, "best", &w->b.err), &w->b.err);
    stk_trainer_destroy(&t);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    struct dirent *entry;
    while ((entry = readdir(dir)) && strchr(entry->d_name, '.'))
        continue;
    assert_non_null(entry);
    const size_t used = strlen(path);
    snprintf(path + used, sizeof path - used, "/%s/epoch=1-step=20.safetensors", entry->d_name);
    closedir(dir);
    http_server_mend(w->server);
    fit(w, &other, 3, path);
    assert_int_equal(other.train_steps, 10);
    /* It is in the store now. */
    assert_true(has(w, 0, "epoch=1-step=20.safetensors.complete"));
    assert_int_equal(entries(w->b.folder), 0);
}

/* What was not uploaded is the last that the next run goes on from. */
static void the_last_is_here(void **state)
{
    world *w = *state;
    tiny m, other;
    stk_trainer *t;

    w->b.options.upload_deadline = 0.2;
    http_server_fault(w->server, &(http_fault){.path = "*/checkpoints/*", .status = 403});
    tiny_init(&m);
    w->b.options.max_epochs = 2;
    assert_ok(bench_fit(&w->b, &m, NULL, &t), &w->b.err);
    stk_trainer_destroy(&t);
    assert_int_equal(entries(w->b.folder), 1);
    http_server_mend(w->server);
    w->b.options.upload_deadline = 60;
    fit(w, &other, 3, "s3://bucket/run/last");
    assert_int_equal(other.train_steps, 10);
    assert_true(has(w, 0, "epoch=1-step=20.safetensors.complete"));
    assert_int_equal(entries(w->b.folder), 0);
}

/* A store that says 503 for a while is given time. */
static void a_storm(void **state)
{
    world *w = *state;
    tiny m;

    assert_true(http_server_fault(w->server, &(http_fault){.path = "*/checkpoints/*",
                                                           .method = "PUT",
                                                           .count = 6,
                                                           .status = 503}) > 0);
    fit(w, &m, 2, NULL);
    assert_true(has(w, 0, "epoch=1-step=20.safetensors.complete"));
    assert_int_equal(entries(w->b.folder), 0);
}

/* A run that was told to end puts where it stood, and a store that hangs is not waited for. */
static void it_is_told_to_end(void **state)
{
    world *w = *state;
    stk_trainer *t;
    tiny m;

    for (int hangs = 0; hangs < 2; hangs++) {
        tiny_init(&m);
        m.stop_at = 5;
        w->b.options.upload_deadline = hangs ? 0.2 : 60;
        if (hangs)
            http_server_fault(
                w->server,
                &(http_fault){.path = "*/interrupted*", .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD});
        assert_int_equal(bench_fit(&w->b, &m, NULL, &t), STK_ECANCELED);
        assert_int_equal(has(w, hangs, "interrupted.safetensors.complete"), !hangs);
        assert_int_equal(*warning != 0, hangs);
        stk_trainer_destroy(&t);
    }
}

/* Who may put, and neither list nor look for what is not there, uploads as ever. */
static void a_store_that_shows_nothing(void **state)
{
    world *w = *state;
    tiny m;

    const int fault = http_server_fault(
        w->server,
        &(http_fault){.path = "*" STK__CHECKPOINT_PARTS, .status = 403, .code = "AccessDenied"});
    assert_true(fault > 0);
    assert_true(http_server_fault(w->server, &(http_fault){.query = "list-type",
                                                           .status = 403,
                                                           .code = "AccessDenied"}) > 0);
    w->b.options.logger = "false";
    fit(w, &m, 2, NULL);
    assert_true(http_server_struck(w->server, fault) > 0);
    assert_true(is_there(w, "/bucket/run/checkpoints/epoch=1-step=20.safetensors.complete"));
    assert_false(is_there(w, "/bucket/run/checkpoints/epoch=0-step=10.safetensors"));
    assert_string_equal(warning, "");
    assert_int_equal(entries(w->b.folder), 0);
}

/* Where nothing can be put it is said before the first step. */
static void a_store_that_takes_nothing(void **state)
{
    world *w = *state;
    stk_trainer *t;
    tiny m;

    w->b.options.logger = "false";
    w->b.options.upload_deadline = 0.2;
    w->b.options.default_root_dir = "zip:s3://bucket/x.zip!/run";
    assert_true(http_server_put(w->server, "/bucket/x.zip",
                                "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22));
    tiny_init(&m);
    assert_fails(bench_fit(&w->b, &m, NULL, &t), STK_ENOTSUP, &w->b.err, "cannot be written");
    assert_int_equal(m.train_steps, 0);
    stk_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_goes_on_from_the_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_store_dies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_is_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_storm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_told_to_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_store_that_shows_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_store_that_takes_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
