/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of the golden files of codecs: their bytes, and what their chain is made of. */
#ifndef STK_TESTS_GOLDEN_CODEC_CASES_H
#define STK_TESTS_GOLDEN_CODEC_CASES_H

#include <jansson.h>
#include <string.h>

#include "codec/codec.h"
#include "support/support.h"

#define CASE_MOST 65536 /* bytes of a chunk, encoded or decoded */

/* Base64 of a member -> bytes, CASE_MOST at most; gives how many. */
static inline size_t case_bytes(const json_t *c, const char *key, uint8_t *out)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text = json_string_value(json_object_get(c, key));
    size_t n = 0, bits = 0;
    uint32_t word = 0;

    assert_non_null(text);
    for (; *text && *text != '='; text++) {
        const char *at = strchr(set, *text);
        assert_non_null(at);
        word = word << 6 | (uint32_t)(at - set);
        bits += 6;
        if (bits >= 8) {
            assert_true(n < CASE_MOST);
            out[n++] = (uint8_t)(word >> (bits -= 8));
        }
    }
    return n;
}

static inline const char *case_text(const json_t *c, const char *key)
{
    return json_string_value(json_object_get(c, key));
}

/* The chain's; it holds as long as the case and `shape`. */
static inline stk__chain_spec case_spec(const json_t *c, int64_t shape[STK__CHAIN_MAX_RANK])
{
    const json_t *list = json_object_get(c, "shape");
    const char *order = case_text(c, "order");
    stk__chain_spec spec;

    stk__chain_spec_init(&spec);
    spec.key = case_text(c, "name");
    spec.dtype = stk_dtype_parse(case_text(c, "dtype"));
    spec.itemsize = (uint32_t)json_integer_value(json_object_get(c, "itemsize"));
    spec.swap_size = (uint32_t)json_integer_value(json_object_get(c, "swap_size"));
    spec.rank = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < spec.rank; i++)
        shape[i] = json_integer_value(json_array_get(list, i));
    spec.shape = shape;
    spec.codecs = json_object_get(c, "codecs");
    spec.filters = json_object_get(c, "filters");
    spec.compressor = json_object_get(c, "compressor");
    spec.big_endian = json_is_true(json_object_get(c, "big_endian"));
    spec.fortran = order && *order == 'F';
    return spec;
}

#endif
