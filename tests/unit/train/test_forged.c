/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that somebody else wrote: their states name files, and none of them is touched; their
 * numbers are checked, and none is taken half. */
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hash.h"
#include "checkpoint/safetensors/safetensors.h"
#include "unit/train/said.h"

#define STATE "stoker.callback.model_checkpoint(monitor=,mode=min).state"

typedef struct forgery {
    bench b;
    char dir[300], path[400]; /* checkpoints go to `dir`; the forged one is `path` */
    char url[340];            /* what the callback is told of `dir`; empty: itself */
} forgery;

/* Write the checkpoint `from` anew as `to`, with another text under `key`; NULL: without it. A
 * tensor `key` gets one more dimension, of side 1; with "int32" as the text it is of that type. */
static void forge(bench *b, const char *from, const char *to, const char *key, const char *text)
{
    stk__checkpoint_writer *writer = NULL;
    stk__checkpoint *c = NULL;
    stk__safetensors_file file;
    stk_state_tensor tensors[32];
    stk__checkpoint_text texts[32];
    size_t n = 0, num_tensors;
    bool found = false;

    assert_ok(stk__checkpoint_open(b->ctx, from, &c, &b->err), &b->err);
    assert_ok(stk__safetensors_file_open(b->ctx, from, &file, &b->err), &b->err);
    num_tensors = stk__checkpoint_count(c);
    for (size_t i = 0; i < num_tensors; i++) {
        tensors[i] = *stk__checkpoint_tensor(c, i);
        if (strcmp(tensors[i].name, key) == 0) {
            if (text)
                tensors[i].dtype = STK_INT32;
            else
                tensors[i].shape[tensors[i].rank++] = 1;
            found = true;
        }
    }
    for (size_t i = 0; i < file.parsed.num_texts; i++) {
        texts[n] = file.parsed.texts[i];
        if (strcmp(texts[n].name, STK__CHECKPOINT_LAYOUT) == 0 ||
            strcmp(texts[n].name, STK__CHECKPOINT_HASH) == 0)
            continue;
        if (strcmp(texts[n].name, key) == 0) {
            texts[n].text = text;
            found = true;
            if (!text)
                continue;
        }
        n++;
    }
    assert_true(found);
    assert_ok(stk__checkpoint_writer_create(b->ctx, &writer, &b->err), &b->err);
    assert_ok(
        stk__checkpoint_save(writer, to, tensors, num_tensors, texts, n, NULL, 0, NULL, &b->err),
        &b->err);
    assert_ok(stk__checkpoint_flush(writer, &b->err), &b->err);
    stk__checkpoint_writer_destroy(&writer);
    stk__safetensors_file_close(&file);
    stk__checkpoint_close(&c);
}

static void prepare(bench *b, stk_trainer *t, void *user)
{
    const forgery *f = user;

    add(b, t, &stk__callback_model_checkpoint, "dirpath", *f->url ? f->url : f->dir, NULL);
}

/* A run of one epoch whose checkpoint can be forged. */
static void set_up(forgery *f, char best[400])
{
    stk_trainer *t;
    tiny m;

    bench_open(&f->b);
    snprintf(f->dir, sizeof f->dir, "%s/kept", f->b.folder);
    *f->url = 0;
    snprintf(f->path, sizeof f->path, "%s/forged.safetensors", f->b.folder);
    f->b.options.enable_checkpointing = STK_SWITCH_TRUE;
    f->b.prepare = prepare;
    f->b.user = f;
    tiny_init(&m);
    assert_ok(bench_fit(&f->b, &m, NULL, &t), &f->b.err);
    snprintf(best, 400, "%s", stk_trainer_best_model_path(t));
    stk_trainer_destroy(&t);
}

