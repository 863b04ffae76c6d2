/* text -> JSON values, whatever the text */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_JSON_H
#define STK_SRC_ARRAY_JSON_H

#include <jansson.h>

#include "base/base.h"

#define STK__JSON_MAX_BYTES  (UINT64_C(64) << 20)
#define STK__JSON_MAX_DEPTH  32
#define STK__JSON_MAX_VALUES (UINT64_C(4) << 20) /* each takes memory, however short its text */

/*
 * Parse a document. What Python writes and JSON does not know (NaN, Infinity, -Infinity), and
 * integers beyond int64, become texts that stk__json_special() tells from others. Duplicate keys
 * are refused. `key` names the object in messages. Errors: STK_EFORMAT, STK_ELIMIT, STK_ENOMEM,
 * with the offset.
 */
stk_status stk__json_parse(stk_context *ctx, const char *text, uint64_t length, const char *key,
                           json_t **out, stk_error *err);
/* The word or number that a text stands for; NULL: it is a text. */
const char *stk__json_special(const json_t *value);
/* The text of a value, as it was written (NaN and large integers too); NULL: no memory. */
char *stk__json_text(stk_context *ctx, const json_t *value, bool indent);

#endif
