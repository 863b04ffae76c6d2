/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs by name: their configurations, held against what they may be. */
#include <math.h>

#include <jansson.h>
#include <lzma.h>
#include <zstd.h>

#include "codec/compile.h"
#include "codec/config.h"
#include "codec/number.h"

#define LZMA_PART 4 /* of memory_limit: what one dictionary may take */

/* ---- Compressors ---- */

static stk_status parse_zstd(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops, .streams = true};
    const json_t *checksum = json_object_get(config, "checksum");
    int64_t level = 0;

    if (checksum && !json_is_boolean(checksum) && !json_is_null(checksum))
        return stk__config_wrong(b, "checksum", "is neither true nor false");
    STK_TRY(stk__config_level(b, config, "level", ZSTD_minCLevel(), ZSTD_maxCLevel(), &level));
    step.u.zstd.level = (int)level;
    step.u.zstd.checksum = json_is_true(checksum);
    return stk__chain_push(b, &step);
}

static stk_status parse_lz4(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops, .streams = true};
    int64_t acceleration = 1;

    STK_TRY(stk__config_level(b, config, "acceleration", 1, 65537, &acceleration));
    step.u.lz4.acceleration = (int)acceleration;
    return stk__chain_push(b, &step);
}

static stk_status get_shuffle(stk__builder *b, const json_t *config, int *shuffle)
{
    static const char *const names[] = {"noshuffle", "shuffle", "bitshuffle"};
    const json_t *v = json_object_get(config, "shuffle");
    int64_t value = b->item > 1 ? 1 : 2;

    if (json_is_string(v)) {
        for (int i = 0; i < (int)STK_COUNT(names); i++)
            if (!strcmp(json_string_value(v), names[i])) {
                *shuffle = i;
                return STK_OK;
            }
        return stk__config_wrong(b, "shuffle", "is not one of noshuffle, shuffle and bitshuffle");
    }
    int64_t given = -1; /* numcodecs: by the size of the elements */
    STK_TRY(stk__config_int(b, config, "shuffle", -1, 2, &given));
    *shuffle = (int)(given < 0 ? value : given);
    return STK_OK;
}

static stk_status parse_blosc(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    static const char *const names[] = {"lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib"};
    stk__codec_step step = {.ops = ops, .streams = true};
    const json_t *cname = json_object_get(config, "cname");
    const char *name = json_is_string(cname) ? json_string_value(cname) : "lz4";
    int64_t level = 5, type_size = b->item <= 255 ? b->item : 1, block_size = 0;
    size_t i = 0;

    while (i < STK_COUNT(names) && strcmp(name, names[i]))
        i++;
    if (i == STK_COUNT(names) || (cname && !json_is_string(cname)))
        return stk__config_wrong(b, "cname",
                                 "is not one of lz4, lz4hc, blosclz, zstd, snappy and zlib");
    STK_TRY(stk__config_int(b, config, "clevel", 0, 9, &level));
    STK_TRY(stk__config_int(b, config, "typesize", 0, INT32_MAX, &type_size));
    STK_TRY(stk__config_int(b, config, "blocksize", 0, INT32_MAX, &block_size));
    STK_TRY(get_shuffle(b, config, &step.u.blosc.shuffle));
    memcpy(step.u.blosc.name, names[i], strlen(names[i]) + 1);
    step.u.blosc.level = (int)level;
    step.u.blosc.type_size = (int)STK_MAX(1, STK_MIN(type_size, 255));
    step.u.blosc.block_size = (int)block_size;
    /* A block, and its planes of bits: each is at most the chunk, and mostly much less. */
    step.block = 2 * b->size;
    return stk__chain_push(b, &step);
}

static stk_status parse_deflate(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops, .streams = true};
    int64_t level = -1;

    STK_TRY(stk__config_level(b, config, "level", -1, 9, &level));
    step.u.deflate.level = (int)level;
    step.u.deflate.format = ops == &stk__codec_gzip ? 'g' : ops == &stk__codec_zlib ? 'z' : 'd';
    return stk__chain_push(b, &step);
}

