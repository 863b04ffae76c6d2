/* SPDX-License-Identifier: Apache-2.0 */
/* One training of several ranks. A process by itself makes none of the calls: it is what everybody
 * has. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <xxhash.h>

#include "base/sized.h"
#include "base/table.h"
#include "train/trainer.h"

#define EXACT (UINT64_C(1) << 52) /* whole numbers below it are doubles */

void stk__ranks_init(stk__ranks *ranks)
{
    *ranks = (stk__ranks){.strategy = {.struct_size = sizeof ranks->strategy,
                                       .name = "single_device",
                                       .world_size = 1},
                          .later = STK__BUCKET};
}

void stk__ranks_release(stk_trainer *t)
{
    const stk_strategy *s = &t->ranks.strategy;

    stk__overlap_stop(t);
    if (t->ranks.attached && s->detach)
        s->detach(s->state);
    stk__free(t->ctx, t->ranks.listed);
    stk__free(t->ctx, t->ranks.pieces);
    stk__free(t->ctx, t->ranks.buckets);
    stk__shards_release(t);
    if (t->ranks.bucket)
        t->device->ops->free(t->device, t->ranks.bucket);
}

stk_status stk_trainer_set_strategy(stk_trainer *t, const stk_strategy *strategy, stk_error *err)
{
    static const stk__member members[] = {STK__MEMBER(stk_strategy, reduce),
                                          STK__MEMBER(stk_strategy, broadcast),
                                          STK__MEMBER(stk_strategy, barrier)};
    static const stk__given_table table = {.type = "stk_strategy",
                                           .least = offsetof(stk_strategy, abort),
                                           .members = members,
                                           .num_members = STK_COUNT(members),
                                           .stage = STK_STAGE_TRAIN};

    stk_error_init(err);
    STK_TRY(stk__context_check(t->ctx, err));
    STK_TRY(stk__table_check(&table, strategy, err));
    if (strategy->world_size == 0 || strategy->rank >= strategy->world_size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "strategy %s: rank %" PRIu64 " of %" PRIu64 " is none: ranks count from 0",
                         strategy->name, strategy->rank, strategy->world_size);
    if (strcmp(t->options.strategy, "single_device") == 0)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
                            "trainer.strategy: single_device and the %" PRIu64
                            " ranks over %s contradict each other: leave the option at auto",
                            strategy->world_size, strategy->name);
    if (t->at.task != STK_TASK_NONE)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "a strategy is given before the first task of a trainer");
    t->ranks.given = true;
    t->ranks.strategy = (stk_strategy){0};
    stk__sized_copy(&t->ranks.strategy, sizeof t->ranks.strategy, strategy);
    return STK_OK;
}

