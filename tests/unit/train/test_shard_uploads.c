/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of ranks that share a training out, in an object store: each rank uploads its part,
 * what one cannot upload is no checkpoint for any, and any number of ranks goes on from there. */
#include <dirent.h>

#include "checkpoint/parts.h"
#include "checkpoint/upload_send.h"
#include "support/http_server.h"
#include "train/callbacks/callback.h"
#include "unit/train/shards.h"

#define RUN  "s3://bucket/run"
#define LAST RUN "/checkpoints/epoch=1-step=8.safetensors"

/* The store, and what it was asked for below the folder of checkpoints. */
static struct {
    http_server *server;
    char stores[256], dirs[MAX_RANKS][256];
    double deadline;
    pthread_mutex_t lock; /* guards the rest */
    char log[65536], warnings[MAX_RANKS][4096];
} at = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void see(void *user, const http_request *request, http_fault *fault)
{
    const char *name = strstr(request->path, "/checkpoints/");

    if (!name || (strcmp(request->method, "PUT") != 0 && strcmp(request->method, "DELETE") != 0))
        return;
    pthread_mutex_lock(&at.lock);
    const size_t used = strlen(at.log);
    snprintf(at.log + used, sizeof at.log - used, "%s %s\n", request->method,
             name + strlen("/checkpoints/"));
    pthread_mutex_unlock(&at.lock);
}

static void hear(void *user, stk_message_level level, const char *text)
{
    const one *o = user;

    if (level != STK_MESSAGE_WARNING)
        return;
    pthread_mutex_lock(&at.lock);
    char *to = at.warnings[o->self.number];
    const size_t used = strlen(to);
    snprintf(to + used, sizeof at.warnings[0] - used, "%s\n", text);
    pthread_mutex_unlock(&at.lock);
}

static void clear(void)
{
    *at.log = 0;
    memset(at.warnings, 0, sizeof at.warnings);
}

static int set_up(void **state)
{
    at.server = http_server_start(&(http_server_options){.seed = 1, .s3 = true, .seen = see});
    assert_non_null(at.server);
    snprintf(at.stores, sizeof at.stores, "s3(endpoint='%s', anonymous=true, region=eu-north-1)",
             http_server_url(at.server));
    for (int r = 0; r < MAX_RANKS; r++)
        test_folder(at.dirs[r]);
    at.deadline = 60;
    clear();
    return 0;
}