static stk_status parse_bz2(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    int64_t level = 1;

    STK_TRY(stk__config_level(b, config, "level", 1, 9, &level));
    step.u.bz2.level = (int)level;
    return stk__chain_push(b, &step);
}

/* One of Python's filter specifiers. */
static stk_status lzma_filter_of(stk__builder *b, const json_t *config, struct stk__lzma_filter *f)
{
    const struct {
        const char *key;
        uint32_t *value;
    } keys[] = {{"dict_size", &f->dict_size},
                {"lc", &f->lc},
                {"lp", &f->lp},
                {"pb", &f->pb},
                {"mode", &f->mode},
                {"nice_len", &f->nice_len},
                {"mf", &f->mf},
                {"depth", &f->depth}};
    int64_t id = -1, preset = LZMA_PRESET_DEFAULT;

    STK_TRY(stk__config_int(b, config, "id", 0, INT64_MAX, &id));
    if (id < 0)
        return stk__config_wrong(b, "filters", "has one without an \"id\"");
    STK_TRY(stk__config_int(b, config, "preset", 0, UINT32_MAX, &preset));
    *f = (struct stk__lzma_filter){.id = (uint64_t)id, .preset = (uint32_t)preset};
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        int64_t value = -1;
        STK_TRY(stk__config_int(b, config, keys[i].key, 0, UINT32_MAX, &value));
        if (value < 0)
            continue;
        *keys[i].value = (uint32_t)value;
        f->given |= 1u << i;
    }
    int64_t value = 0;
    STK_TRY(stk__config_int(b, config, id == LZMA_FILTER_DELTA ? "dist" : "start_offset", 0,
                            UINT32_MAX, &value));
    f->value = (uint32_t)value;
    return STK_OK;
}

static stk_status parse_lzma(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops, .streams = true};
    const json_t *filters = json_object_get(config, "filters");
    int64_t format = 1, check = -1, preset = LZMA_PRESET_DEFAULT;

    STK_TRY(stk__config_int(b, config, "format", 0, 3, &format));
    STK_TRY(stk__config_int(b, config, "check", -1, 15, &check));
    STK_TRY(stk__config_int(b, config, "preset", 0, UINT32_MAX, &preset));
    step.u.lzma.format = (int)format;
    step.u.lzma.check = (int)check;
    step.u.lzma.preset = (uint32_t)preset;
    if (filters && !json_is_null(filters) && !json_is_array(filters))
        return stk__config_wrong(b, "filters", "is neither a list nor null");
    size_t count = json_array_size(filters);
    if (count > STK__LZMA_FILTERS || (format == 3 && !count))
        return stk__config_wrong(b, "filters", "has not 1 to 4 filters");
    for (size_t i = 0; i < count; i++)
        STK_TRY(lzma_filter_of(b, json_array_get(filters, i), &step.u.lzma.filter[i]));
    step.u.lzma.filters = (int)count;
    step.u.lzma.memory = stk__lzma_memory(&step.u.lzma, b->size);
    if (step.u.lzma.memory > stk__context_memory_limit(b->chain->context) / LZMA_PART)
        return stk__chain_refuse(b, STK_ELIMIT,
                                 "its dictionary takes more than a quarter of memory_limit; raise "
                                 "that, or write the array with a lower preset");
    return stk__chain_push(b, &step);
}

/* ---- Checksums and order of bytes ---- */

static stk_status parse_checksum(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops, .view = true, .fixed_out = true};
    const json_t *location = json_object_get(config, "location");
    const char *where = json_string_value(location);

    step.u.checksum.skip = b->spec->skip_checksums;
    step.u.checksum.at_start = ops == &stk__codec_crc32 || ops == &stk__codec_adler32;
    if (location && !json_is_null(location)) {
        if (!where || (strcmp(where, "start") && strcmp(where, "end")))
            return stk__config_wrong(b, "location", "is neither start nor end");
        step.u.checksum.at_start = !strcmp(where, "start");
    }
    return stk__chain_push(b, &step);
}

