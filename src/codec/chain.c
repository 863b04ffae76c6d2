/* SPDX-License-Identifier: Apache-2.0 */
/* Chains: compiled once, then run over chunks from state to state of their bytes. */
#include "codec/compile.h"
#include "codec/state.h"
#include "codec/step.h"

#define LIBRARY_BYTES (UINT64_C(1) << 20) /* contexts of zstd, libdeflate and zlib together */
#define BZ2_BYTES     (UINT64_C(4) << 20)
#define SMALL_BYTES   (UINT64_C(64) << 10) /* that chunks may grow by in any case */
#define VARYING_BYTES (UINT64_C(1) << 30)  /* that elements of varying length take at most */

void stk__chain_spec_init(stk__chain_spec *spec)
{
    *spec = (stk__chain_spec){.key = "", .itemsize = 1, .swap_size = 1};
}

/* ---- Compiling ---- */

static bool is_sound(const stk__builder *b)
{
    uint64_t bytes = b->item;

    if (!b->fixed)
        return true;
    for (uint32_t i = 0; i < b->rank; i++)
        if (!stk__mul_size(bytes, b->shape[i], &bytes))
            return false;
    return bytes == b->size && b->item % b->swap_size == 0 &&
           (!b->number.kind || b->number.size == b->item);
}

static stk_status check_sizes(stk__builder *b)
{
    if (stk__chain_holds(is_sound(b)))
        return STK_OK;
    return stk__chain_refuse(b, STK_EINTERNAL,
                             "what it leaves is not elements times their size (a defect in "
                             "stoker)");
}

stk_status stk__chain_view(stk__builder *b, uint32_t item)
{
    if (!b->fixed)
        return stk__chain_refuse(b, STK_EKIND,
                                 "numbers of compressed data are not read; write the array with "
                                 "this filter first");
    if (b->item == item)
        return STK_OK;
    if (b->spec->codecs)
        return stk__chain_refuse(b, STK_EFORMAT,
                                 "its type is of another size than the elements that come to it; "
                                 "mend the metadata");
    if (b->size % item)
        return stk__chain_refuse(b, STK_EFORMAT,
                                 "its type does not divide the chunk into whole numbers; mend the "
                                 "metadata");
    b->number = (stk__number){0};
    b->item = b->swap_size = item;
    b->rank = 1;
    b->shape[0] = b->size / item;
    return STK_OK;
}

void stk__chain_to_bytes(stk__builder *b)
{
    b->number = (stk__number){.kind = 'u', .size = 1};
    b->item = b->swap_size = 1;
    b->rank = 1;
    b->shape[0] = b->size;
}

stk_status stk__chain_push(stk__builder *b, const stk__codec_step *step)
{
    stk__chain *chain = b->chain;

    STK_TRY(check_sizes(b));
    if (chain->count == STK__CHAIN_MAX_STEPS)
        return stk__chain_refuse(b, STK_ELIMIT,
                                 "the list has more than 32 codecs; write the array "
                                 "with fewer");
    stk__codec_step *s = &chain->steps[chain->count];
    *s = *step;
    s->size = b->size;
    s->fixed = b->fixed;
    bool exact = s->fixed_out; /* the codec's own word: encoded sizes follow from decoded ones */
    if (!s->ops->bound(s, b->size, &s->bound) || s->bound > INT64_MAX)
        return stk__chain_refuse(b, STK_ELIMIT, "the chunk is too large; write smaller chunks");
    if (s->bound / STK__CHAIN_MAX_GROWTH > chain->size && s->bound > SMALL_BYTES)
        return stk__chain_refuse(b, STK_ELIMIT,
                                 "what it leaves is more than 16 times the chunk "
                                 "(STK__CHAIN_MAX_GROWTH); mend the metadata");
    s->fixed_out = exact && b->fixed;
    b->size = s->bound;
    b->fixed = s->fixed_out;
    chain->count++;
    return STK_OK;
}

/* Changing the byte order and sorting the bytes by their place are one: the other order of the
 * planes. */
static void fuse(stk__chain *chain)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < chain->count; i++) {
        stk__codec_step *s = &chain->steps[i], *next = s + 1;
        bool swap = s->ops == &stk__codec_swap && i + 1 < chain->count;
        if (swap && next->ops == &stk__codec_shuffle && next->u.shuffle.element == s->u.swap.size)
            next->u.shuffle.reverse = true;
        else if (swap && next->ops == &stk__codec_blosc)
            next->u.blosc.swap = s->u.swap.size;
        else
            chain->steps[kept++] = *s;
    }
    chain->count = kept;
}

/*
 * Where each step of a decode writes, from the last (step 0, into the caller's memory) to the
 * first: a step that may work in place has its input where its output will be; others read from the
 * scratch memory that they do not write.
 */
