/* SPDX-License-Identifier: Apache-2.0 */
/* How many samples were bad, how many may be, and what the logs say became of them. */
#include <stdio.h>
#include <unistd.h>

#include "unit/loader/run.h"

/* Take batches to the end of an epoch or a failure. */
static stk_status take(stk_loader *loader, int *good, int *empty, stk_error *err)
{
    stk_batch *batch;
    stk_status status;

    *good = *empty = 0;
    while ((status = stk_loader_next(loader, -1, &batch, err)) == STK_OK) {
        *good += 1;
        *empty += stk_batch_count(batch) == 0;
        stk_batch_release(&batch);
    }
    return status;
}

/* 160 samples, every tenth bad, in batches of 16. */
static void the_bound_is_a_count_or_a_share(void **state)
{
    static const struct {
        const char *max_errors;
        int good; /* batches before the first failure; 10: none fails */
    } cases[] = {
        {"16", 10},   {"15", 9}, {"10%", 10}, {"9.9%", 9}, {"0%", 0},    {"0", 0},
        {"100%", 10}, {"3", 1},  {"2%", 1},   {"", 10},    {"auto", 10},
    };
    static const char *const wrong[] = {"-1", "1%%", "101%", "1e3%", "x", "5 ", "0x5", "nan%", "%"};
    counting_options c = {.size = 160, .fail_every = 10, .fail_with = STK_EFORMAT};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader *loader;
    stk_error err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t workers = 0; workers < 3; workers++) {
            stk_loader_options o = base_options();
            int good, empty;
            o.shuffle = STK_SHUFFLE_NONE;
            o.on_error = STK_ON_ERROR_SKIP;
            o.max_errors = cases[i].max_errors;
            o.num_workers = workers;
            loader = open_loader(dataset, &o);
            /* Counted by the epoch: the second is as the first. */
            for (int epoch = 0; epoch < 2; epoch++) {
                stk_status status = take(loader, &good, &empty, &err);
                assert_int_equal(status, cases[i].good < 10 ? STK_EBADSAMPLES : STK_EOS);
                assert_int_equal(good, cases[i].good);
                if (status == STK_EOS)
                    continue;
                assert_non_null(strstr(err.text, "max_errors"));
                assert_non_null(strstr(err.text, "planted"));
                break;
            }
            stk_loader_destroy(&loader);
        }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        stk_loader_options o = base_options();
        o.on_error = STK_ON_ERROR_SKIP;
        o.max_errors = wrong[i];
        assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err, "neither");
        assert_string_equal(err.key, "max_errors");
        assert_non_null(strstr(err.text, wrong[i]));
    }
    /* A bound that does nothing is refused; none is given by "auto". */
    for (int given = 0; given < 3; given++) {
        static const char *const texts[] = {"5", "10%", "auto"};
        stk_loader_options o = base_options();
        o.max_errors = texts[given];
        if (given < 2) {
            assert_fails(stk_loader_create(dataset, &o, &loader, &err), STK_EINVAL, &err,
                         "does nothing with on_error: fail");
            assert_string_equal(err.key, "max_errors");
        } else {
            loader = open_loader(dataset, &o);
            stk_loader_destroy(&loader);
        }
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* By default 1 % of an epoch may be bad, and a whole batch. */
static void the_default_bound(void **state)
{
    stk_context *ctx = test_context();

    for (int more = 0; more < 2; more++)
        for (int on_error = STK_ON_ERROR_SKIP; on_error <= STK_ON_ERROR_REPLACE; on_error++) {
            /* 3200 samples: 32 bad ones, and 34. */
            counting_options c = {
                .size = 3200, .fail_every = more ? 95 : 100, .fail_with = STK_EFORMAT};
            stk_dataset *dataset = counting_open(ctx, &c);
            stk_loader_options o = base_options();
            stk_error err;
            int good, empty;
            o.max_errors = "auto";
            o.shuffle = STK_SHUFFLE_NONE;
            o.on_error = on_error;
            stk_loader *loader = open_loader(dataset, &o);
            stk_status status = take(loader, &good, &empty, &err);
            if (on_error == STK_ON_ERROR_SKIP)
                assert_int_equal(status, more ? STK_EBADSAMPLES : STK_EOS);
            stk_loader_destroy(&loader);
            stk_dataset_close(&dataset);
        }
    stk_context_destroy(&ctx);
}

typedef struct told {
    int empty, all;
} told;

static void listen(void *user, stk_message_level level, const char *message)
{
    told *t = user;

    if (level < STK_MESSAGE_WARNING)
        return;
    t->all++;
    t->empty += strstr(message, "is empty") && strstr(message, "planted");
}

/* An empty batch is handed out, and said. */
static void empty_batches_are_said(void **state)
{
    told t = {0};
    stk_context_options options;
    stk_context *ctx;
    stk_error err;
    char text[4000];

    stk_context_options_init(&options);
    options.on_message = listen;
    options.on_message_user = &t;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    counting_options c = {.size = 64, .fail_every = 1, .fail_with = STK_EFORMAT};
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader_options o = base_options();
    stk_loader_stats stats = {.struct_size = sizeof stats};
    stk_bad_samples bad = {.struct_size = sizeof bad};
    int good, empty;
    o.on_error = STK_ON_ERROR_SKIP;
    stk_loader *loader = open_loader(dataset, &o);
    stk_loader_get_bad_samples(loader, &bad);
    assert_int_equal(bad.samples, 0);
    assert_int_equal(stk_bad_samples_format(&bad, text, sizeof text), 0);
    assert_int_equal(take(loader, &good, &empty, &err), STK_EOS);
    assert_int_equal(good, 4);
    assert_int_equal(empty, 4);
    assert_int_equal(t.empty, 4);
    assert_int_equal(t.all, 4);
    stk_loader_get_stats(loader, &stats);
    assert_int_equal(stats.empty_batches, 4);
    assert_int_equal(stats.bad_samples, 64);
    stk_loader_get_bad_samples(loader, &bad);
    assert_int_equal(bad.empty_batches, 4);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static size_t count_lines(const char *path, const char *action, const char *with)
{
    char line[1500];
    size_t n = 0;
    FILE *f = fopen(path, "r");

    while (f && fgets(line, sizeof line, f))
        n += strstr(line, action) && strstr(line, with);
    if (f)
        fclose(f);
    return n;
}

/* `action` is what happened: a sample of a batch that failed was neither skipped nor replaced. */
static void the_log_says_what_happened(void **state)
{
    static const struct {
        int on_error;
        stk_status fail_with;
        const char *max_errors;
        int cache;
        size_t skip, replace, fail; /* lines; of 16 bad ones, two in 6 batches, one in 4 */
    } cases[] = {
        {STK_ON_ERROR_FAIL, STK_EFORMAT, "auto", 0, 0, 0, 16},
        {STK_ON_ERROR_SKIP, STK_EFORMAT, "100%", 0, 16, 0, 0},
        {STK_ON_ERROR_SKIP, STK_EFORMAT, "100%", STK_CACHE_ENCODED, 16, 0, 0},
        {STK_ON_ERROR_SKIP, STK_EFORMAT, "100%", STK_CACHE_DECODED, 16, 0, 0},
        {STK_ON_ERROR_SKIP, STK_EFORMAT, "4", 0, 4, 0, 12},
        /* No memory, a refused engine: never a sample's. */
        {STK_ON_ERROR_SKIP, STK_ENOMEM, "100%", 0, 0, 0, 16},
        {STK_ON_ERROR_SKIP, STK_ENOTSUP, "100%", 0, 0, 0, 16},
        {STK_ON_ERROR_SKIP, STK_EINTERNAL, "100%", 0, 0, 0, 16},
        {STK_ON_ERROR_REPLACE, STK_ESYSTEM, "100%", 0, 0, 0, 16},
        {STK_ON_ERROR_REPLACE, STK_EKIND, "100%", 0, 0, 16, 0},
    };
    char folder[256], path[300], text[4000];
    stk_context *ctx = test_context();
    stk_bad_samples bad = {.struct_size = sizeof bad};
    stk_batch *batch;
    stk_error err;

    test_folder(folder);
    snprintf(path, sizeof path, "%s/q.jsonl", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t workers = 0; workers < 3; workers++) {
            counting_options c = {.size = 160,
                                  .fail_every = 10,
                                  .fail_with = cases[i].fail_with,
                                  .url = "mem://counting"};
            stk_dataset *dataset = counting_open(ctx, &c);
            stk_loader_options o = base_options();
            o.shuffle = STK_SHUFFLE_NONE;
            o.on_error = cases[i].on_error;
            o.max_errors = cases[i].max_errors;
            o.cache = cases[i].cache;
            o.num_workers = workers;
            o.epochs = 1;
            o.quarantine = path;
            stk_loader *loader = open_loader(dataset, &o);
            for (stk_status status = STK_OK; status != STK_EOS;) {
                status = stk_loader_next(loader, -1, &batch, &err);
                if (status == STK_OK)
                    stk_batch_release(&batch);
                else if (status != STK_EOS && status != STK_EBADSAMPLES)
                    assert_int_equal(status, cases[i].fail_with);
            }
            stk_loader_get_bad_samples(loader, &bad);
            /* A substitute may be bad too: at most as many again. */
            const size_t replaced = count_lines(path, "\"action\": \"replace\"", "");
            assert_in_range(replaced, cases[i].replace, 2 * cases[i].replace);
            assert_int_equal(count_lines(path, "\"action\": \"skip\"", ""), cases[i].skip);
            assert_int_equal(count_lines(path, "\"action\": \"fail\"", ""), cases[i].fail);
            assert_int_equal(bad.skipped, cases[i].skip);
            assert_int_equal(bad.replaced, replaced);
            assert_int_equal(bad.failed, cases[i].fail);
            assert_int_equal(bad.samples, bad.skipped + bad.replaced + bad.failed);
            /* Each line has its object and offset. */
            assert_int_equal(count_lines(path, "\"key\": \"data\"", "\"offset\": "), bad.samples);
            assert_int_equal(count_lines(path, "\"offset\": -1", ""), 0);
            assert_int_equal(bad.num_reasons, 1);
            assert_int_equal(bad.reasons[0].samples, bad.samples);
            assert_int_equal(bad.reasons[0].first.sample, 0);
            assert_string_equal(bad.quarantine, path);
            assert_in_range(stk_bad_samples_format(&bad, text, sizeof text), 60, sizeof text);
            assert_non_null(strstr(text, "planted"));
            assert_non_null(strstr(text, path));
            stk_loader_destroy(&loader);
            stk_dataset_close(&dataset);
            unlink(path);
        }
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
}

/* Substitutes are other ones in another epoch, and good ones keep their positions. */
static void substitutes_know_the_epoch(void **state)
{
    counting_options c = {.size = 200, .fail_every = 4, .fail_with = STK_EFORMAT};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &c);
    stk_loader_options o = base_options();
    run r = {0};
    int same = 0, drawn = 0;

    o.shuffle = STK_SHUFFLE_NONE;
    o.on_error = STK_ON_ERROR_REPLACE;
    stk_loader *loader = open_loader(dataset, &o);
    drain(loader, 2, false, &r);
    assert_int_equal(r.n, 400);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(r.rows[i].position, i);
        if (i % 4 == 0) {
            drawn++;
            same += r.rows[i].index == r.rows[200 + i].index;
        } else {
            assert_int_equal(r.rows[i].index, i);
        }
    }
    assert_int_equal(drawn, 50);
    assert_true(same < 5);
    free(r.rows);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* Samples behind a hole keep their positions. */
static void holes_move_no_position(void **state)
{
    counting_options c = {.size = 200, .fail_every = 5, .fail_with = STK_EFORMAT};
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &c);

    for (int64_t workers = 0; workers < 3; workers++) {
        stk_loader_options o = base_options();
        run r = {0};
        o.shuffle = STK_SHUFFLE_NONE;
        o.on_error = STK_ON_ERROR_SKIP;
        o.num_workers = workers;
        stk_loader *loader = open_loader(dataset, &o);
        drain(loader, 1, false, &r);
        assert_int_equal(r.n, 160);
        for (size_t i = 0; i < r.n; i++)
            assert_int_equal(r.rows[i].position, r.rows[i].index);
        free(r.rows);
        stk_loader_destroy(&loader);
    }
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bound_is_a_count_or_a_share),
        cmocka_unit_test(the_default_bound),
        cmocka_unit_test(empty_batches_are_said),
        cmocka_unit_test(the_log_says_what_happened),
        cmocka_unit_test(substitutes_know_the_epoch),
        cmocka_unit_test(holes_move_no_position),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
