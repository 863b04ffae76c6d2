/* A small model that ranks train together, each a thread, sharing it out or not. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_SHARDS_H
#define STK_TESTS_UNIT_TRAIN_SHARDS_H

#include <sys/mman.h>
#include <unistd.h>

#include "base/files.h"
#include "support/same_checkpoint.h"
#include "unit/train/line.h"

#define WITHIN "%s/within.safetensors"

enum { EPOCHS = 2 }; /* 37 rows in batches of GLOBAL: three, and one row */

typedef struct one one;
typedef void change_fn(one *o);

enum { MOST_ADDED = 3 };

/* A callback with options: names and values, a NULL at the end. */
typedef struct added {
    const stk_callback_ops *ops;
    const char *const *given;
} added;

struct one {
    rank self;
    uint64_t world;
    const char *strategy, *layers, *folder, *ckpt_path;
    change_fn *change;
    const stk_callback_ops *callback;
    added adds[MOST_ADDED];
    bool own_statistics; /* a rank ends with means of its own: they are left out of the hash */
    bool blind;          /* its last rank sees no folder of rank 0 */
    bool validates;      /* in place of training */
    /* Its own strategy in place of threads that meet, or around it; and when the trainer is gone.
     */
    void (*join)(one *o, stk_strategy *strategy);
    change_fn *leave;
    const char *stores; /* options of the context; NULL: none */
    void (*on_message)(void *user, stk_message_level level, const char *text); /* user: the rank */
    stk_optimizer_options optimizer;
    const char *freeze; /* for good */
    bench b;
    uint64_t hash, bytes; /* of the weights; that the rank's context has behind the training */
    uint64_t gathered;    /* elements that were gathered in it */
    uint64_t aside;       /* bytes among them of what is laid side by side */
    char saved[512];
    stk_status status;
};

/* Sizes that no number of ranks divides, and more than one bucket, the second of one tensor. */
static const char odd[] = "a=conv2d(3, 3), na=batch_norm2d, relu, flatten, b=linear(131), relu, "
                          "c=linear(10)";

static inline void keep(one *o, stk_model *model)
{
    stk_memory_stats memory = {.struct_size = sizeof memory};
    stk_state_tensor tensor;

    for (size_t i = 0; stk_model_get_state(model, i, &tensor, NULL) == STK_OK; i++) {
        if (o->own_statistics && (strstr(tensor.name, "running_") || strstr(tensor.name, "num_b")))
            continue;
        for (uint64_t k = 0; k < tensor.bytes; k++)
            o->hash = o->hash * UINT64_C(1099511628211) + ((const uint8_t *)tensor.data)[k] + 1;
    }
    stk_context_memory(o->b.ctx, &memory);
    o->bytes = memory.bytes;
}

/* The name of a file that is not there. */
static inline stk_status broadcast_to_the_blind(void *state, void *buffer, uint64_t bytes,
                                                stk_stream *stream, stk_error *err)
{
    STK_TRY(ranks_broadcast(state, buffer, bytes, stream, err));
    if (bytes > 1 && strncmp(buffer, STK__TEMPORARY, strlen(STK__TEMPORARY)) == 0)
        memcpy(buffer, "none", sizeof "none");
    return STK_OK;
}

static inline void add_with(bench *b, stk_trainer *t, const added *a)
{
    uint64_t room[64];

    stk_options_init(a->ops->options, room, a->ops->options->struct_size);
    for (const char *const *w = a->given; w && *w; w += 2)
        assert_ok(stk_options_set(a->ops->options, room, w[0], w[1], &b->err), &b->err);
    assert_ok(stk_trainer_add_callback(t, a->ops, room, NULL, &b->err), &b->err);
}

static inline void train_one(one *o, const stk_model_parts *parts)
{
    o->self.home = pthread_self();
    stk_strategy strategy = ranks_strategy(&o->self);
    if (o->blind && o->self.number + 1 == o->world)
        strategy.broadcast = broadcast_to_the_blind;
    if (o->join && o->world > 1)
        o->join(o, &strategy);
    bench *b = &o->b;
    stk_module *module;
    stk_trainer *t;

    assert_ok(stk_model_module_create(b->ctx, parts, &module, &b->err), &b->err);
    assert_ok(stk_trainer_create(b->ctx, &b->options, &t, &b->err), &b->err);
    if (o->world > 1)
        assert_ok(stk_trainer_set_strategy(t, &strategy, &b->err), &b->err);
    if (o->callback)
        assert_ok(stk_trainer_add_callback(t, o->callback, NULL, NULL, &b->err), &b->err);
    for (size_t i = 0; i < MOST_ADDED && o->adds[i].ops; i++)
        add_with(b, t, &o->adds[i]);
    o->status = (o->validates ? stk_trainer_validate : stk_trainer_fit)(t, module, &b->data,
                                                                        o->ckpt_path, &b->err);
    o->gathered = o->self.all->gathered[o->self.number];
    if (o->status == STK_OK) {
        keep(o, stk_model_module_model(module));
        o->aside = t->ranks.bucket_bytes;
        const char *path = stk_trainer_best_model_path(t);
        snprintf(o->saved, sizeof o->saved, "%s", path ? path : "");
    }
    stk_trainer_destroy(&t);
    if (o->leave && o->world > 1)
        o->leave(o);
    stk_module_destroy(&module);
}

