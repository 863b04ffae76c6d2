/* SPDX-License-Identifier: Apache-2.0 */
/* By zero_3 the parameters of the next layer are brought, and gradients sent, while one computes:
 * with the bits of ddp, in one order of calls on all ranks, however long each takes, and with no
 * more in memory than that layer and the next one need. */
#include "nn/nn.h"
#include "unit/dist/network.h"
#include "unit/train/ahead.h"

/* ---- What happens in between ----------------------------------------------------------------- */

static _Thread_local watched *watched_here; /* of the trainer's thread */

static watched *watched_of(const stk_trainer *t)
{
    return &ranks_seen[t->ranks.strategy.rank];
}

/* Parameters of its last layer before its first: those are in another bucket. */
static stk_status ask_oddly(stk_module *module, stk_trainer *t, stk_error *err)
{
    stk_state_tensor last = {0}, next;
    stk_model *model = stk_model_module_model(module);

    for (size_t i = 0; stk_model_get_state(model, i, &next, err) == STK_OK; i++)
        last = next;
    return stk_trainer_parameters_wanted(t, &last, 1, err);
}

static stk_status watched_step(stk_module *module, stk_trainer *t, const stk_moment *at,
                               stk_loss *loss, stk_error *err)
{
    watched *w = watched_of(t);
    const bool first = w->inner.rank == 1;

    w->steps++;
    if (script.odd_at == w->steps && (first || !script.alone))
        STK_TRY(ask_oddly(module, t, err));
    STK_TRY(w->training_step(module, t, at, loss, err));
    loss->skip |= first && script.skip_at == w->steps;
    if (first && script.fail_at == w->steps)
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "rank 1 fails on purpose");
    if (first && script.stop_at == w->steps)
        stk_trainer_stop(t);
    return STK_OK;
}

static stk_status watched_backward(stk_module *module, const stk_loss *loss, double scale,
                                   stk_error *err)
{
    watched *w = watched_here;

    STK_TRY(w->backward(module, loss, scale, err));
    return script.late_at == w->steps ? ask_oddly(module, w->t, err) : STK_OK;
}

static stk_status watch_setup(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                              stk_error *err)
{
    watched *w = watched_of(t);

    t->ranks.later = script.later;
    w->t = t;
    w->training_step = t->ops.training_step;
    t->ops.training_step = watched_step;
    w->backward = t->ops.backward;
    t->ops.backward = watched_backward;
    watched_here = w;
    return STK_OK;
}

static stk_status watch_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                              stk_error *err)
{
    stk_model_set_probe(stk_model_module_model(at->module), script.probe, watched_of(t));
    return STK_OK;
}

/* Calls of the trainer's own, while the forward pass may have left some under way. */
static stk_status watch_between(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                stk_error *err)
{
    double one = 1;
    char path[512];

    if (!script.speaks)
        return STK_OK;
    STK_TRY(stk_trainer_reduce(t, &one, 1, STK_COMBINE_SUM, err));
    assert_true(one == (double)t->ranks.strategy.world_size);
    snprintf(path, sizeof path, WITHIN, stk_trainer_get_options(t)->default_root_dir);
    return stk_trainer_save(t, path, true, NULL, err);
}

static stk_status watch_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err);

static const stk_callback_ops watcher = {.struct_size = sizeof watcher,
                                         .name = "watcher",
                                         .doc = "sees calls and buckets",
                                         .create = watch_create,
                                         .destroy = gate_destroy,
                                         .roles = STK_ROLE_NO_METRICS,
                                         .setup = watch_setup,
                                         .on_train_start = watch_start,
                                         .on_before_backward = watch_between};

static stk_status watch_create(stk_context *ctx, const void *options, stk_callback **out,
                               stk_error *err)
{
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (stk_callback){&watcher, ctx};
    return STK_OK;
}

/* Weights are buckets of their own, and biases between them: a layer has two buckets. */
static const char deep[] = "flatten, linear(256), relu, linear(256), relu, linear(256), relu, "
                           "linear(256), relu, linear(10)";

