/* text -> JSON values, whatever the text, within the context's memory */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that calls jansson's parser. What a text becomes in memory is many times its
 * length ("{}," is 250 bytes), and jansson takes it past the context's allocator: so it is computed
 * before the parser runs, from above, and claimed from the context until the values are dropped.
 * All that is claimed at one time is at most a part of memory_limit.
 */
#ifndef STK_SRC_BASE_JSON_H
#define STK_SRC_BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

#define STK__JSON_MAX_BYTES  (UINT64_C(64) << 20)
#define STK__JSON_MAX_DEPTH  32
#define STK__JSON_MAX_VALUES (UINT64_C(4) << 20)
#define STK__JSON_PART       4 /* of memory_limit: what all documents of a context may take */

/* A value and what is claimed for it. Zeros: none. */
typedef struct stk__json {
    json_t *value;  /* a reference */
    uint64_t bytes; /* claimed */
} stk__json;

/*
 * Parse a document. What Python writes and JSON does not know (NaN, Infinity, -Infinity), and
 * integers beyond int64, become texts that stk__json_special() tells from others. Duplicate keys
 * are refused. `key` names the object in messages. Errors: STK_EFORMAT, STK_ELIMIT, STK_ENOMEM,
 * with the offset.
 */
stk_status stk__json_parse(stk_context *ctx, const char *text, uint64_t length, const char *key,
                           stk__json *out, stk_error *err);
/* Hold a part of a document beyond the document's end; `value` NULL gives none. */
stk_status stk__json_keep(stk_context *ctx, const json_t *value, const char *key, stk__json *out,
                          stk_error *err);
/* Drop the reference and the claim; `json` is zeros then. */
void stk__json_drop(stk_context *ctx, stk__json *json);
/* Most bytes of text that are worth reading here. */
uint64_t stk__json_most(const stk_context *ctx);

/* The word or number that a text means; NULL: it is a text. */
const char *stk__json_special(const json_t *value);
/* The text of a value, as it was written (NaN and large integers too); NULL: no memory. */
char *stk__json_text(stk_context *ctx, const json_t *value, bool indent);

#endif
