/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/credentials/process.h"

bool stk__process_words(char *command, char *words[STK__PROCESS_WORDS + 1])
{
    char *from = command, *to = command, quote = 0;
    size_t n = 0;
    bool within = false;

    for (; *from; from++) {
        const char c = *from;
        if (!quote && (c == ' ' || c == '\t')) {
            if (within)
                *to++ = 0;
            within = false;
            continue;
        }
        if (!within) {
            if (n == STK__PROCESS_WORDS)
                return false;
            words[n++] = to;
            within = true;
        }
        if (c == quote)
            quote = 0;
        else if (!quote && (c == '"' || c == '\''))
            quote = c;
        else if (c == '\\' && quote != '\'' && from[1])
            *to++ = *++from;
        else
            *to++ = c;
    }
    *to = 0;
    words[n] = NULL;
    return n > 0 && !quote;
}
