/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of Zarr metadata -> steps: v3 "codecs", v2 "filters" and "compressor". */
#include <jansson.h>

#include "codec/compile.h"
#include "codec/step.h"

#define CODEC_NAME_MAX 128

stk_status stk__chain_refuse(stk__builder *b, stk_status status, const char *what)
{
    return stk__fail_at(b->err, status, STK_STAGE_CODEC, b->spec->key, STK_NO_OFFSET,
                        "%s: codec \"%.*s\": %s", b->spec->key, CODEC_NAME_MAX, b->codec, what);
}

stk__number stk__number_of(stk_dtype dtype)
{
    static const char kinds[STK_DTYPE_COUNT] = {
        [STK_BOOL] = 'b',  [STK_UINT8] = 'u',   [STK_INT8] = 'i',    [STK_UINT16] = 'u',
        [STK_INT16] = 'i', [STK_UINT32] = 'u',  [STK_INT32] = 'i',   [STK_UINT64] = 'u',
        [STK_INT64] = 'i', [STK_FLOAT16] = 'f', [STK_FLOAT32] = 'f', [STK_FLOAT64] = 'f'};

    if ((unsigned)dtype >= STK_DTYPE_COUNT || !kinds[dtype])
        return (stk__number){0};
    return (stk__number){.kind = kinds[dtype], .size = (uint8_t)stk_dtype_size(dtype)};
}

/* Fortran order is the transpose of all axes; big endian swaps. Both are before the filters. */
static stk_status push_layout(stk__builder *b)
{
    const stk__chain_spec *spec = b->spec;
    uint32_t order[STK__CHAIN_MAX_RANK];
    stk__codec_step step;

    for (uint32_t i = 0; i < b->rank; i++)
        order[i] = b->rank - 1 - i;
    if (spec->fortran && stk__transpose_init(&step, b->shape, order, b->rank, b->item))
        STK_TRY(stk__chain_push(b, &step));
    if (!spec->big_endian || b->swap_size == 1)
        return STK_OK;
    b->number.swap = true;
    step = (stk__codec_step){.ops = &stk__codec_swap, .in_place = true, .fixed_out = true};
    step.u.swap.size = (uint8_t)b->swap_size;
    return stk__chain_push(b, &step);
}

static stk_status v2_codec(stk__builder *b, const json_t *codec)
{
    const json_t *id = json_object_get(codec, "id");
    stk__codec_kind kind;

    b->codec = json_is_string(id) ? json_string_value(id) : "?";
    if (!json_is_object(codec) || !json_is_string(id))
        return stk__chain_refuse(
            b, STK_EFORMAT,
            "a filter or compressor must be an object with an \"id\"; mend the "
            "metadata");
    return stk__codec_parse(b, false, b->codec, codec, &kind);
}

static stk_status parse_v2(stk__builder *b)
{
    const json_t *filters = b->spec->filters, *compressor = b->spec->compressor;

    b->codec = "filters";
    STK_TRY(push_layout(b));
    if (filters && !json_is_null(filters) && !json_is_array(filters))
        return stk__chain_refuse(b, STK_EFORMAT, "must be a list or null; mend the metadata");
    for (size_t i = 0; filters && i < json_array_size(filters); i++) {
        const char *id = json_string_value(json_object_get(json_array_get(filters, i), "id"));
        if (b->spec->varies && i == 0 && id && stk__codec_varies(id))
            continue; /* what it gives is what the chain decodes to */
        STK_TRY(v2_codec(b, json_array_get(filters, i)));
    }
    if (compressor && !json_is_null(compressor))
        STK_TRY(v2_codec(b, compressor));
    return STK_OK;
}

/* An object {name, configuration}, or the bare name. */
static stk_status v3_codec(stk__builder *b, const json_t *codec, stk__codec_kind *kind)
{
    const json_t *name = json_is_string(codec) ? codec : json_object_get(codec, "name");
    const json_t *configuration = json_object_get(codec, "configuration");

    b->codec = json_is_string(name) ? json_string_value(name) : "?";
    if (!json_is_string(name))
        return stk__chain_refuse(b, STK_EFORMAT,
                                 "a codec must be a name or an object with a \"name\"; mend the "
                                 "metadata");
    if (configuration && !json_is_object(configuration))
        return stk__chain_refuse(b, STK_EFORMAT,
                                 "\"configuration\" must be an object; mend the metadata");
    return stk__codec_parse(b, true, b->codec, configuration, kind);
}

static stk_status parse_v3(stk__builder *b)
{
    const json_t *codecs = b->spec->codecs;
    bool bytes = false; /* the elements are bytes already */

    b->codec = "codecs";
    if (!json_is_array(codecs))
        return stk__chain_refuse(b, STK_EFORMAT, "must be a list; mend the metadata");
    for (size_t i = 0; i < json_array_size(codecs); i++) {
        stk__codec_kind kind;
        STK_TRY(v3_codec(b, json_array_get(codecs, i), &kind));
        if (bytes != (kind == STK__BYTES_BYTES))
            return stk__chain_refuse(
                b, STK_EFORMAT,
                "is in the wrong place: first codecs of arrays, then one "
                "from array to bytes, then codecs of bytes; mend the metadata");
        bytes = bytes || kind == STK__ARRAY_BYTES;
    }
    b->codec = "codecs";
    if (!bytes)
        return stk__chain_refuse(b, STK_EFORMAT,
                                 "the list has no codec from array to bytes, such as \"bytes\"; "
                                 "mend the metadata");
    return STK_OK;
}

stk_status stk__chain_parse(stk__builder *b)
{
    b->number = stk__number_of(b->spec->dtype);
    return b->spec->codecs ? parse_v3(b) : parse_v2(b);
}