stk_status stk__synchronize(const stk_trainer *t, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;

    STK_TRY(t->device->ops->stream_synchronize(t->stream, err));
    return t->ranks.attached && s->check ? s->check(s->state, err) : STK_OK;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

stk_status stk__reduce(stk_trainer *t, double *values, size_t n, stk_combine op, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;

    if (stk__is_alone(t) || n == 0)
        return STK_OK;
    /* One call at a time. */
    stk__overlap_settle(t);
    return s->reduce(s->state, values, n, STK_FLOAT64, op, NULL, err);
}

stk_status stk_trainer_reduce(stk_trainer *t, double *values, size_t n, stk_combine op,
                              stk_error *err)
{
    STK_TRY(stk__context_check(t->ctx, err));
    return stk__reduce(t, values, n, op, err);
}

stk_status stk__same_everywhere(stk_trainer *t, uint64_t number, const char *what, stk_error *err)
{
    const double own = (double)(number % EXACT);
    double ends[2] = {own, -own};

    STK_TRY(stk__reduce(t, ends, 2, STK_COMBINE_MAX, err));
    return ends[0] == -ends[1]
               ? STK_OK
               : stk__fail(err, STK_EMISMATCH, STK_STAGE_TRAIN,
                           "rank %" PRIu64 " of %" PRIu64 ": the ranks %s", t->ranks.strategy.rank,
                           t->ranks.strategy.world_size, what);
}

/* ---- Decisions ------------------------------------------------------------------------------- */

stk_status stk__agree(stk_trainer *t, stk_error *err)
{
    const uint64_t every = t->settings.val_check_ns;
    double values[3];

    if (stk__is_alone(t))
        return STK_OK;
    values[0] = atomic_load(&t->stop) != 0;
    values[1] = t->wish;
    values[2] = every && stk__now_ns() - t->val_last_ns >= every;
    STK_TRY(stk__reduce(t, values, 3, STK_COMBINE_MAX, err));
    t->ranks.stop = values[0] > 0;
    t->should_stop = values[1] > 0;
    t->ranks.val_due = values[2] > 0;
    return STK_OK;
}

stk_status stk__agree_hooks(stk_trainer *t, stk_error *err)
{
    double any = t->hooks.rows[STK__HOOK_on_train_batch_start].n > 0;

    STK_TRY(stk__reduce(t, &any, 1, STK_COMBINE_MAX, err));
    t->ranks.may_skip = any > 0;
    return STK_OK;
}

/* The same in a step. */
static stk_status reduce_in_step(stk_trainer *t, double *values, size_t n, stk_combine op,
                                 stk_error *err)
{
    const uint64_t from = stk__now_ns();
    const stk_status status = stk__reduce(t, values, n, op, err);

    t->ledger.comm_ns += stk__now_ns() - from;
    return status;
}

stk_status stk__agree_ready(stk_trainer *t, bool *ready, bool *stop, stk_error *err)
{
    double values[2] = {!*ready, *stop};

    if (stk__is_alone(t))
        return STK_OK;
    if (!*ready || t->ledger.depth) {
        STK_TRY(stk__reduce(t, values, 2, STK_COMBINE_MAX, err));
    } else {
        STK_TRY(reduce_in_step(t, values, 2, STK_COMBINE_MAX, err));
        stk__ledger_mark(&t->ledger, STK__PART_STEP);
    }
    *ready = values[0] == 0;
    *stop = t->ranks.stop = values[1] > 0;
    return STK_OK;
}

stk_status stk__agree_batch(stk_trainer *t, double rows, bool *skip, bool *bad, double *share,
                            stk_error *err)
{
    double sums[3] = {*skip && rows > 0, *bad, rows};

    *share = 1;
    if (stk__is_alone(t))
        return STK_OK;
    STK_TRY(reduce_in_step(t, sums, 3, STK_COMBINE_SUM, err));
    *skip = sums[0] > 0 || sums[2] == 0;
    *bad = sums[1] > 0;
    *share = rows * (double)t->ranks.strategy.world_size / sums[2];
    return STK_OK;
}

/* A failure, as numbers that ranks add up: all but one have zeros. */
typedef struct told {
    double status, text[STK_ERROR_TEXT], key[STK_ERROR_KEY];
} told;

static void bytes_to_numbers(double *to, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)bytes[i];
}

static void numbers_to_bytes(char *to, const double *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (char)(unsigned char)numbers[i];
    to[n - 1] = 0;
}

stk_status stk__agree_failure(stk_trainer *t, stk_status status, stk_error *err)
{
    const uint64_t rank = t->ranks.strategy.rank, world = t->ranks.strategy.world_size;
    double first = (double)(status == STK_OK ? world : rank);
    char text[STK_ERROR_TEXT], key[STK_ERROR_KEY];
    told all = {.status = 0};

    if (stk__is_alone(t))
        return status;
    STK_TRY(stk__reduce(t, &first, 1, STK_COMBINE_MIN, err));
    if (first == (double)world)
        return STK_OK;
    if (first == (double)rank) {
        all.status = status;
        bytes_to_numbers(all.text, err->text, sizeof err->text);
        bytes_to_numbers(all.key, err->key, sizeof err->key);
    }
    STK_TRY(stk__reduce(t, &all.status, sizeof all / sizeof all.status, STK_COMBINE_SUM, err));
    if (first == (double)rank)
        return status;
    numbers_to_bytes(text, all.text, sizeof text);
    numbers_to_bytes(key, all.key, sizeof key);
    return stk__fail_at(err, (stk_status)all.status, STK_STAGE_TRAIN, key, STK_NO_OFFSET,
                        "rank %.0f: %.600s", first, text);
}

/* ---- Texts and tensors ----------------------------------------------------------------------- */

stk_status stk__share_text(stk_trainer *t, char *text, size_t size, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;

    if (stk__is_alone(t))
        return STK_OK;
    STK_TRY(s->broadcast(s->state, text, size, NULL, err));
    text[size - 1] = 0;
    return STK_OK;
}

typedef struct hashing {
    const stk_trainer *t;
    uint64_t hash;
} hashing;