enum { LAYERS = 5, LATER = 40 << 10, STEPS_OF_EPOCH = 4 };

static void an_epoch(one *o)
{
    o->b.options.max_epochs = 1;
    o->b.options.enable_checkpointing = STK_SWITCH_FALSE;
}

static void two_epochs(one *o)
{
    o->b.options.enable_checkpointing = STK_SWITCH_FALSE;
}

/* ---- What is there --------------------------------------------------------------------------- */

/* Buckets of a linear layer of the model: its weight and bias. */
static stk__bucket_range buckets_of(const watched *w, stk_model *model, size_t layer)
{
    const stk__shards *s = &w->t->ranks.shards;
    stk__bucket_range found = {s->num_buckets, 0};
    stk_state_tensor tensor;

    for (size_t k = 2 * layer; k < 2 * layer + 2; k++) {
        assert_int_equal(stk_model_get_state(model, k, &tensor, NULL), STK_OK);
        for (size_t b = 0; b < s->num_buckets; b++)
            for (size_t i = 0; i < s->buckets[b].n; i++)
                if (s->parameters[s->buckets[b].first + i].data == tensor.data)
                    found = (stk__bucket_range){STK_MIN(found.first, b), STK_MAX(found.last, b)};
    }
    assert_true(found.first <= found.last);
    return found;
}

static bool has(stk__bucket_range range, size_t bucket)
{
    return range.first <= bucket && bucket <= range.last;
}

/* The place of a layer in a step: forward, and then backward. */
static size_t layer_at(size_t place)
{
    return place < LAYERS ? place : 2 * LAYERS - 1 - place;
}

/* Buckets of the first layer behind `place` that wants others than the one before it. */
static stk__bucket_range wanted_next(const watched *w, stk_model *model, size_t place)
{
    stk__bucket_range before = buckets_of(w, model, layer_at(place));

    while (++place < 2 * LAYERS) {
        const stk__bucket_range range = buckets_of(w, model, layer_at(place));
        if (!has(before, range.first) || !has(before, range.last))
            return range;
        before = range;
    }
    return (stk__bucket_range){1, 0};
}

/* Bytes of the buckets in either range; of all with {0, SIZE_MAX}. */
static uint64_t bytes_in(const stk__shards *s, stk__bucket_range a, stk__bucket_range b)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->num_buckets; i++)
        sum += has(a, i) || has(b, i) ? s->buckets[i].bytes : 0;
    return sum;
}

/* Own parts, and what the others have of `whole` bytes; pages that are of several count whole. */
static void assert_no_more(const watched *w, uint64_t there, uint64_t whole)
{
    const stk__shards *s = &w->t->ranks.shards;
    const uint64_t world = w->inner.world_size;
    const uint64_t all = bytes_in(s, (stk__bucket_range){0, SIZE_MAX}, (stk__bucket_range){1, 0});
    const uint64_t pages = 4 * (uint64_t)sysconf(_SC_PAGESIZE) * s->num_pieces;
    const uint64_t most = all / world + whole - whole / world + pages;

    assert_true(all > most); /* else this says nothing */
    if (there > most)
        fail_msg("%d bytes are there, not %d at most", (int)there, (int)most);
}

static void look_at_memory(const watched *w, stk__bucket_range hand, stk__bucket_range next,
                           stk__bucket_range before)
{
    const stk__shards *s = &w->t->ranks.shards;
    stk_model *model = stk_model_module_model(w->t->module);
    uint64_t parameters = 0, gradients = 0;
    stk_state_tensor tensor;

    for (size_t i = 0; stk_model_get_state(model, i, &tensor, NULL) == STK_OK; i++) {
        parameters += resident(tensor.data, tensor.bytes);
        assert_int_equal(stk__model_get_gradient(model, i, &tensor, NULL), STK_OK);
        gradients += resident(tensor.data, tensor.bytes);
    }
    assert_no_more(w, parameters, bytes_in(s, hand, next));
    assert_no_more(w, gradients, before.last < before.first ? 0 : bytes_in(s, hand, before));
}