static stk_status parse_shuffle(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops, .fixed_out = true};
    int64_t element = b->item; /* as netcdf-c means it; numcodecs always writes it */

    STK_TRY(stk__config_int(b, config, "elementsize", 0, INT32_MAX, &element));
    if (element < 2)
        return STK_OK;
    step.u.shuffle.element = (uint32_t)element;
    return stk__chain_push(b, &step);
}

static stk_status parse_bytes(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops, .in_place = true, .fixed_out = true};
    const json_t *v = json_object_get(config, "endian");
    const char *endian = json_string_value(v);

    if (v && !json_is_null(v) && (!endian || (strcmp(endian, "little") && strcmp(endian, "big"))))
        return stk__config_wrong(b, "endian", "is neither little nor big");
    if (b->swap_size == 1)
        return STK_OK;
    if (!endian)
        return stk__config_wrong(b, "endian",
                                 "is missing, which elements of several bytes must have");
    if (!strcmp(endian, "little"))
        return STK_OK;
    step.u.swap.size = (uint8_t)b->swap_size;
    return stk__chain_push(b, &step);
}

static stk_status get_order(stk__builder *b, const json_t *config, uint32_t *order)
{
    const json_t *v = json_object_get(config, "order");
    const char *word = json_string_value(v);
    uint64_t seen = 0;

    if (word && (!strcmp(word, "C") || !strcmp(word, "F"))) { /* of older drafts */
        for (uint32_t i = 0; i < b->rank; i++)
            order[i] = *word == 'C' ? i : b->rank - 1 - i;
        return STK_OK;
    }
    if (!json_is_array(v) || json_array_size(v) != b->rank)
        return stk__config_wrong(b, "order", "is not a list with a number for each dimension");
    for (uint32_t i = 0; i < b->rank; i++) {
        const json_t *axis = json_array_get(v, i);
        json_int_t n = json_is_integer(axis) ? json_integer_value(axis) : -1;
        if (n < 0 || n >= b->rank || seen >> n & 1)
            return stk__config_wrong(b, "order", "is not a permutation of the dimensions");
        seen |= UINT64_C(1) << n;
        order[i] = (uint32_t)n;
    }
    return STK_OK;
}

static stk_status parse_transpose(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    uint32_t order[STK__CHAIN_MAX_RANK];
    uint64_t shape[STK__CHAIN_MAX_RANK];
    stk__codec_step step;

    STK_TRY(get_order(b, config, order));
    if (stk__transpose_init(&step, b->shape, order, b->rank, b->item))
        STK_TRY(stk__chain_push(b, &step));
    for (uint32_t i = 0; i < b->rank; i++)
        shape[i] = b->shape[order[i]];
    memcpy(b->shape, shape, b->rank * sizeof *shape);
    return STK_OK;
}

/* ---- Filters of numbers ---- */

static stk_status push_numbers(stk__builder *b, stk__codec_step *step)
{
    stk__number from = step->u.number.from, to = step->u.number.to;

    STK_TRY(stk__chain_view(b, from.size));
    step->fixed_out = true;
    step->in_place = from.size == to.size;
    STK_TRY(stk__chain_push(b, step));
    b->number = to;
    b->item = b->swap_size = to.size;
    return STK_OK;
}

static bool same_number(stk__number a, stk__number b)
{
    return a.kind == b.kind && a.size == b.size && a.swap == b.swap;
}

/* The types "dtype" (default: what the elements are) and "astype" (default: "dtype"). */
static stk_status get_types(stk__builder *b, const json_t *config, stk__codec_step *step)
{
    step->u.number.from = b->number;
    STK_TRY(stk__config_type(b, config, "dtype", &step->u.number.from));
    step->u.number.to = step->u.number.from;
    return stk__config_type(b, config, "astype", &step->u.number.to);
}

static stk_status parse_astype(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};

    step.u.number.from = b->number;
    STK_TRY(stk__config_type(b, config, "decode_dtype", &step.u.number.from));
    STK_TRY(stk__config_type(b, config, "encode_dtype", &step.u.number.to));
    if (same_number(step.u.number.from, step.u.number.to))
        return STK_OK;
    return push_numbers(b, &step);
}