static void plan_decode(stk__chain *chain)
{
    int target = 0;

    for (uint32_t i = 0; i < chain->count; i++) {
        const stk__codec_step *s = &chain->steps[i];
        chain->target[i] = (uint8_t)target;
        if (target && s->ops->decode && !s->view)
            chain->scratch[target - 1] = STK_MAX(chain->scratch[target - 1], s->size);
        if (s->view && target == 0)
            target = 1;
        else if (s->ops->decode && !s->view && !s->in_place)
            target = target == 1 ? 2 : 1;
        chain->block = STK_MAX(chain->block, s->block);
    }
}

static void plan_encode(stk__chain *chain)
{
    for (uint32_t i = 0; i + 1 < chain->count; i++)
        chain->scratch[i % 2] = STK_MAX(chain->scratch[i % 2], chain->steps[i].bound);
}

static void plan_library(stk__chain *chain)
{
    for (uint32_t i = 0; i < chain->count; i++) {
        const stk__codec_step *s = &chain->steps[i];
        uint64_t bytes = s->ops == &stk__codec_bz2    ? BZ2_BYTES
                         : s->ops == &stk__codec_lzma ? s->u.lzma.memory
                                                      : LIBRARY_BYTES;
        chain->library = STK_MAX(chain->library, bytes);
    }
}

static void plan_prefix(stk__chain *chain)
{
    uint64_t needed = chain->size / 2;

    for (uint32_t i = 0; i < chain->count && !chain->has_prefix; i++) {
        const stk__codec_step *s = &chain->steps[i];
        if (!s->ops->decode)
            continue;
        chain->has_prefix = s->streams && needed < s->size;
        if (!s->ops->prefix)
            return;
        needed = s->ops->prefix(s, needed);
    }
}

static void begin(stk__builder *b)
{
    const stk__chain_spec *spec = b->spec;

    b->item = spec->itemsize;
    b->swap_size = spec->swap_size;
    b->rank = spec->rank;
    b->fixed = true;
    b->codec = "chunk";
}

static stk_status measure(stk__builder *b)
{
    const stk__chain_spec *spec = b->spec;

    begin(b);
    if (!spec->itemsize || !spec->swap_size || spec->itemsize % spec->swap_size)
        return stk__chain_refuse(b, STK_EINVAL, "the size of an element is not sound");
    if (spec->rank > STK__CHAIN_MAX_RANK)
        return stk__chain_refuse(b, STK_ELIMIT, "more than 32 dimensions are not read");
    for (uint32_t i = 0; i < spec->rank; i++)
        b->shape[i] = (uint64_t)spec->shape[i];
    if (!stk__shape_bytes(spec->shape, spec->rank, spec->itemsize, &b->size) || !b->size)
        return stk__chain_refuse(b, STK_ELIMIT, "its shape is empty, negative or too large");
    return STK_OK;
}

stk_status stk__chain_create(stk_context *ctx, const stk__chain_spec *spec, stk__chain **out,
                             stk_error *err)
{
    *out = NULL;
    stk__chain *chain = stk__calloc(ctx, 1, sizeof *chain);
    if (!chain)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_CODEC, spec->key, STK_NO_OFFSET,
                            "no memory for the codecs of %s", spec->key);
    chain->context = ctx;
    stk__builder b = {.spec = spec, .chain = chain, .err = err};
    stk_status status = measure(&b);
    chain->size = b.size;
    if (spec->varies) {
        chain->varies = true;
        chain->size = b.size = VARYING_BYTES;
        b.fixed = false;
    }
    if (status == STK_OK)
        status = stk__chain_parse(&b);
    if (status == STK_OK)
        status = check_sizes(&b);
    if (status != STK_OK) {
        stk__chain_destroy(&chain);
        return status;
    }
    fuse(chain);
    plan_decode(chain);
    if (chain->varies) /* scratch memory follows what comes out */
        chain->scratch[0] = chain->scratch[1] = chain->block = 0;
    else
        plan_encode(chain);
    plan_library(chain);
    plan_prefix(chain);
    *out = chain;
    return STK_OK;
}

void stk__chain_destroy(stk__chain **chain)
{
    if (!*chain)
        return;
    for (uint32_t i = 0; i < (*chain)->count; i++)
        if ((*chain)->steps[i].ops == &stk__codec_optional)
            stk__optional_release(&(*chain)->steps[i]);
    stk__free((*chain)->context, *chain);
    *chain = NULL;
}

/* ---- Questions ---- */

uint64_t stk__chain_size(const stk__chain *chain)
{
    return chain->size;
}

