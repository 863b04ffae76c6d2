/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of "key value": how states without tensors are kept. Doubles are their 64 bits in
 * hexadecimal: they read back as they were, in any locale. */
#include <stdlib.h>

#include "train/train.h"

const char *stk__text_find(const char *text, const char *key)
{
    const size_t length = strlen(key);

    while (text && *text) {
        if (strncmp(text, key, length) == 0 && text[length] == ' ')
            return text + length + 1;
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return NULL;
}

bool stk__text_uint(const char *text, const char *key, uint64_t *out)
{
    const char *at = stk__text_find(text, key);
    char *end;

    if (!at || *at < '0' || *at > '9')
        return false;
    *out = strtoull(at, &end, 10);
    return *end == '\n' || *end == ' ' || *end == 0;
}

void stk__text_add_double(stk__text *text, const char *key, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    stk__text_add(text, "%s %016llx\n", key, (unsigned long long)bits);
}

bool stk__text_double(const char *text, const char *key, double *out)
{
    const char *at = stk__text_find(text, key);

    return at && stk__text_bits(at, out);
}

bool stk__text_bits(const char *at, double *out)
{
    char *end;
    const uint64_t bits = strtoull(at, &end, 16);

    if (end - at != 16)
        return false;
    memcpy(out, &bits, sizeof bits);
    return true;
}

char *stk__text_copy(stk_context *ctx, const char *text, const char *key)
{
    const char *at = stk__text_find(text, key);

    return at ? stk__format(ctx, "%.*s", (int)strcspn(at, "\n"), at) : NULL;
}