static void dawdle(void *user, size_t number, bool backward, uint64_t start_ns, uint64_t end_ns,
                   uint64_t flops, uint64_t bytes)
{
    watched *w = user;

    if (script.slow && w->inner.rank == 0)
        take_time(w);
}

/* Behind each layer: its buckets are there and the next one's, and no other. */
static void look(void *user, size_t number, bool backward, uint64_t start_ns, uint64_t end_ns,
                 uint64_t flops, uint64_t bytes)
{
    const stk__bucket_range none = {1, 0};
    watched *w = user;
    const stk__shards *s = &w->t->ranks.shards;
    stk_model *model = stk_model_module_model(w->t->module);
    const size_t layer = number / 2; /* flatten, and then each with its relu */

    dawdle(user, number, backward, start_ns, end_ns, flops, bytes);
    if (number % 2 == 0 || s->held || !s->parted)
        return;
    const size_t place = backward ? 2 * LAYERS - 1 - layer : layer;
    const bool ahead = w->inner.any_thread && w->steps > 1;
    const stk__bucket_range hand = buckets_of(w, model, layer);
    const stk__bucket_range next = ahead ? wanted_next(w, model, place) : none;
    for (size_t b = 0; b < s->num_buckets; b++)
        if (s->present[b] != (has(hand, b) || has(next, b)))
            fail_msg("step %d, layer %d %s: bucket %d is %s", (int)w->steps, (int)layer,
                     backward ? "backward" : "forward", (int)b, s->present[b] ? "there" : "not");
    const stk__bucket_range before = !backward            ? none
                                     : layer + 1 < LAYERS ? buckets_of(w, model, layer + 1)
                                                          : hand;
    look_at_memory(w, hand, next, before);
}

static one like_deep(change_fn *change)
{
    return (one){.strategy = "zero_3",
                 .layers = deep,
                 .folder = "/proc/nonexistent",
                 .callback = &watcher,
                 .change = change,
                 .join = join_watched};
}

static void the_next_one_and_no_more(void **state)
{
    const one like = like_deep(two_epochs);

    for (uint64_t world = 2; world <= 3; world++)
        for (int thread = 0; thread < 2; thread++) {
            one of_thread = like;
            of_thread.self.one_thread = !thread;
            script = (watching){.later = LATER, .probe = look, .slow = true};
            run_watched(all_ranks, world, &of_thread);
            for (uint64_t r = 0; r < world; r++) {
                assert_ok(all_ranks[r].status, &all_ranks[r].b.err);
                assert_int_equal(all_ranks[r].hash, all_ranks[0].hash);
                assert_int_equal(ranks_seen[r].steps, EPOCHS * STEPS_OF_EPOCH);
                assert_int_equal(ranks_seen[r].away > 0, thread);
            }
        }
}

/* ---- One order ------------------------------------------------------------------------------- */

/* Calls for buckets, which do not depend on how long data were waited for. */
static size_t of_buckets(const watched *w, seen_call *out)
{
    size_t n = 0;

    for (size_t i = 0; i < w->num_calls; i++)
        if (w->calls[i].kind == 'g' || w->calls[i].kind == 's')
            out[n++] = w->calls[i];
    return n;
}

static void assert_same_calls(const seen_call *a, size_t n, const seen_call *b, size_t m)
{
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        if (a[i].kind != b[i].kind || a[i].count != b[i].count || a[i].away != b[i].away)
            fail_msg("call %d: %c of %d, and %c of %d", (int)i, a[i].kind, (int)a[i].count,
                     b[i].kind, (int)b[i].count);
}

static void count_calls(const watched *w, uint64_t counts[2])
{
    counts[0] = counts[1] = 0;
    for (size_t i = 0; i < w->num_calls; i++)
        if (w->calls[i].away)
            counts[w->calls[i].kind == 's']++;
}