uint64_t stk__chain_bound(const stk__chain *chain)
{
    return chain->count ? chain->steps[chain->count - 1].bound : chain->size;
}

/* Most bytes that come out of a step, `size` of which go in. */
static uint64_t step_bound(const stk__codec_step *s, uint64_t size)
{
    uint64_t most;

    return s->ops->bound(s, size, &most) ? most : s->bound;
}

uint64_t stk__chain_bound_varying(const stk__chain *chain, uint64_t size)
{
    for (uint32_t i = 0; i < chain->count; i++)
        size = step_bound(&chain->steps[i], size);
    return size;
}

uint64_t stk__chain_encoded_size(const stk__chain *chain)
{
    if (!chain->count)
        return chain->size;
    const stk__codec_step *last = &chain->steps[chain->count - 1];
    return last->fixed_out ? last->bound : STK__CHAIN_NO_SIZE;
}

bool stk__chain_is_copy(const stk__chain *chain)
{
    for (uint32_t i = 0; i < chain->count; i++)
        if (chain->steps[i].ops->decode)
            return false;
    return true;
}

bool stk__chain_has_prefix(const stk__chain *chain)
{
    return chain->has_prefix;
}

uint64_t stk__chain_scratch(const stk__chain *chain)
{
    return chain->scratch[0] + chain->scratch[1] + chain->block;
}

uint64_t stk__chain_stages(const stk__chain *chain)
{
    return chain->scratch[0] + chain->scratch[1];
}

uint64_t stk__chain_library(const stk__chain *chain)
{
    return chain->library;
}

const char *stk__chain_step(const stk__chain *chain, uint32_t step)
{
    return step < chain->count ? chain->steps[step].ops->name : NULL;
}

/* ---- Decoding ---- */

#define SHORT_CHUNK "the chunk holds fewer bytes than its shape says" STK__REASON_ENDING
#define LONG_CHUNK  "the chunk holds more bytes than its shape says" STK__REASON_ENDING
static const char wrong_size[] = "a codec gave another size than it said (a defect in stoker)";

#define NO_SCRATCH "no memory to decode the chunk; use fewer workers, or smaller chunks"

/* One step; *data and *length go from its input to its output, which has `room`. */
static stk_status decode_step(const stk__chain *chain, uint32_t i, stk__codec_state *state,
                              uint64_t room, uint64_t needed, uint8_t *out, const uint8_t **data,
                              uint64_t *length, const char **reason)
{
    const stk__codec_step *s = &chain->steps[i];
    int target = chain->target[i];
    stk__codec_pass pass = {
        .in = *data, .length = *length, .capacity = room, .needed = STK_MIN(needed, room)};

    if (!s->view) {
        pass.out = target
                       ? stk__scratch(state, target - 1, STK_MAX(room, chain->scratch[target - 1]))
                       : out;
        if (!pass.out) {
            *reason = NO_SCRATCH;
            return STK_ENOMEM;
        }
    }
    stk_status status = s->ops->decode(s, state, &pass);
    *reason = pass.reason;
    if (status != STK_OK)
        return status;
    if (!stk__chain_holds(s->view || pass.got <= room)) {
        *reason = wrong_size;
        return STK_EINTERNAL;
    }
    if (pass.got > room) {
        *reason = LONG_CHUNK;
        return STK_EFORMAT;
    }
    if (s->fixed && pass.got < pass.needed) {
        *reason = SHORT_CHUNK;
        return STK_ETRUNCATED;
    }
    *data = pass.out;
    *length = pass.got;
    return STK_OK;
}

/* The bytes that come out, and where they are: in `out` or elsewhere. */
static stk_status run(const stk__chain *chain, stk__codec_state *state, uint64_t needed,
                      uint8_t *out, const uint8_t **data, uint64_t *length, const char **reason)
{
    uint64_t wanted[STK__CHAIN_MAX_STEPS];

    for (uint32_t i = 0; i < chain->count; i++) {
        const stk__codec_step *s = &chain->steps[i];
        wanted[i] = needed;
        if (s->ops->decode && needed != UINT64_MAX)
            needed = needed < s->size && s->ops->prefix ? s->ops->prefix(s, needed) : UINT64_MAX;
    }
    for (uint32_t i = chain->count; i-- > 0;)
        if (chain->steps[i].ops->decode)
            STK_TRY(decode_step(chain, i, state, chain->steps[i].size, wanted[i], out, data, length,
                                reason));
    return STK_OK;
}

static const char wrong_call[] = "the memory given is not of the chunk's size (a defect in stoker)";

