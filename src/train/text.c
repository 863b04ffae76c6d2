/* SPDX-License-Identifier: Apache-2.0 */
/* How states without tensors are written; base/lines.h reads them. */
#include "train/train.h"

void stk__text_add_double(stk__text *text, const char *key, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    stk__text_add(text, "%s %016llx\n", key, (unsigned long long)bits);
}