/* Whoever is slow: the same calls on all ranks, one after the other, and in every run. */
static void the_order_is_one(void **state)
{
    static seen_call first[MAX_CALLS], now[MAX_CALLS];
    const one like = like_deep(an_epoch);
    const uint64_t buckets = 2 * LAYERS - 2; /* the last layer is in that of a bias */
    uint64_t counts[2];
    size_t n = 0;

    for (uint64_t world = 2; world <= 3; world++)
        for (int run = 0; run < 3; run++) {
            script = (watching){
                .later = LATER, .late_at = 1, .slow = run > 0, .probe = run > 1 ? dawdle : NULL};
            run_watched(all_ranks, world, &like);
            for (uint64_t r = 0; r < world; r++) {
                assert_ok(all_ranks[r].status, &all_ranks[r].b.err);
                assert_same_calls(ranks_seen[0].calls, ranks_seen[0].num_calls, ranks_seen[r].calls,
                                  ranks_seen[r].num_calls);
            }
            if (run == 0)
                n = of_buckets(&ranks_seen[0], first);
            else
                assert_same_calls(first, n, now, of_buckets(&ranks_seen[0], now));
            /* Each once forward and once backward, but for what is there at the turn: the bucket of
             * the last layer, and from the second step on that of the one before it. One is asked
             * for once more in the first step, and so in the next. */
            count_calls(&ranks_seen[0], counts);
            assert_int_equal(counts[0], STEPS_OF_EPOCH * (2 * buckets - 2) + 1 + 2);
            assert_int_equal(counts[1], STEPS_OF_EPOCH * buckets);
        }
}

/* Of a layer, gradients are sent as soon as it has made the last of a bucket: before those behind
 * the next layer are brought. Buckets are {4, 3}, {2}, {1} and {0}. */
static void the_order_of_a_step(void **state)
{
    static const seen_call wanted[] = {{'g', true, 784 * 256},    {'g', true, 65536},
                                       {'g', true, 65536},        {'g', true, 65536 + 2560},
                                       {'s', true, 65536 + 2560}, {'g', true, 65536},
                                       {'s', true, 65536},        {'g', true, 784 * 256},
                                       {'s', true, 65536},        {'s', true, 784 * 256}};
    one like = like_deep(an_epoch);
    seen_call beside[MAX_CALLS];
    size_t n = 0;

    like.layers = "flatten, linear(256, bias=false), relu, linear(256, bias=false), relu, "
                  "linear(256, bias=false), relu, linear(256, bias=false), relu, "
                  "linear(10, bias=false)";
    script = (watching){.later = 300000};
    run_watched(all_ranks, 2, &like);
    for (size_t i = 0; i < ranks_seen[0].num_calls; i++)
        if (ranks_seen[0].calls[i].away)
            beside[n++] = ranks_seen[0].calls[i];
    assert_true(n > STK_COUNT(wanted));
    assert_same_calls(wanted, STK_COUNT(wanted), beside + n - STK_COUNT(wanted), STK_COUNT(wanted));
}

/* ---- Bits ------------------------------------------------------------------------------------ */

/* A weight that is larger than a bucket of this test, and small ones with gaps between them. */
static const char small[] = "conv2d(3, 3), batch_norm2d, relu, flatten, linear(21), relu, "
                            "linear(10)";

static void train_watched(char saved[512], uint64_t world, const char *strategy, const char *layers,
                          const char *folder, const char *ckpt_path, change_fn *change)
{
    const one like = {.strategy = strategy,
                      .layers = layers,
                      .folder = folder,
                      .ckpt_path = ckpt_path,
                      .change = change,
                      .callback = &watcher,
                      .join = join_watched};

    run_watched(all_ranks, world, &like);
    if (ckpt_path == NULL && script.stop_at)
        return;
    assert_run(all_ranks);
    snprintf(saved, 512, "%s", all_ranks[0].saved);
}

