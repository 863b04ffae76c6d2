/* bytes of a checkpoint -> the hash that is kept in it */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CHECKPOINT_HASH_H
#define STK_SRC_CHECKPOINT_HASH_H

#include "checkpoint/safetensors/safetensors.h"

/*
 * XXH3-128 of the whole file, with the digits of the hash itself as '0': so every byte counts,
 * names and shapes included, and any program with XXH3 can check it.
 */
#define STK__CHECKPOINT_LAYOUT "stoker.layout"
#define STK__LAYOUT            "1" /* what it says; that of another version is refused */
#define STK__HASH_DIGITS       32
#define STK__HASH_ZEROS        "00000000000000000000000000000000"

typedef struct stk__hash {
    _Alignas(STK_CACHE_LINE) unsigned char state[640];
} stk__hash;

void stk__hash_update(stk__hash *hash, const void *data, size_t length);
/* Lower-case digits, the most significant first, with an end. */
void stk__hash_digits(const stk__hash *hash, char digits[STK__HASH_DIGITS + 1]);

/* Begin with the head of a file and find the digits in it; STK_ENOENT: it has none. */
stk_status stk__hash_head(stk__hash *hash, const void *head, size_t length, size_t *digits_at);

/* Of a file that is open (read.c): stk__safetensors_file_load() of a checkpoint, whose hash is that
 * of the bytes in memory; what was read is freed by the caller, also after a failure. Parts are put
 * together with it. */
stk_status stk__checkpoint_load_file(stk__safetensors_file *file, const char *path, uint8_t **data,
                                     uint8_t **moved, stk_error *err);
/* The same of this file alone. */
stk_status stk__checkpoint_load_alone(stk__safetensors_file *file, const char *path, uint8_t **data,
                                      uint8_t **moved, stk_error *err);
/* stk__checkpoint_verify() of this file alone, which is open. */
stk_status stk__checkpoint_verify_alone(stk_context *ctx, const stk__safetensors_file *file,
                                        const char *path, stk_error *err);

#endif