static stk_status parse_delta(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};

    STK_TRY(get_types(b, config, &step));
    char from = step.u.number.from.kind, to = step.u.number.to.kind;
    if ((from != 'f' && to == 'f') || (from == 'b') != (to == 'b'))
        return stk__chain_refuse(
            b, STK_EKIND,
            "differences of this type are not kept in the other one; write the "
            "array with \"astype\" of the same kind");
    return push_numbers(b, &step);
}

static stk_status parse_scale(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    bool integers = true;

    STK_TRY(get_types(b, config, &step));
    STK_TRY(stk__config_number(b, config, "scale", &step.u.number.scale, &step.u.number.int_scale,
                               &integers));
    STK_TRY(stk__config_number(b, config, "offset", &step.u.number.offset,
                               &step.u.number.int_offset, &integers));
    if (step.u.number.scale == 0)
        return stk__config_wrong(b, "scale", "is 0");
    step.u.number.integers = integers;
    return push_numbers(b, &step);
}

/* The power of two whose multiples have the precision of so many decimal digits [numcodecs]. */
static stk_status parse_quantize(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    int64_t digits = INT64_MIN;

    STK_TRY(get_types(b, config, &step));
    STK_TRY(stk__config_int(b, config, "digits", -300, 300, &digits));
    if (digits == INT64_MIN)
        return stk__config_wrong(b, "digits", "is missing");
    if (step.u.number.from.kind != 'f' || step.u.number.to.kind != 'f')
        return stk__config_wrong(b, "dtype", "is not a float");
    double exponent = log10(pow(10.0, -(double)digits));
    exponent = exponent < 0 ? floor(exponent) : ceil(exponent);
    step.u.number.scale = pow(2.0, ceil(log2(pow(10.0, -exponent))));
    return push_numbers(b, &step);
}

static stk_status parse_bitround(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops, .fixed_out = true};
    int64_t keep = -1;

    STK_TRY(stk__config_int(b, config, "keepbits", 0, 52, &keep));
    if (keep < 0)
        return stk__config_wrong(b, "keepbits", "is missing");
    if (b->number.kind == 'f' && !b->number.swap) {
        step.u.bitround.size = b->number.size;
        step.u.bitround.bits = b->number.size == 2 ? 10 : b->number.size == 4 ? 23 : 52;
        if (keep > step.u.bitround.bits)
            return stk__config_wrong(b, "keepbits", "is more than the bits of this type");
    }
    step.u.bitround.keep_bits = (uint32_t)keep;
    return stk__chain_push(b, &step);
}

static stk_status push_packbits(stk__builder *b, stk__codec_step *step)
{
    STK_TRY(stk__chain_view(b, 1));
    step->u.packbits.count = b->size;
    step->fixed_out = true;
    STK_TRY(stk__chain_push(b, step));
    stk__chain_to_bytes(b);
    return STK_OK;
}

static stk_status parse_packbits(stk__builder *b, const json_t *config, const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};

    step.u.packbits.padding = 's';
    step.u.packbits.msb_first = true;
    return push_packbits(b, &step);
}

/* [zarr-extensions codecs/packbits]: of booleans alone. */
static stk_status parse_packbits_v3(stk__builder *b, const json_t *config,
                                    const stk__codec_ops *ops)
{
    stk__codec_step step = {.ops = ops};
    const json_t *v = json_object_get(config, "padding_encoding");
    const char *padding = v && !json_is_null(v) ? json_string_value(v) : "none";
    int64_t first = 0, last = 0;

    if (b->number.kind != 'b')
        return stk__chain_refuse(b, STK_EKIND,
                                 "is read for bool alone; write the array with \"bytes\"");
    STK_TRY(stk__config_int(b, config, "first_bit", 0, 0, &first));
    STK_TRY(stk__config_int(b, config, "last_bit", 0, 0, &last));
    if (!padding ||
        (strcmp(padding, "none") && strcmp(padding, "first_byte") && strcmp(padding, "last_byte") &&
         strcmp(padding, "start_byte") && strcmp(padding, "end_byte")))
        return stk__config_wrong(b, "padding_encoding",
                                 "is not one of none, first_byte and last_byte");
    step.u.packbits.padding = *padding == 'n' ? 0 : *padding == 'f' || *padding == 's' ? 's' : 'e';
    return push_packbits(b, &step);
}