static void as_by_ddp(uint64_t world, const char *layers, change_fn *change)
{
    char folders[2][256], saved[2][512];

    for (int i = 0; i < 2; i++) {
        test_folder(folders[i]);
        train_watched(saved[i], world, i ? "zero_3" : "ddp", layers, folders[i], NULL, change);
    }
    assert_same_checkpoints(saved[0], saved[1]);
    for (int i = 0; i < 2; i++)
        test_folder_remove(folders[i]);
}

/* A validation after each batch, a batch that is left out, ranks that speak between the passes. */
static void much_between(one *o)
{
    clips(o);
    o->b.options.val_check_interval = "1";
}

static void synchronous(one *o)
{
    clips(o);
    o->b.options.sync_batchnorm = o->world > 1;
}

static void accumulates(one *o)
{
    clips(o);
    o->b.options.accumulate_grad_batches = 2;
}

static void two_batches(one *o)
{
    o->b.options.max_epochs = 1;
    o->b.options.limit_train_batches = "2";
}

static void squeezed(one *o)
{
    two_batches(o);
    o->b.options.gradient_compression = STK_GRADIENTS_BF16;
}

static void the_same_bits(void **state)
{
    /* In pieces, and more than is sent side by side at a time. */
    static const char wide[] = "flatten, linear(1003), relu, linear(301), relu, linear(10)";

    for (uint64_t world = 2; world <= 3; world++) {
        script =
            (watching){.later = 16 << 10, .skip_at = 3, .odd_at = 5, .speaks = true, .slow = true};
        as_by_ddp(world, small, much_between);
        script = (watching){.later = 16 << 10, .slow = true};
        as_by_ddp(world, small, synchronous);
        as_by_ddp(world, small, accumulates);
    }
    script = (watching){.later = STK__BUCKET};
    as_by_ddp(3, wide, two_batches);
    for (int r = 0; r < 3; r++)
        assert_in_range(all_ranks[r].aside, (4 << 20) - 64, 4 << 20);
    as_by_ddp(2, wide, squeezed);
}

/* More gradients are complete, by ddp and by zero_2, than may wait to be sent. */
static void many_at_a_time(void **state)
{
    enum { MANY = 100 };
    char layers[MANY * 20] = "flatten", folders[3][256], saved[3][512];
    static const char *const strategies[] = {"ddp", "zero_2", "zero_3"};

    for (int i = 0; i < MANY; i++)
        strcat(layers, ", linear(5)"); /* NOLINT: there is room */
    strcat(layers, ", linear(10)");    /* NOLINT */
    script = (watching){.later = 64, .slow = true};
    for (size_t i = 0; i < STK_COUNT(strategies); i++) {
        test_folder(folders[i]);
        train_watched(saved[i], 2, strategies[i], layers, folders[i], NULL, two_batches);
        assert_same_checkpoints(saved[0], saved[i]);
    }
    for (size_t i = 0; i < STK_COUNT(strategies); i++)
        test_folder_remove(folders[i]);
}