/* The best of the run so far, under a name that no run takes. */
static void put_aside(const forgery *f, const char *best, char honest[400])
{
    snprintf(honest, 400, "%s/honest.safetensors", f->b.folder);
    assert_int_equal(rename(best, honest), 0);
}

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* `best` and `kept` of a forged state lead to a file: is it there after another epoch? */
static bool survives(forgery *f, const char *honest, const char *dirpath, const char *named,
                     const char *victim)
{
    char text[4096];
    stk_trainer *t;
    tiny m;

    snprintf(text, sizeof text,
             "dirpath %s\nbest_model_path %s\nlast_model_path %s\nown 0\nlast_step_saved 10\n"
             "best_model_score 3ff0000000000000\ncurrent_score 3ff0000000000000\n"
             "kept 3ff0000000000000 %s\n",
             dirpath, named, named, named);
    forge(&f->b, honest, f->path, STATE, text);
    assert_true(there(victim));
    tiny_init(&m);
    f->b.options.max_epochs = 2;
    assert_ok(bench_fit(&f->b, &m, f->path, &t), &f->b.err);
    stk_trainer_destroy(&t);
    return there(victim);
}

static void files_of_others(void **state)
{
    forgery f;
    char best[400], honest[400], victim[400], named[800], link[400], inside[400];

    set_up(&f, best);
    put_aside(&f, best, honest);
    snprintf(victim, sizeof victim, "%s/victim.txt", f.b.folder);
    test_write(f.b.folder, "victim.txt", "mine", 4);
    assert_true(survives(&f, honest, f.dir, victim, victim));
    assert_true(survives(&f, honest, "", victim, victim));
    assert_true(survives(&f, honest, f.b.folder, victim, victim));
    snprintf(named, sizeof named, "%s/../victim.txt", f.dir);
    assert_true(survives(&f, honest, f.dir, named, victim));
    /* A checkpoint elsewhere, and by way of a link. */
    snprintf(named, sizeof named, "%s/../honest.safetensors", f.dir);
    assert_true(survives(&f, honest, f.dir, named, honest));
    snprintf(link, sizeof link, "%s/link.safetensors", f.dir);
    assert_int_equal(symlink("../honest.safetensors", link), 0);
    assert_true(survives(&f, honest, f.dir, link, link));
    assert_true(there(honest));
    /* In a folder beside it whose name is as long. */
    snprintf(inside, sizeof inside, "%s/kep2/own.safetensors", f.b.folder);
    forge(&f.b, honest, inside, "stoker.loops", "x 1\n");
    assert_true(survives(&f, honest, f.dir, inside, inside));
    /* In the folder itself, but no checkpoint of such a run. */
    snprintf(inside, sizeof inside, "%s/notes.txt", f.dir);
    test_write(f.dir, "notes.txt", "mine", 4);
    assert_true(survives(&f, honest, f.dir, inside, inside));
    snprintf(inside, sizeof inside, "%s/other.safetensors", f.dir);
    forge(&f.b, honest, inside, STATE, "dirpath /elsewhere\n");
    assert_true(survives(&f, honest, f.dir, inside, inside));
    /* One that such a run has put there is removed: the test would see it. */
    snprintf(inside, sizeof inside, "%s/own.safetensors", f.dir);
    forge(&f.b, honest, inside, "stoker.loops", "x 1\n");
    assert_false(survives(&f, honest, f.dir, inside, inside));
    bench_close(&f.b);
}

/* The same of a folder of another store, whose URL has a query. */
static void files_elsewhere(void **state)
{
    static const struct {
        const char *head, *name, *query;
        bool own;
    } rows[] = {
        {"slow+file:", "kept/own.safetensors", "?latency=0", true},
        {"slow+file:", "kept/a%25b.safetensors", "?latency=0", true},
        {"slow+file:", "kept/own.safetensors", "", false},
        {"slow+", "kept/own.safetensors", "?latency=0", false},
        {"", "kept/own.safetensors", "", false},
        {"slow+file:", "kept/../own.safetensors", "?latency=0", false},
        {"slow+file:", "kept/%2e%2e%2fown.safetensors", "?latency=0", false},
        {"slow+file:", "kept/ow%6e.safetensors", "?latency=0", false},
        {"slow+file:", "kept/inner/own.safetensors", "?latency=0", false},
        {"slow+file:", "kept/none.safetensors", "?latency=0", false},
    };
    static const char *const files[] = {"own", "kept/own", "kept/a%b", "kept/inner/own"};
    char best[400], honest[400], victim[4][400], named[800];
    forgery f;

    set_up(&f, best);
    snprintf(f.url, sizeof f.url, "slow+file:%s?latency=0", f.dir);
    put_aside(&f, best, honest);
    for (size_t i = 0; i < STK_COUNT(rows); i++) {
        for (size_t k = 0; k < STK_COUNT(files); k++) {
            char text[500];
            snprintf(victim[k], sizeof victim[k], "%s/%s.safetensors", f.b.folder, files[k]);
            snprintf(text, sizeof text, "dirpath %s\n", f.url);
            forge(&f.b, honest, victim[k], STATE, text);
        }
        snprintf(named, sizeof named, "%s%s/%s%s", rows[i].head, f.b.folder, rows[i].name,
                 rows[i].query);
        const bool second = strstr(named, "%25") != NULL;
        assert_int_equal(survives(&f, honest, f.url, named, victim[second ? 2 : 1]), !rows[i].own);
        assert_true(there(victim[0]) && there(victim[3]));
    }
    bench_close(&f.b);
}