stk_status stk__chain_decode_prefix(const stk__chain *chain, stk__codec_state *state,
                                    const void *in, uint64_t length, void *out, uint64_t size,
                                    uint64_t needed, const char **reason)
{
    const uint8_t *data = in;

    *reason = "";
    if (size != chain->size) {
        *reason = wrong_call;
        return STK_EINVAL;
    }
    needed = STK_MIN(needed, size);
    STK_TRY(run(chain, state, needed < size ? needed : UINT64_MAX, out, &data, &length, reason));
    if (length > size) {
        *reason = LONG_CHUNK;
        return STK_EFORMAT;
    }
    if (length < needed) {
        *reason = SHORT_CHUNK;
        return STK_ETRUNCATED;
    }
    if (data != out)
        memcpy(out, data, needed);
    return STK_OK;
}

stk_status stk__chain_decode(const stk__chain *chain, stk__codec_state *state, const void *in,
                             uint64_t length, void *out, uint64_t size, const char **reason)
{
    return stk__chain_decode_prefix(chain, state, in, length, out, size, size, reason);
}

#define LONG_VARYING "the chunk holds more bytes than there is room for"

stk_status stk__chain_decode_varying(const stk__chain *chain, stk__codec_state *state,
                                     const void *in, uint64_t length, void *out, uint64_t capacity,
                                     uint64_t *got, const char **reason)
{
    uint64_t room[STK__CHAIN_MAX_STEPS], most = capacity;
    const uint8_t *data = in;

    *reason = "";
    *got = 0;
    if (!chain->varies || capacity > chain->size) {
        *reason = wrong_call;
        return STK_EINVAL;
    }
    for (uint32_t i = 0; i < chain->count; i++) {
        const stk__codec_step *s = &chain->steps[i];
        room[i] = most;
        most = step_bound(s, most);
    }
    for (uint32_t i = chain->count; i-- > 0;) {
        const stk__codec_step *s = &chain->steps[i];
        if (!s->ops->decode)
            continue;
        stk_status status =
            decode_step(chain, i, state, room[i], UINT64_MAX, out, &data, &length, reason);
        bool longer = *reason == s->ops->reasons->longer || length > room[i];
        if (status == STK_EFORMAT && longer)
            status = STK_ELIMIT;
        STK_TRY(status);
    }
    if (length > capacity) {
        *reason = LONG_VARYING;
        return STK_ELIMIT;
    }
    if (data != out)
        memcpy(out, data, length);
    *got = length;
    return STK_OK;
}

/* ---- Encoding ---- */

static stk_status check_encode(const stk__chain *chain, uint64_t size, uint64_t capacity,
                               const char **reason)
{
    if (chain->varies && size > chain->size) {
        *reason = "its elements take more bytes than a chunk may; write smaller chunks";
        return STK_ELIMIT;
    }
    const uint64_t bound =
        chain->varies ? stk__chain_bound_varying(chain, size) : stk__chain_bound(chain);
    if ((!chain->varies && size != chain->size) || capacity < bound) {
        *reason = wrong_call;
        return STK_EINVAL;
    }
    return STK_OK;
}

stk_status stk__chain_encode(const stk__chain *chain, stk__codec_state *state, const void *in,
                             uint64_t size, void *out, uint64_t capacity, uint64_t *length,
                             const char **reason)
{
    const uint8_t *data = in;

    *reason = "";
    *length = 0;
    STK_TRY(check_encode(chain, size, capacity, reason));
    for (uint32_t i = 0; i < chain->count; i++) {
        const stk__codec_step *s = &chain->steps[i];
        stk__codec_pass pass = {.in = data, .length = size, .out = out, .capacity = capacity};
        if (!stk__chain_holds(s->fixed ? size == s->size : size <= s->size)) {
            *reason = wrong_size;
            return STK_EINTERNAL;
        }
        if (!s->ops->encode) {
            *reason = "a codec of the chunk is read and not written; write with zstd";
            return STK_EKIND;
        }
        if (i + 1 < chain->count) {
            pass.capacity = chain->varies ? step_bound(s, size) : s->bound;
            pass.out = stk__scratch(state, i % 2, STK_MAX(pass.capacity, chain->scratch[i % 2]));
        }
        if (!pass.out) {
            *reason = "no memory to encode the chunk; write smaller chunks";
            return STK_ENOMEM;
        }
        stk_status status = s->ops->encode(s, state, &pass);
        *reason = pass.reason ? pass.reason : "";
        if (status != STK_OK)
            return status;
        if (!stk__chain_holds(s->fixed_out ? pass.got == s->bound : pass.got <= pass.capacity)) {
            *reason = wrong_size;
            return STK_EINTERNAL;
        }
        data = pass.out;
        size = pass.got;
    }
    if (data != out && size)
        memcpy(out, data, size);
    *length = size;
    return STK_OK;
}
