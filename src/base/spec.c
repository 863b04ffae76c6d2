/* SPDX-License-Identifier: Apache-2.0 */
/* Options in the query of a spec: "mnist:DIR?train=false&subset=1000". */
#include "base/base.h"

#include "base/options.h"
#include "base/spec.h"
#include "base/url.h"

const char *stk__spec_query(const char *text)
{
    const char *first = strchr(text, '?'), *found = NULL;
    size_t depth = 0;

    for (const char *p = text; *p && !found; p++) {
        depth += *p == '(';
        if (*p == ')' && depth-- == 0)
            return first;
        if (*p == '?' && depth == 0)
            found = p;
    }
    return depth ? first : found;
}

/* Set one option from "name=value"; a switch may stand without a value. `text` has room for the
 * value. */
static stk_status take_one(const stk_option_table *table, const stk_option *option, void *options,
                           const char *value, size_t length, char *text, stk_error *err)
{
    if (option->type == STK_OPTION_SECRET)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option->name, STK_NO_OFFSET,
                            "%s.%s: a secret is no part of a URL, which is printed and logged",
                            table->name, option->name);
    if (!value) {
        if (option->type != STK_OPTION_BOOL)
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option->name, STK_NO_OFFSET,
                                "%s.%s: no value; write %s=VALUE", table->name, option->name,
                                option->name);
        return stk_options_set(table, options, option->name, "true", err);
    }
    if (stk__url_decode(value, length, text, length + 1, NULL) != STK_OK) {
        char shown[STK_OPTION_SHOWN];
        memcpy(text, value, length);
        text[length] = 0;
        stk__option_show(shown, text);
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, option->name, STK_NO_OFFSET,
                            "%s.%s: '%s' has a broken %%-escape; a '%%' itself is written %%25",
                            table->name, option->name, shown);
    }
    return stk_options_set(table, options, option->name, text, err);
}

stk_status stk__spec_take(stk_context *ctx, char *url, const stk_option_table *table, void *options,
                          char **texts, stk_error *err)
{
    const char *begin = stk__spec_query(url);

    *texts = NULL;
    if (!begin)
        return STK_OK;
    char *query = url + (begin - url);
    /* The values fit where the query was: each is no longer than its text, and its end takes the
     * place of the '&'. */
    char *block = stk__alloc(ctx, strlen(query) + 1);
    if (!block)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the options of %.200s",
                         url);
    char *text = block, *kept = query;
    for (const char *p = query + 1; p;) {
        const char *end = strchr(p, '&');
        size_t length = end ? (size_t)(end - p) : strlen(p);
        const char *equals = memchr(p, '=', length);
        size_t name = equals ? (size_t)(equals - p) : length;
        const stk_option *option = stk__option_find(table, p, name);
        if (option) {
            size_t value = equals ? length - name - 1 : 0;
            stk_status status =
                take_one(table, option, options, equals ? equals + 1 : NULL, value, text, err);
            if (status != STK_OK) {
                stk__free(ctx, block);
                return status;
            }
            if (equals)
                text += strlen(text) + 1;
        } else if (length) {
            /* What stays moves up behind the '?' or the '&' of what stayed before it. */
            *kept = kept == query ? '?' : '&';
            memmove(kept + 1, p, length);
            kept += 1 + length;
        }
        p = end ? end + 1 : NULL;
    }
    *kept = 0;
    if (text == block)
        stk__free(ctx, block);
    else
        *texts = block;
    return STK_OK;
}

stk_status stk__spec_unknown(const stk_option_table *table, const char *query, stk_error *err)
{
    char name[STK_OPTION_NAME];
    size_t length = STK_MIN(strcspn(query, "=&"), sizeof name - 1);

    memcpy(name, query, length);
    name[length] = 0;
    return stk__option_unknown(table, name, err);
}