/* Each text of a state, damaged: refused with the name of the checkpoint, and nothing crashes. */
static void damaged_states(void **state)
{
    static const char *const texts[][3] = {
        {"stoker.loops", "version 1\n", "missing"},
        {"stoker.loops", "version 1\nepoch -1\n", "none at \"epoch -1\""},
        {"stoker.loader", NULL, "lacks a sound 'loader'"},
        {"stoker.loops", "slot 1 2 x\n", "metrics of the checkpoint cannot be read"},
        {"stoker.loops", "value 1 3ff0000000000000\n", "metrics of the checkpoint"},
        {"stoker.loops", "slot 999 1 0000000000000000 0000000000000000 0000000000000000 a\n",
         "metrics of the checkpoint"},
        {STATE, "dirpath x\n", "missing"},
        {STATE, "kept zz\n", "a score that is none"},
        {STATE, "best_model_score 1.5\n", "none at"},
        {STATE, "last_step_saved 18446744073709551616\n", "none at"},
    };
    forgery f;
    char best[400];
    stk_trainer *t;
    tiny m;

    set_up(&f, best);
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        forge(&f.b, best, f.path, texts[i][0], texts[i][1]);
        tiny_init(&m);
        f.b.options.max_epochs = 2;
        assert_fails(bench_fit(&f.b, &m, f.path, &t), STK_EFORMAT, &f.b.err, texts[i][2]);
        assert_non_null(strstr(f.b.err.text, f.path));
        stk_trainer_destroy(&t);
    }
    bench_close(&f.b);
}

/* What is wrong with a checkpoint of which every part is sound. */
static void contradictions(void **state)
{
    enum { MANY = 20000 };
    stk__checkpoint *c = NULL;
    stk_loader_state at;
    char best[400], honest[400], text[512];
    forgery f;
    stk_trainer *t;
    tiny m;

    set_up(&f, best);
    /* The next epoch's takes the place of the best. */
    put_aside(&f, best, honest);
    f.b.options.max_epochs = 2;
    assert_ok(stk__checkpoint_open(f.b.ctx, honest, &c, &f.b.err), &f.b.err);
    assert_ok(stk_loader_state_parse(stk__checkpoint_find_text(c, "stoker.loader"), &at, &f.b.err),
              &f.b.err);
    /* The loader is at another batch than the loops, or in another epoch. */
    for (int i = 0; i < 3; i++) {
        stk_loader_state other = at;
        other.step -= i == 1;
        other.epoch += i == 2;
        stk_loader_state_format(&other, text, sizeof text);
        forge(&f.b, honest, f.path, "stoker.loader", text);
        tiny_init(&m);
        const stk_status status = bench_fit(&f.b, &m, f.path, &t);
        if (i == 0)
            assert_ok(status, &f.b.err);
        else
            assert_fails(status, STK_EFORMAT, &f.b.err, "lacks a sound 'loader'");
        stk_trainer_destroy(&t);
    }
    /* More names than anybody logs: each is compared with all others. */
    stk__text loops = {.ctx = f.b.ctx};
    stk__text_add(&loops, "%s", stk__checkpoint_find_text(c, "stoker.loops"));
    for (int i = 0; i < MANY; i++)
        stk__text_add(&loops, "value 0 3ff0000000000000 m%d\n", i);
    forge(&f.b, honest, f.path, "stoker.loops", loops.bytes);
    stk__text_release(&loops);
    stk__checkpoint_close(&c);
    tiny_init(&m);
    assert_fails(bench_fit(&f.b, &m, f.path, &t), STK_ELIMIT, &f.b.err, "MAX_METRICS");
    stk_trainer_destroy(&t);
    bench_close(&f.b);
}

