/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters of HDF5, zfp and elements that may be missing. Input: which one, the size of an
 * element as a power of two (16: a float), their number, six bytes for the values of the filter,
 * and the chunk. What must hold: a chunk decodes to its size or fails with a reason, and no memory
 * of another is touched.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "fuzz_support.h"

#define HEAD 9

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VALUES(name) "{\"name\":\"hdf5." name "\",\"configuration\":{\"values\":"

/* The filter of the list of codecs; 0: there is no such one. */
static int filter_of(char *to, size_t room, const uint8_t *d, unsigned item)
{
    const unsigned n = d[2], *p = (const unsigned[]){d[3], d[4], d[5], d[6], d[7], d[8]};

    switch (d[0] % 10) {
    case 0:
        return snprintf(to, room, VALUES("szip") "[%u,%u,%u,%u]}}", p[0], p[1], p[2],
                        p[3] | p[4] << 8);
    case 1:
        return snprintf(to, room, VALUES("nbit") "[8,%u,%u,1,%u,%u,%u,%u]}}", p[0], n, item, p[1],
                        p[2], p[3]);
    case 2:
        return snprintf(to, room, VALUES("scaleoffset") "[%u,%u,%u,%u,%u,1,%u,%u,%u,7]}}", p[0],
                        p[1], n, p[2], item, p[3], p[4], p[5]);
    case 3:
        return snprintf(to, room, VALUES("lz4") "[%u]}}", p[0] | p[1] << 8);
    case 4:
        return snprintf(to, room, VALUES("bitshuffle") "[0,4,%u,%u,%u]}}", p[0], p[1] * 8, p[2]);
    case 5: /* the words of a header: magic, dimension and mode */
        return snprintf(to, room, VALUES("zfp") "[0,91252346,%u,%u]}}",
                        p[0] | p[1] << 8 | p[2] << 16 | p[3] << 24, p[4] << 27 | p[5] << 24);
    case 6:
        return snprintf(to, room,
                        "{\"name\":\"zfp\",\"configuration\":{\"mode\":\"%s\",\"rate\":%u,"
                        "\"precision\":%u,\"tolerance\":%u,\"minbits\":%u,\"maxbits\":%u,"
                        "\"maxprec\":%u,\"minexp\":-1074}}",
                        (const char *const[]){"reversible", "expert", "fixed_rate",
                                              "fixed_precision", "fixed_accuracy"}[p[0] % 5],
                        p[1], p[1], p[1], p[2], p[3] | p[4] << 8, p[5]);
    case 7:
        return snprintf(to, room, "\"numcodecs.zfpy\"");
    case 8: /* values that may be missing */
        return snprintf(to, room,
                        "{\"name\":\"optional\",\"configuration\":{\"mask_codecs\":[\"%s\"],"
                        "\"data_codecs\":[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"%s\"}"
                        "}%s]}}",
                        p[0] & 1 ? "bytes" : "packbits", p[0] & 2 ? "big" : "little",
                        p[0] & 4 ? ",\"zlib\"" : "");
    default: /* in the middle of others, so that sizes between steps differ */
        return snprintf(to, room,
                        "\"fletcher32\",{\"name\":\"shuffle\",\"configuration\":{\"elementsize\":"
                        "%u}},\"zlib\"",
                        item);
    }
}

static void decode(const stk__chain *chain, stk__codec_state *state, const uint8_t *chunk,
                   size_t length, uint64_t needed)
{
    uint64_t size = stk__chain_size(chain);
    uint8_t *copy = malloc(length + 1), *out = malloc(size);
    const char *reason = NULL;

    FUZZ_CHECK(copy && out);
    memcpy(copy + 1, chunk, length); /* so that no byte can be read where there is none */
    stk_status status =
        stk__chain_decode_prefix(chain, state, copy + 1, length, out, size, needed, &reason);
    if (status == STK_OK)
        (void)fuzz_sum(out, needed);
    else
        FUZZ_CHECK(reason && reason[0] && status != STK_EINVAL && status != STK_EINTERNAL);
    free(copy);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[1024], filter[768];
    json_error_t error;
    stk__chain_spec spec;
    stk__chain *chain = NULL;
    stk__codec_state *state = NULL;
    stk_error err;

    if (size < HEAD || !data[2])
        return 0;
    const unsigned item = 1u << (data[1] & 3);
    const bool real = data[1] & 16 && item >= 4, array = data[0] % 10 >= 6 && data[0] % 10 <= 8;
    const int64_t shape[2] = {1, data[2]};
    const double missing = -1;
    const int n = filter_of(filter, sizeof filter, data, item);
    FUZZ_CHECK(n > 0 && n < (int)sizeof filter);
    snprintf(text, sizeof text, "[%s%s]",
             array ? "" : "{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}},",
             filter);
    json_t *codecs = json_loads(text, 0, &error);
    FUZZ_CHECK(codecs);
    stk_context *ctx = fuzz_context();
    stk__chain_spec_init(&spec);
    spec.key = "fuzz";
    spec.dtype = real ? (item == 4 ? STK_FLOAT32 : STK_FLOAT64)
                      : (const stk_dtype[]){STK_INT8, STK_INT16, STK_INT32, STK_INT64}[data[1] & 3];
    spec.itemsize = spec.swap_size = item;
    spec.rank = 2;
    spec.shape = shape;
    if (data[0] % 10 == 8) {
        spec.dtype = STK_FLOAT64;
        spec.itemsize = spec.swap_size = 8;
        spec.missing = &missing;
        spec.stored =
            (const stk_dtype[]){STK_BOOL, STK_UINT16, STK_INT32, STK_FLOAT64}[data[1] & 3];
    }
    spec.codecs = codecs;
    stk_error_init(&err);
    if (stk__chain_create(ctx, &spec, &chain, &err) == STK_OK) {
        FUZZ_CHECK(stk__codec_state_create(ctx, &state, &err) == STK_OK);
        decode(chain, state, data + HEAD, size - HEAD, stk__chain_size(chain));
        decode(chain, state, data + HEAD, (size - HEAD) / 2, stk__chain_size(chain));
        decode(chain, state, data + HEAD, size - HEAD, stk__chain_size(chain) / 3);
        stk__codec_state_destroy(&state);
        stk__chain_destroy(&chain);
    } else {
        FUZZ_CHECK(!chain && err.text[0] && err.status != STK_EINTERNAL);
    }
    json_decref(codecs);
    stk_context_destroy(&ctx);
    return 0;
}