/* ---- The table ---- */

static const struct codec {
    const char *id;
    stk__codec_kind kind;
    const stk__codec_ops *ops;
    stk__config_fn *parse;
    bool v3_only;
} codecs[] = {
    {"bytes", STK__ARRAY_BYTES, &stk__codec_swap, parse_bytes, true},
    {"endian", STK__ARRAY_BYTES, &stk__codec_swap, parse_bytes, true}, /* its name in drafts */
    {"transpose", STK__ARRAY_ARRAY, &stk__codec_transpose, parse_transpose, true},
    {"zstd", STK__BYTES_BYTES, &stk__codec_zstd, parse_zstd, false},
    {"lz4", STK__BYTES_BYTES, &stk__codec_lz4, parse_lz4, false},
    {"blosc", STK__BYTES_BYTES, &stk__codec_blosc, parse_blosc, false},
    {"gzip", STK__BYTES_BYTES, &stk__codec_gzip, parse_deflate, false},
    {"zlib", STK__BYTES_BYTES, &stk__codec_zlib, parse_deflate, false},
    {"deflate", STK__BYTES_BYTES, &stk__codec_deflate, parse_deflate, false},
    {"bz2", STK__BYTES_BYTES, &stk__codec_bz2, parse_bz2, false},
    {"lzma", STK__BYTES_BYTES, &stk__codec_lzma, parse_lzma, false},
    {"crc32c", STK__BYTES_BYTES, &stk__codec_crc32c, parse_checksum, false},
    {"crc32", STK__BYTES_BYTES, &stk__codec_crc32, parse_checksum, false},
    {"adler32", STK__BYTES_BYTES, &stk__codec_adler32, parse_checksum, false},
    {"fletcher32", STK__BYTES_BYTES, &stk__codec_fletcher32, parse_checksum, false},
    {"shuffle", STK__BYTES_BYTES, &stk__codec_shuffle, parse_shuffle, false},
    {"delta", STK__ARRAY_ARRAY, &stk__codec_delta, parse_delta, false},
    {"fixedscaleoffset", STK__ARRAY_ARRAY, &stk__codec_fixedscaleoffset, parse_scale, false},
    {"quantize", STK__ARRAY_ARRAY, &stk__codec_quantize, parse_quantize, false},
    {"bitround", STK__ARRAY_ARRAY, &stk__codec_bitround, parse_bitround, false},
    {"packbits", STK__ARRAY_ARRAY, &stk__codec_packbits, parse_packbits, false},
    {"astype", STK__ARRAY_ARRAY, &stk__codec_astype, parse_astype, false},
    {"optional", STK__ARRAY_BYTES, &stk__codec_optional, stk__config_optional, true},
    {"hdf5.nbit", STK__BYTES_BYTES, &stk__codec_nbit, stk__config_nbit, true},
    {"hdf5.scaleoffset", STK__BYTES_BYTES, &stk__codec_scaleoffset, stk__config_scaleoffset, true},
    {"hdf5.lz4", STK__BYTES_BYTES, &stk__codec_hdf5_lz4, stk__config_hdf5_lz4, true},
    {"hdf5.bitshuffle", STK__BYTES_BYTES, &stk__codec_bitshuffle, stk__config_bitshuffle, true},
#ifdef STK_WITH_SZIP
    {"hdf5.szip", STK__BYTES_BYTES, &stk__codec_szip, stk__config_szip, true},
#endif
#ifdef STK_WITH_ZFP
    {"zfp", STK__ARRAY_BYTES, &stk__codec_zfp, stk__config_zfp, true},
    {"zfpy", STK__ARRAY_BYTES, &stk__codec_zfpy, stk__config_zfpy, false},
    {"hdf5.zfp", STK__BYTES_BYTES, &stk__codec_hdf5_zfp, stk__config_hdf5_zfp, true},
#endif
};

#define WITHOUT_ZFP                                                                                \
    "is not built in; build stoker with libzfp (STOKER_WITH_ZFP), or write the array again with "  \
    "bitround and zstd"

