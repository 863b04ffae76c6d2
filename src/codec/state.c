/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread keeps between chunks: scratch memory, contexts of libraries, spare blocks. */
#include "codec/state.h"
#include "codec/kernels.h"
#include "codec/parquet_kernels.h"
#include "codec/step.h"

stk_status stk__codec_state_create(stk_context *ctx, stk__codec_state **out, stk_error *err)
{
    *out = NULL;
    stk__codec_state *state = stk__calloc(ctx, 1, sizeof *state);
    if (!state)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CODEC, "no memory to decode chunks");
    state->context = ctx;
    state->kernels = stk__codec_kernels_of(ctx);
    state->parquet = stk__parquet_kernels_of(ctx);
    *out = state;
    return STK_OK;
}

void stk__codec_state_destroy(stk__codec_state **state)
{
    stk__codec_state *s = *state;

    if (!s)
        return;
    stk__codec_state_destroy(&s->inner);
    stk__zstd_release(s);
    stk__deflate_release(s);
    for (int i = 0; i < STK__SCRATCH_COUNT; i++)
        stk__free(s->context, s->scratch[i].data);
    for (int i = 0; i < STK__SPARE_BLOCKS; i++)
        stk__free(s->context, s->spare[i].memory);
    stk__free(s->context, s);
    *state = NULL;
}

uint64_t stk__codec_state_held(const stk__codec_state *state)
{
    uint64_t bytes = sizeof *state + stk__zstd_held(state);

    if (state->inner)
        bytes += stk__codec_state_held(state->inner);

    for (int i = 0; i < STK__SCRATCH_COUNT; i++)
        bytes += state->scratch[i].size;
    for (int i = 0; i < STK__SPARE_BLOCKS; i++)
        bytes += state->spare[i].size;
    return bytes;
}

uint8_t *stk__scratch(stk__codec_state *state, int which, uint64_t size)
{
    if (state->scratch[which].data && state->scratch[which].size >= size)
        return state->scratch[which].data;
    stk__free(state->context, state->scratch[which].data);
    state->scratch[which].data = stk__alloc_buffer(state->context, size);
    state->scratch[which].size = state->scratch[which].data ? size : 0;
    return state->scratch[which].data;
}

/* The smallest block that fits and is not much too large; else a new one, in an empty place or in
 * the place of one that is not in use. */
void *stk__spare_alloc(stk__codec_state *state, uint64_t size)
{
    int best = -1, free_place = -1;

    for (int i = 0; i < STK__SPARE_BLOCKS; i++) {
        if (state->spare[i].used)
            continue;
        uint64_t has = state->spare[i].size;
        if (has >= size && has / 2 <= size && (best < 0 || has < state->spare[best].size))
            best = i;
        if (free_place < 0 || !state->spare[i].memory)
            free_place = i;
    }
    if (best < 0 && free_place < 0)
        return stk__alloc(state->context, size);
    if (best < 0) {
        best = free_place;
        stk__free(state->context, state->spare[best].memory);
        state->spare[best].memory = stk__alloc(state->context, size);
        state->spare[best].size = state->spare[best].memory ? size : 0;
        if (!state->spare[best].memory)
            return NULL;
    }
    state->spare[best].used = true;
    return state->spare[best].memory;
}

void stk__spare_free(stk__codec_state *state, void *memory)
{
    uint64_t idle = 0;
    int place = -1;

    if (!memory)
        return;
    for (int i = 0; i < STK__SPARE_BLOCKS; i++) {
        if (state->spare[i].memory == memory)
            place = i;
        else if (!state->spare[i].used)
            idle += state->spare[i].size;
    }
    if (place >= 0 && idle + state->spare[place].size <= STK__SPARE_BYTES) {
        state->spare[place].used = false;
        return;
    }
    if (place >= 0) {
        state->spare[place].memory = NULL;
        state->spare[place].size = 0;
        state->spare[place].used = false;
    }
    stk__free(state->context, memory);
}