/* The same module has the same number, whatever part of it a rank has. */
static stk_status hash_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    hashing *h = user;
    uint64_t *hash = &h->hash;
    const int32_t type = tensor->dtype;
    stk_state_tensor whole;
    size_t parameter;

    stk__shard_whole(h->t, kind, tensor, &whole, &parameter);
    *hash = XXH3_64bits_withSeed(whole.name, strlen(whole.name), *hash);
    *hash = XXH3_64bits_withSeed(&type, sizeof type, *hash);
    *hash = XXH3_64bits_withSeed(whole.shape, whole.rank * sizeof whole.shape[0], *hash);
    *hash = XXH3_64bits_withSeed(&whole.bytes, sizeof whole.bytes, *hash);
    return STK_OK;
}

static stk_status send_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    stk_trainer *t = user;
    const stk_strategy *s = &t->ranks.strategy;
    stk_state_tensor whole;
    size_t parameter;

    /* A part is what this rank has read itself, or zeros. */
    if (stk__shard_whole(t, kind, tensor, &whole, &parameter))
        return STK_OK;
    return tensor->bytes
               ? s->broadcast(s->state, tensor->data, tensor->bytes, stk__ranks_stream(t), err)
               : STK_OK;
}

stk_status stk__share_state(stk_trainer *t, uint32_t kinds, stk_error *err)
{
    hashing h = {.t = t};

    if (stk__is_alone(t) || !t->ops.state)
        return STK_OK;
    STK_TRY(t->ops.state(t->module, kinds, hash_one, &h, err));
    STK_TRY(stk__same_everywhere(t, h.hash, "have modules whose tensors differ", err));
    return t->ops.state(t->module, kinds, send_one, t, err);
}

/* ---- The ends of a task ---------------------------------------------------------------------- */

/* What is asked for of several processes, and that nobody brought. */
static stk_status check_given(const stk_trainer *t, stk_error *err)
{
    const char *name = t->options.strategy;

    if (t->ranks.given)
        return STK_OK;
    if (t->options.sync_batchnorm || t->options.gradient_compression)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
                            "trainer.%s: it has no effect with one process; leave it out",
                            t->options.sync_batchnorm ? "sync_batchnorm" : "gradient_compression");
    if (strcmp(name, "auto") == 0 || strcmp(name, "single_device") == 0)
        return STK_OK;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
                        "trainer.strategy: %s trains in several processes, and nothing joins this "
                        "one with others: start it by 'mpirun -n 2 stoker train', or call "
                        "stk_trainer_set_strategy()",
                        name);
}

/* Before the first call that may be of the device's memory. */
static stk_status attach(stk_trainer *t, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;

    stk__device_functions(t->device, &t->ranks.device);
    if (t->options.gradient_compression && !t->ranks.device.convert)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "gradient_compression",
                            STK_NO_OFFSET,
                            "trainer.gradient_compression: the device '%s' makes no bfloat16 of "
                            "gradients (convert() of its table); leave it out",
                            t->device->ops->name);
    if (!t->ranks.attached && s->attach)
        STK_TRY(s->attach(s->state, t->device, err));
    t->ranks.attached = true;
    return STK_OK;
}

stk_status stk__ranks_begin(stk_trainer *t, stk_error *err)
{
    STK_TRY(check_given(t, err));
    if (stk__is_alone(t))
        return STK_OK;
    STK_TRY(attach(t, err));
    if (t->at.task == STK_TASK_FIT && !t->ops.state)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "the module %s has no state: its gradients cannot be those of %" PRIu64
                         " ranks",
                         t->ops.name, t->ranks.strategy.world_size);
    t->ranks.stop = t->ranks.val_due = t->ranks.may_skip = t->wish = false;
    t->ranks.parts_stored = false;
    return stk__same_everywhere(t, (uint64_t)t->at.task, "were asked for different tasks", err);
}

stk_status stk__ranks_end(stk_trainer *t, bool together, stk_status status, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const bool fine = status == STK_OK || status == STK_ECANCELED;
    double failed = !fine;
    stk_error own;

    if (stk__is_alone(t))
        return status;
    stk_error_init(&own);
    stk_status met = together ? stk__reduce(t, &failed, 1, STK_COMBINE_MAX, &own) : STK_OK;
    if (together && met == STK_OK && failed > 0 && fine)
        met = stk__fail(&own, STK_EIO, STK_STAGE_TRAIN,
                        "another rank could not write all of the run: it says which file and why");
    else if (together && met == STK_OK)
        met = s->barrier(s->state, &own);
    if ((!together || met != STK_OK) && s->abort)
        s->abort(s->state);
    if (fine && met != STK_OK)
        *err = own;
    return fine && met != STK_OK ? met : status;
}