static inline void open_stores(one *o)
{
    stk_context_options options;

    stk_context_options_init(&options);
    options.stores = o->stores;
    options.on_message = o->on_message;
    options.on_message_user = o;
    stk_context_destroy(&o->b.ctx);
    assert_ok(stk_context_create(&options, &o->b.ctx, &o->b.err), &o->b.err);
}

static inline void *run_one(void *argument)
{
    static const int64_t shape[] = {1, 28, 28};
    one *o = argument;
    bench *b = &o->b;
    stk_model_builder *builder;

    bench_open(b);
    stk_dataset_close(&b->dataset);
    if (o->stores)
        open_stores(o);
    assert_ok(stk_dataset_open(b->ctx, "digits:?split=test&subset=0:37", &b->dataset, &b->err),
              &b->err);
    b->train.dataset = b->val.dataset = b->dataset;
    b->loader.global_batch_size = b->val_loader.global_batch_size = GLOBAL;
    b->loader.transforms = b->val_loader.transforms = "layout(chw), to_float";
    b->options.max_epochs = EPOCHS;
    b->options.enable_checkpointing = STK_SWITCH_TRUE;
    b->options.default_root_dir = o->folder;
    b->options.seed_everything = 3;
    b->options.strategy = o->world > 1 ? o->strategy : "auto";
    stk_optimizer_options_init(&o->optimizer);
    if (o->change)
        o->change(o);
    assert_ok(stk_model_builder_create(b->ctx, shape, 3, &builder, &b->err), &b->err);
    assert_ok(stk_model_builder_add(builder, o->layers, &b->err), &b->err);
    stk_model_options model;
    stk_model_options_init(&model);
    model.freeze = o->freeze;
    const stk_model_parts parts = {.struct_size = sizeof parts,
                                   .builder = builder,
                                   .model = &model,
                                   .optimizer = &o->optimizer};
    train_one(o, &parts);
    stk_model_builder_destroy(&builder);
    bench_close(b);
    return NULL;
}

/* All of them end well, with the same weights. */
static inline void run_world(one *all, uint64_t world, const one *like)
{
    pthread_t threads[MANY_RANKS];
    ranks shared;

    ranks_init(&shared, world);
    for (uint64_t r = 0; r < world; r++) {
        all[r] = *like;
        all[r].self = (rank){.all = &shared, .number = r, .one_thread = like->self.one_thread};
        all[r].world = world;
        assert_int_equal(pthread_create(&threads[r], NULL, run_one, &all[r]), 0);
    }
    for (uint64_t r = 0; r < world; r++)
        pthread_join(threads[r], NULL);
    ranks_release(&shared);
}

static inline void assert_run(const one *all)
{
    for (uint64_t r = 0; r < all->world; r++) {
        assert_ok(all[r].status, &all[r].b.err);
        if (all[r].hash != all[0].hash)
            fail_msg("%s: rank %d has other weights than rank 0", all->strategy, (int)r);
    }
    assert_true(*all[0].saved);
}

static one all_ranks[MANY_RANKS];

/* What rank 0 has saved at the end of a run of `world` ranks. */
static inline void train(char saved[512], uint64_t world, const char *strategy, const char *folder,
                         const char *ckpt_path, change_fn *change)
{
    const one like = {.strategy = strategy,
                      .layers = odd,
                      .folder = folder,
                      .ckpt_path = ckpt_path,
                      .change = change};

    run_world(all_ranks, world, &like);
    assert_run(all_ranks);
    snprintf(saved, 512, "%s", all_ranks[0].saved);
}

static const char *const sharing[] = {"zero_1", "zero_2", "zero_3"};

/* Of some memory, bytes of pages that are there. */
static inline uint64_t resident(const char *data, uint64_t bytes)
{
    enum { PAGES = 4096 };
    unsigned char there[PAGES];
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t)data / page * page;
    const size_t pages = ((uintptr_t)data + bytes - from + page - 1) / page;
    uint64_t sum = 0;

    assert_true(pages <= PAGES);
    assert_int_equal(mincore((void *)from, pages * page, there), 0); /* NOLINT */
    for (size_t i = 0; i < pages; i++)
        sum += (there[i] & 1) * page;
    return sum;
}

/* A bound that the gradients are far beyond. */
static inline void clips(one *o)
{
    o->b.options.gradient_clip_val = 0.05;
}

#endif
