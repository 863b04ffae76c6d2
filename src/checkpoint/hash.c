/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/hash.h"

#include <inttypes.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(stk__hash), "the state of XXH3-128 fits");

static XXH3_state_t *state_of(stk__hash *hash)
{
    return (XXH3_state_t *)hash->state;
}

static void hash_init(stk__hash *hash)
{
    memset(hash, 0, sizeof *hash);
    XXH3_128bits_reset(state_of(hash));
}

void stk__hash_update(stk__hash *hash, const void *data, size_t length)
{
    if (length)
        XXH3_128bits_update(state_of(hash), data, length);
}

void stk__hash_digits(const stk__hash *hash, char digits[STK__HASH_DIGITS + 1])
{
    XXH128_hash_t value = XXH3_128bits_digest((const XXH3_state_t *)hash->state);

    snprintf(digits, STK__HASH_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, (uint64_t)value.high64,
             (uint64_t)value.low64);
}

/* Where the digits begin; 0: there are none. A quote within a JSON string has a backslash in front,
 * so what follows a brace or comma is the member itself. */
static size_t find_digits(const char *bytes, size_t length)
{
    static const char needle[] = "\"" STK__CHECKPOINT_HASH "\":\"";
    const char *from = bytes, *found;

    while ((found = memmem(from, length - (size_t)(from - bytes), needle, sizeof needle - 1))) {
        size_t at = (size_t)(found - bytes) + sizeof needle - 1;
        if (found > bytes && (found[-1] == '{' || found[-1] == ','))
            return length - at < STK__HASH_DIGITS ? 0 : at;
        from = found + 1;
    }
    return 0;
}

stk_status stk__hash_head(stk__hash *hash, const void *head, size_t length, size_t *digits_at)
{
    const char *bytes = head;
    size_t at = find_digits(bytes, length);

    if (at == 0)
        return STK_ENOENT;
    hash_init(hash);
    stk__hash_update(hash, bytes, at);
    stk__hash_update(hash, STK__HASH_ZEROS, STK__HASH_DIGITS);
    stk__hash_update(hash, bytes + at + STK__HASH_DIGITS, length - at - STK__HASH_DIGITS);
    *digits_at = at;
    return STK_OK;
}
