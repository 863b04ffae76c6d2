/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of an epoch of several sources: the pattern says which source has a position, turned by
 * a drawn number of slots in each round, and each source has an order of its own, in which it is
 * gone through pass by pass. docs/order.md defines it.
 */
#include "loader/order_mix.h"

typedef struct source_order {
    stk__order order;
    stk__order_epoch epoch;
    uint64_t draws; /* of an epoch */
} source_order;

struct stk__order_mix {
    const stk__mixture *mixture;
    uint64_t whole;         /* rounds that all slots of are there */
    uint64_t seed;          /* of the turns */
    uint64_t round, turned; /* the last one asked for, and by how many slots it is turned */
    uint32_t count;
    source_order *sources; /* `count`: of each source, or of each stage of a single one */
};

/* A seed that no other use of the caller's has. */
static uint64_t derive(uint64_t seed, uint64_t number)
{
    uint32_t words[4];

    stk__draw(seed, 0, number, STK_DRAW_MIX, words, 4);
    return (uint64_t)words[1] << 32 | words[0];
}

/* The order of one source: of the same options, for one rank and one sample a step. */
static stk_status source_init(source_order *source, stk_context *ctx, const stk__order *order,
                              uint32_t s, uint64_t size)
{
    const stk__mixture *m = order->mixture;
    stk_dataset dataset = {.size = size, .block_size = m->blocks[s]};
    stk_loader_options o = order->options;

    o.seed = derive(order->seed, 1 + (uint64_t)s);
    source->draws = stk__mixture_draws(m, s, order->size);
    STK_TRY(stk__order_init(&source->order, &dataset, &o, NULL));
    return stk__order_epoch_init(&source->epoch, ctx, &source->order);
}

stk_status stk__order_mix_create(stk_context *ctx, const stk__order *order, stk__order_mix **out)
{
    const stk__mixture *m = order->mixture;
    stk__order_mix *mix = stk__calloc(ctx, 1, sizeof *mix);
    stk_status status = STK_OK;

    if (!mix)
        return STK_ENOMEM;
    mix->mixture = m;
    mix->whole = order->size / m->slots;
    mix->seed = derive(order->seed, 0);
    mix->round = UINT64_MAX;
    mix->count = m->num_stages ? m->num_stages : m->num_sources;
    mix->sources = stk__calloc(ctx, mix->count, sizeof *mix->sources);
    if (!mix->sources)
        status = STK_ENOMEM;
    for (uint32_t i = 0; status == STK_OK && i < mix->count; i++)
        status = source_init(&mix->sources[i], ctx, order, m->num_stages ? 0 : i,
                             m->num_stages ? m->stages[i].size : m->sizes[i]);
    if (status == STK_OK)
        *out = mix;
    else
        stk__order_mix_destroy(ctx, mix);
    return status;
}

void stk__order_mix_destroy(stk_context *ctx, stk__order_mix *mix)
{
    for (uint32_t s = 0; mix && mix->sources && s < mix->count; s++)
        stk__order_epoch_release(&mix->sources[s].epoch);
    if (mix)
        stk__free(ctx, mix->sources);
    stk__free(ctx, mix);
}

void stk__order_mix_epoch(stk__order_mix *mix)
{
    mix->round = UINT64_MAX;
}

/* How far the pattern is turned in a round. A last one that is cut short is not turned, so that the
 * draws of an epoch are the same in all. */
static uint64_t turn_of(stk__order_mix *mix, uint64_t epoch, uint64_t round)
{
    uint32_t words[4];

    if (round == mix->round)
        return mix->turned;
    stk__draw(mix->seed, (uint32_t)epoch, round, STK_DRAW_MIX, words, 4);
    mix->round = round;
    mix->turned = round < mix->whole ? (uint64_t)words[0] * mix->mixture->slots >> 32 : 0;
    return mix->turned;
}

/*
 * The sample of draw `k` of a source in an epoch. One that is gone through at least once begins
 * anew in each epoch; of another, so many epochs as it has samples for are one pass.
 */
static uint64_t sample_at(source_order *source, uint64_t epoch, uint64_t k)
{
    const uint64_t size = source->order.size, draws = source->draws;
    uint64_t pass, sample = 0;

    if (draws >= size) {
        pass = epoch * ((draws - 1) / size + 1) + k / size;
        k %= size;
    } else {
        pass = epoch / (size / draws);
        k += epoch % (size / draws) * draws;
    }
    stk__order_epoch_set(&source->epoch, pass);
    stk__order_indices(&source->epoch, &k, &sample, 1);
    return sample;
}

/* The order of a source in an epoch: of the last stage that has begun. */
static source_order *source_at(stk__order_mix *mix, uint32_t source, uint64_t epoch)
{
    const stk__mixture *m = mix->mixture;
    uint32_t stage = 0;

    if (!m->num_stages)
        return &mix->sources[source];
    while (stage + 1 < m->num_stages && m->stages[stage + 1].epoch <= epoch)
        stage++;
    return &mix->sources[stage];
}

/* How many slots of a source lie before a slot. */
static uint32_t slots_before(const stk__mixture *m, uint32_t source, uint64_t slot)
{
    const uint32_t *places = m->places + m->first[source];
    uint32_t low = 0, high = m->counts[source];

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (places[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t stk__order_mix_index(stk__order_mix *mix, uint64_t epoch, uint64_t position)
{
    const stk__mixture *m = mix->mixture;
    const uint64_t round = position / m->slots, turned = turn_of(mix, epoch, round);
    const uint64_t slot = (position % m->slots + turned) % m->slots;
    const uint32_t source = m->source[slot], count = m->counts[source];
    /* The draws of a round in the order of their positions: from where it is turned to. */
    const uint64_t k =
        round * count + (m->turn[slot] + count - slots_before(m, source, turned)) % count;

    return stk__mixture_index(m, source, sample_at(source_at(mix, source, epoch), epoch, k));
}