/* Between two epochs the loops alone say where it is, and the loader which samples come. */
static void between_epochs(void **state)
{
    static const char within[] = "epoch 0\ndone 10\n";
    stk__checkpoint *c = NULL;
    char best[400], between[400];
    forgery f;
    stk_trainer *t;
    tiny m;

    set_up(&f, best);
    f.b.options.max_epochs = 2;
    assert_ok(stk__checkpoint_open(f.b.ctx, best, &c, &f.b.err), &f.b.err);
    const char *loops = stk__checkpoint_find_text(c, "stoker.loops"), *at = strstr(loops, within);
    assert_non_null(at);
    stk__text text = {.ctx = f.b.ctx};
    stk__text_add(&text, "%.*sepoch 1\ndone 0\n%s", (int)(at - loops), loops, at + strlen(within));
    stk__checkpoint_close(&c);
    snprintf(between, sizeof between, "%s/between.safetensors", f.b.folder);
    forge(&f.b, best, between, "stoker.loops", text.bytes);
    stk__text_release(&text);
    forge(&f.b, between, f.path, "stoker.loader", NULL);
    tiny_init(&m);
    assert_fails(bench_fit(&f.b, &m, f.path, &t), STK_EFORMAT, &f.b.err, "lacks a sound 'loader'");
    stk_trainer_destroy(&t);
    tiny_init(&m);
    assert_ok(bench_fit(&f.b, &m, between, &t), &f.b.err);
    stk_trainer_destroy(&t);
    bench_close(&f.b);
}

static bool set_option(stk_module *module, uint32_t group, const char *name, double value)
{
    ((tiny *)module)->lr = (float)value;
    return true;
}

/* A run of one epoch with what `prepare_it` adds; the next one goes on from a forged checkpoint. */
static void set_up_with(forgery *f, void (*prepare_it)(bench *, stk_trainer *, void *),
                        char honest[400])
{
    char best[400];
    stk_trainer *t;
    tiny m;

    set_up(f, best);
    f->b.prepare = prepare_it;
    tiny_init(&m);
    m.ops.set_option = set_option;
    assert_ok(bench_fit(&f->b, &m, NULL, &t), &f->b.err);
    put_aside(f, stk_trainer_best_model_path(t), honest);
    assert_int_equal(stk_trainer_global_step(t), 10);
    stk_trainer_destroy(&t);
    f->b.options.max_epochs = 2;
}

static void prepare_mean(bench *b, stk_trainer *t, void *user)
{
    prepare(b, t, user);
    add(b, t, &stk__callback_ema, NULL);
}

/* Means of steps that the run has not come to, of another shape, and of another type. */
static void means(void **state)
{
    static const struct {
        const char *key, *text;
        stk_status status;
        const char *why;
    } cases[] = {
        {"stoker.callback.ema.state", "latest 10\nupdates 10\ncut 0\n", STK_OK, NULL},
        {"stoker.callback.ema.state", "latest 11\nupdates 10\ncut 0\n", STK_EFORMAT, "of step 11"},
        {"stoker.callback.ema.state", "latest 11\nupdates 0\ncut 0\n", STK_EFORMAT, "of step 11"},
        {"stoker.callback.ema.layer.weight", NULL, STK_EMISMATCH, "no fitting"},
        {"stoker.callback.ema.layer.weight", "int32", STK_EMISMATCH, "no fitting"}};
    forgery f;
    char honest[400];
    stk_trainer *t;
    tiny m;

    set_up_with(&f, prepare_mean, honest);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        forge(&f.b, honest, f.path, cases[i].key, cases[i].text);
        tiny_init(&m);
        const stk_status status = bench_fit(&f.b, &m, f.path, &t);
        if (cases[i].status == STK_OK)
            assert_ok(status, &f.b.err);
        else
            assert_fails(status, cases[i].status, &f.b.err, cases[i].why);
        stk_trainer_destroy(&t);
    }
    bench_close(&f.b);
}