/* Stopped after a step, it goes on to what ddp comes to. */
static void a_stop_is_none(void **state)
{
    char folders[2][256], saved[2][512], path[600];

    for (uint64_t world = 2; world <= 3; world++) {
        test_folder(folders[0]);
        script = (watching){.later = LATER};
        train_watched(saved[0], world, "ddp", small, folders[0], NULL, clips);
        test_folder(folders[1]);
        script.stop_at = 3;
        train_watched(saved[1], world, "zero_3", small, folders[1], NULL, clips);
        for (uint64_t r = 0; r < world; r++) {
            assert_int_equal(all_ranks[r].status, STK_ECANCELED);
            assert_int_equal(ranks_seen[r].steps, 3);
        }
        script.stop_at = 0;
        snprintf(path, sizeof path, "%s/checkpoints/interrupted.safetensors", folders[1]);
        train_watched(saved[1], world, "zero_3", small, folders[1], path, clips);
        assert_same_checkpoints(saved[0], saved[1]);
        for (int i = 0; i < 2; i++)
            test_folder_remove(folders[i]);
    }
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

/* Any call beside the trainer's thread: the failure is told, and nobody waits for ever. */
static void failures_are_told(void **state)
{
    const one like = like_deep(an_epoch);

    for (uint64_t world = 2; world <= 3; world++)
        for (uint64_t n = 1; n < 46; n += 3 * world + 1) {
            script = (watching){.later = LATER, .fails_call = n};
            run_watched(all_ranks, world, &like);
            assert_fails(all_ranks[1].status, STK_EIO, &all_ranks[1].b.err, "fails on purpose");
            assert_int_equal(ranks_seen[1].away, n);
            for (uint64_t r = 0; r < world; r += 2)
                assert_fails(all_ranks[r].status, STK_EIO, &all_ranks[r].b.err,
                             "another rank is gone");
        }
    script = (watching){.later = LATER, .fail_at = 2};
    run_watched(all_ranks, 3, &like);
    assert_fails(all_ranks[1].status, STK_EIO, &all_ranks[1].b.err, "rank 1 fails on purpose");
    for (int r = 0; r < 3; r += 2)
        assert_fails(all_ranks[r].status, STK_EIO, &all_ranks[r].b.err, "another rank is gone");
}

/* Over the calls of an MPI, which are told apart. */
static network net;
static struct {
    network_end end;
    stk_collectives *c;
} places[MAX_RANKS];

static void join_network(one *o, stk_strategy *strategy)
{
    const uint64_t r = o->self.number;
    stk_collectives_options options;

    stk_collectives_options_init(&options);
    options.collective_timeout = 20;
    places[r].end = (network_end){&net, r};
    network_self = &places[r].end;
    assert_ok(stk__collectives_join(o->b.ctx, &network_ops, &options, &places[r].c, &o->b.err),
              &o->b.err);
    *strategy = *stk_collectives_strategy(places[r].c);
    join_watched(o, strategy);
}

static void leave_network(one *o)
{
    stk_collectives_close(&places[o->self.number].c);
}

static void run_networked(uint64_t world)
{
    one like = like_deep(an_epoch);

    like.join = join_network;
    like.leave = leave_network;
    net = (network){.world = world};
    pthread_mutex_init(&net.lock, NULL);
    run_watched(all_ranks, world, &like);
    pthread_mutex_destroy(&net.lock);
    assert_false(net.torn);
}

/* A rank that asks for other layers than the rest is told so, as a rank that has failed. */
static void ranks_that_differ(void **state)
{
    for (uint64_t world = 2; world <= 3; world++) {
        script = (watching){.later = LATER};
        run_networked(world);
        for (uint64_t r = 0; r < world; r++)
            assert_ok(all_ranks[r].status, &all_ranks[r].b.err);
        script = (watching){.later = LATER, .odd_at = 3, .alone = true};
        run_networked(world);
        for (uint64_t r = 0; r < world; r++)
            assert_fails(all_ranks[r].status, STK_EMISMATCH, &all_ranks[r].b.err,
                         "the ranks make different calls");
        script = (watching){.later = LATER, .fail_at = 3};
        run_networked(world);
        for (uint64_t r = 0; r < world; r += 2)
            assert_fails(all_ranks[r].status, STK_EIO, &all_ranks[r].b.err, "has failed: it says");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_one_and_no_more), cmocka_unit_test(the_order_is_one),
        cmocka_unit_test(the_order_of_a_step),      cmocka_unit_test(the_same_bits),
        cmocka_unit_test(a_stop_is_none),           cmocka_unit_test(many_at_a_time),
        cmocka_unit_test(failures_are_told),        cmocka_unit_test(ranks_that_differ),
    };

    return cmocka_run_group_tests_name("train/shards_ahead", tests, NULL, NULL);
}
