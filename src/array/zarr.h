/* metadata of Zarr -> an array. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_ZARR_H
#define STK_SRC_ARRAY_ZARR_H

#include "array/room.h"

#define STK__ZARR_V3       "zarr.json"
#define STK__ZARR_V2_ARRAY ".zarray"
#define STK__ZARR_V2_GROUP ".zgroup"
#define STK__ZARR_V2_ATTRS ".zattrs"
#define STK__ZARR_V2_ALL   ".zmetadata"

/* Zarr metadata that has been read (zarr_v2.c, zarr_v3.c). `attributes` may be NULL. */
stk_status stk__zarr_v3(stk_array *a, const json_t *metadata, const char *key, stk_error *err);
stk_status stk__zarr_v2(stk_array *a, const json_t *metadata, const json_t *attributes,
                        const char *key, stk_error *err);
stk_status stk__zarr_attributes(stk_array *a, const json_t *attributes, const char *key,
                                stk_error *err);
/* Ask for the metadata of an array or group, of both versions, at once. */
void stk__zarr_expect(stk_store *store);
/* Read and parse a metadata document. *found false: there is none of that key. */
stk_status stk__zarr_load(stk_store *store, const char *key, stk__json *out, bool *found,
                          stk_error *err);
/* The known keys of an object, NULL-ended; any other is refused unless its value may be ignored. */
stk_status stk__zarr_known(const json_t *object, const char *const *known, const char *key,
                           stk_error *err);
/* Type, fill value (NULL: not defined) and key rule are common to both versions. */
stk_status stk__zarr_fill(stk_array *a, const json_t *value, int version, const char *key,
                          stk_error *err);
/* Shape and chunk lists. `least` is the least value allowed. */
stk_status stk__zarr_integers(const json_t *list, const char *what, const char *key, int64_t least,
                              int64_t *out, uint32_t *rank, stk_error *err);
/* Such a list; NULL: no memory. */
json_t *stk__zarr_shape_json(const int64_t *shape, uint32_t rank);
/* A separator of chunk keys: '.' or '/'. NULL: `usual`. */
stk_status stk__zarr_separator(const json_t *value, char usual, const char *key, char *out,
                               stk_error *err);
/* The list of codecs of version 3: chain and levels of shards. The outermost level is there. */
stk_status stk__zarr_codecs(stk_array *a, const json_t *codecs, const char *key, stk_error *err);
/* The chain of the innermost chunks, whose dimension i is the array's axes[i]: strides do the rest.
 * `spec` says the codecs, the array all else. */
stk_status stk__zarr_chain(stk_array *a, const uint32_t *axes, stk__chain_spec spec,
                           const char *key, stk_error *err);

#endif