static int tear_down(void **state)
{
    http_server_stop(&at.server);
    for (int r = 0; r < MAX_RANKS; r++)
        test_folder_remove(at.dirs[r]);
    return 0;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void elsewhere(one *o)
{
    clips(o);
    o->b.options.upload_dir = at.dirs[o->self.number];
    o->b.options.upload_deadline = at.deadline;
}

static void an_epoch(one *o)
{
    elsewhere(o);
    o->b.options.max_epochs = 1;
}

static void run_stored(uint64_t world, const char *strategy, const char *from, change_fn *change)
{
    const one like = {.strategy = strategy,
                      .layers = odd,
                      .folder = RUN,
                      .ckpt_path = from,
                      .change = change,
                      .stores = at.stores,
                      .on_message = hear};

    run_world(all_ranks, world, &like);
    assert_run(all_ranks);
}

/* What ranks that hold everything have saved, in one file of a folder. */
static void run_whole(uint64_t world, char saved[512], char folder[256])
{
    test_folder(folder);
    train(saved, world, "ddp", folder, NULL, clips);
}

/* Of the store, as one file. */
static void fetch(const char *url, const char *file)
{
    stk_context_options options;
    stk_context *ctx;
    stk_error err;

    stk_context_options_init(&options);
    options.stores = at.stores;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    assert_ok(stk_checkpoint_consolidate(ctx, url, file, NULL, &err), &err);
    stk_context_destroy(&ctx);
}

/* The checkpoint in the store says what the file says. */
static void assert_stored(const char *saved, const char *folder)
{
    char file[512];

    snprintf(file, sizeof file, "%s/fetched.safetensors", folder);
    fetch(LAST, file);
    assert_same_checkpoints(saved, file);
}

static bool has(const char *name)
{
    char path[300];
    size_t length;

    snprintf(path, sizeof path, "/bucket/run/checkpoints/%s", name);
    void *bytes = http_server_get(at.server, path, &length);
    free(bytes);
    return bytes != NULL;
}

static unsigned entries(const char *folder)
{
    unsigned n = 0;
    DIR *dir = opendir(folder);

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void assert_nothing_left(uint64_t world)
{
    for (uint64_t r = 0; r < world; r++) {
        assert_int_equal(entries(at.dirs[r]), 0);
        assert_string_equal(at.warnings[r], "");
    }
}

/* ---- What the store was asked ---------------------------------------------------------------- */

/* Lines that begin so, up to `end`. */
static int count_to(const char *end, const char *text)
{
    int n = 0;

    for (const char *p = at.log; (p = strstr(p, text)) && p < end; p += strlen(text))
        n++;
    return n;
}

static int count(const char *text)
{
    return count_to(at.log + sizeof at.log, text);
}

static const char *find(const char *line)
{
    const char *found = strstr(at.log, line);

    if (!found)
        fail_msg("'%s' is not in\n%s", line, at.log);
    return found;
}

/* Behind the parts and the mark of each comes the first, then its mark. */
static void assert_put(const char *name, uint64_t world)
{
    char line[200];

    snprintf(line, sizeof line, "PUT %s\n", name);
    const char *first = find(line);
    assert_true(count_to(first, "PUT " STK__CHECKPOINT_PARTS) >= 2 * ((int)world - 1));
    snprintf(line, sizeof line, "PUT %s.complete\n", name);
    assert_true(first < find(line));
}

/* There is one checkpoint, put in this order, and what was put of the other is gone. */
static void assert_order(uint64_t world)
{
    const int others = 2 * ((int)world - 1);

    assert_put("epoch=1-step=8.safetensors", world);
    assert_int_equal(
        count_to(find("PUT epoch=1-step=8.safetensors\n"), "PUT " STK__CHECKPOINT_PARTS),
        count("PUT " STK__CHECKPOINT_PARTS));
    assert_int_equal(count("PUT " STK__CHECKPOINT_PARTS) - count("DELETE " STK__CHECKPOINT_PARTS),
                     others);
    /* Training may be faster than the first upload. */
    if (count("PUT epoch=0")) {
        assert_put("epoch=0-step=4.safetensors", world);
        assert_true(find("DELETE epoch=0-step=4.safetensors.complete\n") <
                    find("DELETE epoch=0-step=4.safetensors\n"));
        assert_true(find("DELETE epoch=0-step=4.safetensors\n") <
                    find("DELETE " STK__CHECKPOINT_PARTS));
        assert_true(find("PUT epoch=1-step=8.safetensors.complete\n") <
                    find("DELETE epoch=0-step=4.safetensors.complete\n"));
    }
    assert_false(has("epoch=0-step=4.safetensors"));
}

static void parts_lie_in_the_store(void **state)
{
    char folder[256], saved[512];

    for (size_t i = 0; i < STK_COUNT(sharing); i++) {
        const uint64_t world = 2 + i;
        run_whole(world, saved, folder);
        run_stored(world, sharing[i], NULL, elsewhere);
        assert_string_equal(all_ranks[0].saved, LAST);
        assert_order(world);
        assert_nothing_left(world);
        assert_stored(saved, folder);
        test_folder_remove(folder);
        tear_down(state);
        set_up(state);
    }
}

static void four_epochs(one *o)
{
    elsewhere(o);
    o->b.options.max_epochs = 4;
}

/* Where uploads are slower than saves all ranks leave the same out, and nothing of it stays. */
static void a_slow_part(void **state)
{
    assert_true(http_server_fault(at.server, &(http_fault){.path = "*-00001-of-*",
                                                           .method = "PUT",
                                                           .count = 1,
                                                           .latency_ms = 1000}) > 0);
    run_stored(2, "zero_1", NULL, four_epochs);
    assert_put("epoch=3-step=16.safetensors", 2);
    assert_int_equal(count("PUT " STK__CHECKPOINT_PARTS) - count("DELETE " STK__CHECKPOINT_PARTS),
                     2);
    assert_nothing_left(2);
}

/* ---- Going on -------------------------------------------------------------------------------- */

/* On another number of ranks, by another strategy: as from one file in a folder. */
static void it_goes_on_anywhere(void **state)
{
    static const struct {
        uint64_t from;
        const char *first;
        uint64_t to;
        const char *second;
    } runs[] = {{3, "zero_2", 2, "zero_3"}, {2, "zero_3", 1, "ddp"}, {1, "ddp", 2, "zero_1"}};
    char folder[256], half[512], saved[512];

    for (size_t i = 0; i < STK_COUNT(runs); i++) {
        test_folder(folder);
        train(half, runs[i].from, "ddp", folder, NULL, an_epoch);
        train(saved, runs[i].to, "ddp", folder, half, clips);
        run_stored(runs[i].from, runs[i].first, NULL, an_epoch);
        assert_true(has("epoch=0-step=4.safetensors.complete"));
        run_stored(runs[i].to, runs[i].second, RUN "/last", elsewhere);
        assert_nothing_left(MAX_RANKS);
        assert_stored(saved, folder);
        test_folder_remove(folder);
        tear_down(state);
        set_up(state);
    }
}

/* ---- Faults ---------------------------------------------------------------------------------- */

/* A rank that the store takes nothing from, or lets wait: nothing is there for anybody, all hear of
 * it, and none waits for ever. The next run sends what each has kept. */
static void one_rank_cannot_upload(void **state)
{
    const http_fault faults[] = {
        {.path = "*-00001-of-*", .method = "PUT", .status = 403},
        {.path = "*-00001-of-*", .method = "PUT", .cut = HTTP_STALL, .at = HTTP_BEFORE_HEAD}};
    char folder[256], half[512], saved[512];

    for (size_t i = 0; i < STK_COUNT(faults); i++) {
        at.deadline = 0.2;
        const int fault = http_server_fault(at.server, &faults[i]);
        assert_true(fault > 0);
        run_stored(3, "zero_2", NULL, an_epoch);
        assert_true(http_server_struck(at.server, fault) > 0);
        assert_int_equal(count("PUT epoch"), 0);
        assert_false(has("epoch=0-step=4.safetensors"));
        assert_non_null(strstr(at.warnings[0], "the part of rank 1 of 3 is not in the store"));
        assert_non_null(strstr(at.warnings[1], "-00001-of-00003.safetensors' the newest"));
        assert_non_null(strstr(at.warnings[2], "a rank could not upload its part"));
        http_server_mend(at.server);
        clear();
        at.deadline = 60;
        run_stored(3, "zero_2", RUN "/last", elsewhere);
        assert_put("epoch=0-step=4.safetensors", 2);
        assert_nothing_left(3);
        test_folder(folder);
        train(half, 3, "ddp", folder, NULL, an_epoch);
        train(saved, 3, "ddp", folder, half, clips);
        assert_stored(saved, folder);
        test_folder_remove(folder);
        tear_down(state);
        set_up(state);
    }
}

/* A rank that fails in the middle of training, and whose part has not come: the others end soon,
 * and nothing is marked. */
static stk_status fail_on_one(stk_callback *callback, stk_trainer *t, const stk_moment *at_moment,
                              stk_error *err)
{
    return stk_trainer_current_epoch(t) == 1 && stk__callback_info(t).rank == 1
               ? stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "this rank is at its end")
               : STK_OK;
}

static stk_status failing_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err);