static const struct {
    const char *id, *why;
} refused[] = {
    {"pickle",
     "pickled objects are never read, since reading them runs the code in them; write the "
     "array again with numbers or texts of fixed length"},
    {"json2", "objects are not read; write the array again with numbers or texts of fixed length"},
    {"json", "objects are not read; write the array again with numbers or texts of fixed length"},
    {"msgpack",
     "objects are not read; write the array again with numbers or texts of fixed length"},
    {"msgpack2",
     "objects are not read; write the array again with numbers or texts of fixed length"},
    {"vlen-utf8", "is of elements of varying length, and the type is another; mend the metadata"},
    {"vlen-bytes", "is of elements of varying length, and the type is another; mend the metadata"},
    {"vlen-array", "elements of varying length are not read; write them with fixed length"},
    {"categorize", "texts of varying length are not read; write their numbers"},
    {"pcodec", "is not built in; write the array again with zstd"},
    {"pco", "is not built in; write the array again with zstd"},
#ifndef STK_WITH_ZFP
    {"zfpy", WITHOUT_ZFP},
    {"zfp", WITHOUT_ZFP},
    {"hdf5.zfp", WITHOUT_ZFP},
#endif
#ifndef STK_WITH_SZIP
    {"hdf5.szip", "is not built in; build stoker with libaec (STOKER_WITH_SZIP), or write the file "
                  "again with deflate"},
#endif
    {"sharding_indexed", "may be only the one codec of an array, or inside another such one"},
};

/* "numcodecs.zstd" of zarr-python, the URIs of zarrs: what is at the end is the id. */
static const char *id_of(const char *name, bool *numcodecs)
{
    static const char *const prefixes[] = {"numcodecs.", "zarrs."};
    const char *slash = strrchr(name, '/');

    for (size_t i = 0; i < STK_COUNT(prefixes); i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) {
            *numcodecs = true;
            return name + strlen(prefixes[i]);
        }
    if (slash && strstr(name, "://")) {
        *numcodecs = strstr(name, "numcodecs") != NULL;
        return slash + 1;
    }
    return name;
}

bool stk__codec_varies(const char *id)
{
    return !strcmp(id, "vlen-utf8") || !strcmp(id, "vlen-bytes");
}

stk_status stk__codec_parse(stk__builder *b, bool v3, const char *name, const json_t *configuration,
                            stk__codec_kind *kind)
{
    bool numcodecs = !v3;
    const char *id = v3 ? id_of(name, &numcodecs) : name;

    if (v3 && b->spec->varies && stk__codec_varies(id)) {
        *kind = STK__ARRAY_BYTES; /* what it gives is what the chain decodes to */
        return STK_OK;
    }
    for (size_t i = 0; i < STK_COUNT(refused); i++)
        if (!strcmp(id, refused[i].id))
            return stk__chain_refuse(b, STK_EKIND, refused[i].why);
    for (size_t i = 0; i < STK_COUNT(codecs); i++) {
        const struct codec *c = &codecs[i];
        if (strcmp(id, c->id) || (c->v3_only && !v3))
            continue;
        *kind = c->kind;
        if (b->spec->missing && c->kind != STK__BYTES_BYTES && c->ops != &stk__codec_optional)
            return stk__chain_refuse(b, STK_EKIND,
                                     "has no place for elements that are missing; write them with "
                                     "\"optional\"");
        if (b->spec->varies && c->kind != STK__BYTES_BYTES)
            return stk__chain_refuse(b, STK_EKIND,
                                     "is of elements of fixed length; write texts and bytes of "
                                     "varying length with vlen-utf8 or vlen-bytes");
        if (c->ops == &stk__codec_packbits && v3 && !numcodecs) {
            *kind = STK__ARRAY_BYTES;
            return parse_packbits_v3(b, configuration, c->ops);
        }
        STK_TRY(c->parse(b, configuration, c->ops));
        if (c->kind == STK__BYTES_BYTES)
            stk__chain_to_bytes(b);
        return STK_OK;
    }
    return stk__chain_refuse(b, STK_EKIND,
                             "is not known; write the array again with zstd, blosc, lz4 or gzip");
}
