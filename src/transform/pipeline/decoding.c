/* SPDX-License-Identifier: Apache-2.0 */
/* What one thread decodes with: decoders that are kept, memory that grows to what pictures need. */
#include "transform/pipeline/decoding.h"

stk_status stk__decode_room_init(stk__decode_room *room, uint64_t each, uint64_t most)
{
    *room = (stk__decode_room){.each = each, .most = STK_MAX(each, most)};
    return pthread_mutex_init(&room->large, NULL) == 0 ? STK_OK : STK_ENOMEM;
}

void stk__decode_room_release(stk__decode_room *room)
{
    pthread_mutex_destroy(&room->large);
}

stk_status stk__decoding_create(stk_context *ctx, stk__decode_room *room, stk__decoding **out)
{
    stk__decoding *self = stk__calloc(ctx, 1, sizeof *self);

    *out = self;
    if (!self)
        return STK_ENOMEM;
    self->context = stk__context_ref(ctx);
    self->room = room;
    return STK_OK;
}

/* Let go of all that can be had again. */
static void shed(stk__decoding *self)
{
    stk__image_decoder_destroy(&self->colour);
    stk__image_decoder_destroy(&self->mask);
    stk__free(self->context, self->memory);
    self->memory = NULL;
    self->memory_bytes = 0;
}

void stk__decoding_destroy(stk__decoding **decoding)
{
    stk__decoding *self = *decoding;

    if (!self)
        return;
    stk_context *ctx = self->context;
    shed(self);
    stk__free(ctx, self);
    stk__context_unref(ctx);
    *decoding = NULL;
}

static stk_status take_decoder(stk__decoding *self, bool mask)
{
    stk__image_decoder **decoder = mask ? &self->mask : &self->colour;
    stk__image_limits limits;

    self->decoder = *decoder;
    if (*decoder)
        return STK_OK;
    /* Pixels and blocks have been held against the limit of the transform. */
    stk__image_limits_init(&limits);
    limits.max_pixels = limits.max_blocks = UINT64_MAX;
    limits.max_memory = self->made_for;
    STK_TRY(stk__image_decoder_create(self->context, &limits, mask ? 1 : STK__DECODED_BYTES,
                                      decoder, NULL));
    self->decoder = *decoder;
    return STK_OK;
}

static stk_status too_large(stk__decoding *self, uint64_t want, const char **reason)
{
    self->refused = want;
    *reason = stk__decode_too_large;
    return STK_EBUDGET;
}

stk_status stk__decoding_begin(stk__decoding *self, bool mask, uint64_t decoder_bytes,
                               uint64_t memory_bytes, const char **reason)
{
    const uint64_t most = self->room->most + self->reserve;
    uint64_t want;

    if (!stk__add_size(decoder_bytes, memory_bytes, &want))
        want = UINT64_MAX;
    if (want > most)
        return too_large(self, want, reason);
    self->holds_room = want > self->room->each;
    if (self->holds_room) {
        uint64_t start = stk__now_ns();

        pthread_mutex_lock(&self->room->large);
        self->waited_ns += stk__now_ns() - start;
    }
    if (most != self->made_for)
        shed(self);
    self->made_for = most;
    stk_status status = take_decoder(self, mask);
    if (status == STK_OK && memory_bytes > self->memory_bytes) {
        stk__free(self->context, self->memory);
        self->memory = stk__alloc_buffer(self->context, memory_bytes);
        self->memory_bytes = self->memory ? memory_bytes : 0;
        status = self->memory ? STK_OK : STK_ENOMEM;
    }
    if (status != STK_OK)
        stk__decoding_end(self);
    return status;
}

void stk__decoding_end(stk__decoding *self)
{
    if (self->decoder)
        stk__image_decoder_end(self->decoder);
    self->decoder = NULL;
    if (!self->holds_room)
        return;
    shed(self);
    pthread_mutex_unlock(&self->room->large);
    self->holds_room = false;
}

const stk__decode_times *stk__decoding_times(const stk__decoding *decoding)
{
    return &decoding->times;
}