static const stk_callback_ops failing = {.struct_size = sizeof failing,
                                         .name = "failing",
                                         .doc = "fails on rank 1",
                                         .create = failing_create,
                                         .destroy = gate_destroy,
                                         .roles = STK_ROLE_NO_METRICS,
                                         .on_train_epoch_start = fail_on_one};

static stk_status failing_create(stk_context *ctx, const void *options, stk_callback **out,
                                 stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&failing, ctx};
    return STK_OK;
}

static void one_rank_fails(void **state)
{
    const one like = {.strategy = "zero_1",
                      .layers = odd,
                      .folder = RUN,
                      .change = elsewhere,
                      .callback = &failing,
                      .stores = at.stores,
                      .on_message = hear};

    at.deadline = 0.2;
    assert_true(http_server_fault(at.server, &(http_fault){.path = "*-00001-of-*",
                                                           .method = "PUT",
                                                           .cut = HTTP_STALL,
                                                           .at = HTTP_BEFORE_HEAD}) > 0);
    run_world(all_ranks, 2, &like);
    for (int r = 0; r < 2; r++)
        assert_int_equal(all_ranks[r].status, STK_EIO);
    assert_int_equal(count("PUT epoch"), 0);
    assert_non_null(strstr(at.warnings[0], "the part of rank 1 of 2 is not in the store"));
    assert_non_null(strstr(at.warnings[1], "-00001-of-00002.safetensors' the newest"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_lie_in_the_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_goes_on_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_rank_cannot_upload, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_rank_fails, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("train/shard_uploads", tests, NULL, NULL);
}