/* The best of the newest run has a plain name in its folder, or lies in that of another run. */
static void best_elsewhere(void **state)
{
    forgery f;
    char best[400], honest[400];
    stk_trainer *t;
    tiny m;

    set_up(&f, best);
    put_aside(&f, best, honest);
    /* From the folder of all runs on, which is the one above, a folder of a run is named. */
    static const char *const told[] = {NULL,
                                       "../honest.safetensors",
                                       "../a/honest.safetensors",
                                       "a/../honest.safetensors",
                                       "a/b/c/honest.safetensors",
                                       "a/b/.."};
    for (size_t i = 0; i < STK_COUNT(told); i++) {
        forge(&f.b, honest, best, "stoker.best", i ? told[i] : strrchr(best, '/') + 1);
        tiny_init(&m);
        assert_ok(stk_trainer_create(f.b.ctx, &f.b.options, &t, &f.b.err), &f.b.err);
        prepare(&f.b, t, &f);
        if (i)
            assert_fails(stk_trainer_validate(t, &m.base, &f.b.data, "best", &f.b.err), STK_ENOENT,
                         &f.b.err, "does not say which one is the best");
        else
            assert_ok(stk_trainer_validate(t, &m.base, &f.b.data, "best", &f.b.err), &f.b.err);
        stk_trainer_destroy(&t);
    }
    bench_close(&f.b);
}

static void prepare_timer(bench *b, stk_trainer *t, void *user)
{
    prepare(b, t, user);
    add(b, t, &stk__callback_timer, "duration", "00:01:00:00", "verbose", "false", NULL);
}

/* Time that earlier runs have trained counts: where it is all used up nothing is trained. */
static void time_used_up(void **state)
{
    static const char *const elapsed[] = {"elapsed_ns 3599000000000\n",
                                          "elapsed_ns 3600000000000\n"};
    forgery f;
    char honest[400];
    stk_trainer *t;
    tiny m;

    set_up_with(&f, prepare_timer, honest);
    for (size_t i = 0; i < STK_COUNT(elapsed); i++) {
        forge(&f.b, honest, f.path, "stoker.callback.timer.state", elapsed[i]);
        tiny_init(&m);
        assert_ok(bench_fit(&f.b, &m, f.path, &t), &f.b.err);
        assert_int_equal(m.train_steps, i ? 0 : 10);
        stk_trainer_destroy(&t);
    }
    bench_close(&f.b);
}

static void prepare_search(bench *b, stk_trainer *t, void *user)
{
    prepare(b, t, user);
    add(b, t, &stk__callback_lr_find, "num_training", "5", NULL);
}

/* A rate that no search finds is refused, as one that is given is. */
static void rates(void **state)
{
    static const struct {
        const char *text;
        stk_status status;
    } cases[] = {{"found 3f50624dd2f1a9fc\ngroups 1\n", STK_OK},
                 {"found bf50624dd2f1a9fc\ngroups 1\n", STK_EFORMAT},
                 {"found 0000000000000000\ngroups 1\n", STK_EFORMAT},
                 {"found 7ff0000000000000\ngroups 1\n", STK_EFORMAT}};
    forgery f;
    char honest[400];
    stk_trainer *t;
    tiny m;

    set_up_with(&f, prepare_search, honest);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        forge(&f.b, honest, f.path, "stoker.callback.lr_find.state", cases[i].text);
        tiny_init(&m);
        m.ops.set_option = set_option;
        if (cases[i].status == STK_OK)
            assert_ok(bench_fit(&f.b, &m, f.path, &t), &f.b.err);
        else
            assert_fails(bench_fit(&f.b, &m, f.path, &t), cases[i].status, &f.b.err,
                         "a rate that is none");
        assert_true(cases[i].status != STK_OK || m.lr == 0.001f);
        stk_trainer_destroy(&t);
    }
    bench_close(&f.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_of_others),
                                       cmocka_unit_test(files_elsewhere),
                                       cmocka_unit_test(best_elsewhere),
                                       cmocka_unit_test(time_used_up),
                                       cmocka_unit_test(damaged_states),
                                       cmocka_unit_test(rates),
                                       cmocka_unit_test(contradictions),
                                       cmocka_unit_test(between_epochs),
                                       cmocka_unit_test(means)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
