/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements that may be missing [zarrs 0.23 codec/array_to_bytes/optional.rs]: the lengths of two
 * parts as 8 bytes each, little endian, then these: which elements are there, as booleans, and the
 * values of those alone, each part with codecs of its own.
 */
#include <jansson.h>

#include "codec/config.h"
#include "codec/kernels.h"
#include "codec/number.h"
#include "codec/state.h"

#define LENGTH_BYTES 8
#define HEADER       (2 * LENGTH_BYTES)
#define SLACK        32768 /* that the codecs of values may add, besides an eighth */

static const stk__reasons reasons = STK__REASONS("optional");

/* ---- Configuration ---- */

/* Behind the order of bytes are codecs of bytes, whose size nobody knows before. */
static stk_status values_chain(stk__builder *b, const json_t *config, stk__chain_spec spec,
                               struct stk__optional_step *o)
{
    const json_t *list = json_object_get(config, "data_codecs"), *first = json_array_get(list, 0);
    const char *name =
        json_string_value(json_is_object(first) ? json_object_get(first, "name") : first);
    const char *endian =
        json_string_value(json_object_get(json_object_get(first, "configuration"), "endian"));

    if (!name || strcmp(name, "bytes") != 0)
        return stk__config_wrong(b, "data_codecs", "does not begin with bytes");
    o->swap = endian && !strcmp(endian, "big");
    json_t *rest = json_pack("[s]", "vlen-bytes"); /* what is left is such a chain's */
    for (size_t i = 1; rest && i < json_array_size(list); i++)
        if (json_array_append(rest, json_array_get(list, i)) != 0) {
            json_decref(rest);
            rest = NULL;
        }
    if (!rest)
        return stk__chain_refuse(b, STK_ENOMEM, "no memory for it");
    spec.codecs = rest;
    spec.varies = true;
    stk_status status = stk__chain_create(b->chain->context, &spec, &o->values, b->err);
    json_decref(rest);
    if (status == STK_OK && o->count * o->stored > stk__chain_size(o->values))
        return stk__chain_refuse(b, STK_ELIMIT, "the chunk is too large; write smaller chunks");
    return status;
}

static stk_status build(stk__builder *b, const json_t *config, stk__codec_step *step)
{
    struct stk__optional_step *o = &step->u.optional;
    int64_t shape = (int64_t)o->count;
    stk__chain_spec spec;

    stk__chain_spec_init(&spec);
    spec.key = b->spec->key;
    spec.dtype = STK_BOOL;
    spec.rank = 1;
    spec.shape = &shape;
    spec.skip_checksums = b->spec->skip_checksums;
    spec.codecs = json_object_get(config, "mask_codecs");
    if (!json_is_array(spec.codecs))
        return stk__config_wrong(b, "mask_codecs", "is not a list");
    STK_TRY(stk__chain_create(b->chain->context, &spec, &o->mask, b->err));
    STK_TRY(values_chain(b, config, spec, o));
    const uint64_t size = o->count * o->stored;
    o->bound = HEADER + stk__chain_bound(o->mask) + size + size / 8 + SLACK;
    step->block = o->count + o->count * o->stored;
    return stk__chain_push(b, step);
}

stk_status stk__config_optional(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    const stk__chain_spec *spec = b->spec;
    stk__codec_step step = {.ops = ops};
    struct stk__optional_step *o = &step.u.optional;

    if (!spec->missing)
        return stk__chain_refuse(b, STK_EKIND,
                                 "is of elements that may be missing, and the type is another; "
                                 "mend the metadata");
    o->item = (uint8_t)spec->itemsize; /* a float's or a time's */
    o->number = stk__number_of(spec->stored);
    o->converts = spec->stored != spec->dtype;
    o->stored = o->converts ? o->number.size : o->item;
    o->count = b->size / o->item;
    memcpy(o->missing, spec->missing, o->item);
    stk_status status = build(b, config, &step);
    if (status != STK_OK)
        stk__optional_release(&step);
    return status;
}

void stk__optional_release(stk__codec_step *step)
{
    stk__chain_destroy(&step->u.optional.mask);
    stk__chain_destroy(&step->u.optional.values);
}

/* ---- Decoding ---- */

/* The parts are chains of their own, and so have memory of their own between their steps. */
static stk__codec_state *inner_state(stk__codec_state *state)
{
    if (!state->inner && stk__codec_state_create(state->context, &state->inner, NULL) != STK_OK)
        return NULL;
    return state->inner;
}

static void put(const struct stk__optional_step *o, const uint8_t *value, uint8_t *out)
{
    stk__wide wide;

    if (!o->converts) {
        memcpy(out, value, o->item);
        return;
    }
    stk__number_load(o->number, value, 1, &wide);
    const char class = stk__number_class(o->number);
    const double x = class == 'u'   ? (double)wide.u[0]
                     : class == 'i' ? (double)wide.i[0]
                                    : wide.f[0];
    memcpy(out, &x, sizeof x);
}

static void spread(const struct stk__optional_step *o, const uint8_t *mask, const uint8_t *values,
                   uint8_t *out)
{
    for (uint64_t i = 0; i < o->count; i++, out += o->item) {
        if (!mask[i]) {
            memcpy(out, o->missing, o->item);
            continue;
        }
        put(o, values, out);
        values += o->stored;
    }
}

static stk_status decode_values(const struct stk__optional_step *o, stk__codec_state *state,
                                const uint8_t *in, uint64_t length, uint64_t count, uint8_t *out,
                                stk__codec_pass *pass)
{
    uint64_t got = 0, size = count * o->stored;

    if (!count)
        return STK_OK;
    stk_status status =
        stk__chain_decode_varying(o->values, state, in, length, out, size, &got, &pass->reason);
    if (status == STK_ELIMIT)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    if (status == STK_OK && got < size)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    if (status == STK_OK && o->swap && o->stored > 1)
        state->kernels->swap(out, out, count, o->stored);
    return status;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    const struct stk__optional_step *o = &step->u.optional;

    if (pass->length < HEADER)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    uint64_t left = pass->length - HEADER;
    uint64_t mask_bytes = stk__little_endian(pass->in, LENGTH_BYTES);
    uint64_t bytes = stk__little_endian(pass->in + LENGTH_BYTES, LENGTH_BYTES);
    if (mask_bytes > left || bytes > left - mask_bytes)
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    if (bytes < left - mask_bytes)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    stk__codec_state *inner = inner_state(state);
    uint8_t *mask = stk__scratch(state, STK__SCRATCH_BLOCK, step->block);
    if (!inner || !mask)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    const uint8_t *in = pass->in + HEADER;
    STK_TRY(stk__chain_decode(o->mask, inner, in, mask_bytes, mask, o->count, &pass->reason));
    uint64_t count = 0;
    for (uint64_t i = 0; i < o->count; i++)
        count += mask[i] != 0;
    STK_TRY(decode_values(o, inner, in + mask_bytes, bytes, count, mask + o->count, pass));
    spread(o, mask, mask + o->count, pass->out);
    pass->got = o->count * o->item;
    return STK_OK;
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    *out = step->u.optional.bound;
    return true;
}

const stk__codec_ops stk__codec_optional = {
    .name = "optional", .reasons = &reasons, .decode = decode, .bound = bound};
