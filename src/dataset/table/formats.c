/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/table/formats.h"

#include <strings.h>

static const stk__table_format *const formats[] = {
    &stk__table_csv, &stk__table_tsv, &stk__table_jsonl, &stk__table_parquet, &stk__table_arrow};

bool stk__table_is_named(const stk__table_format *format, const char *name, size_t length)
{
    for (const char *const *suffix = format->suffixes; *suffix; suffix++) {
        const size_t n = strlen(*suffix);
        if (length > n && strncasecmp(name + length - n, *suffix, n) == 0)
            return true;
    }
    return false;
}

int stk__table_recognise(const stk__table_format *format, const char *url)
{
    return stk__table_is_named(format, url, strcspn(url, "?")) ? 2 : 0;
}

const stk__table_format *stk__table_format_of(const char *text, const char **path)
{
    for (size_t i = 0; i < STK_COUNT(formats); i++) {
        const char *name = formats[i]->ops->name;
        const size_t n = strlen(name);
        *path = text + n + 1;
        if (strncmp(text, name, n) == 0 && text[n] == ':')
            return formats[i];
    }
    *path = text;
    for (size_t i = 0; i < STK_COUNT(formats); i++)
        if (stk__table_recognise(formats[i], text))
            return formats[i];
    return NULL;
}
