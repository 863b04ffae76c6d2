/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a store: those that the context keeps for its URL, then those of the URL's query. */
#include <stdio.h>

#include "base/items.h"
#include "base/options.h"
#include "base/registry.h"
#include "base/spec.h"
#include "store/url.h"

/* The driver that an item of `stores` is about: by its name, or by the scheme of its prefix. */
static stk_status driver_of(stk_context *ctx, const stk__item *item, const stk_store_ops **out,
                            bool *by_name, stk_error *err)
{
    const char *prefix = item->name;
    stk__url url;

    *out = stk__url_driver(ctx, prefix, strlen(prefix));
    *by_name = *out != NULL;
    if (*by_name)
        return STK_OK;
    if (!strpbrk(prefix, ":/"))
        return stk__url_unknown(ctx, prefix, err);
    STK_TRY(stk__url_parse(ctx, prefix, &url, err));
    *out = url.driver;
    return STK_OK;
}

/* Whether a prefix is one of a URL: it ends where a part of the URL does. */
static bool is_about(const stk__item *item, const char *url)
{
    const size_t length = strlen(item->name);

    if (strncmp(url, item->name, length) != 0)
        return false;
    return strchr("/:+", item->name[length - 1]) || !url[length] || strchr("/?", url[length]);
}

/* Check every item, so that one that is mistyped is found whatever is opened first, and set what
 * the items about this URL say. */
static stk_status take_items(stk_context *ctx, const stk_store_ops *driver, const char *url,
                             void *options, stk_error *err)
{
    const stk__items *stores = stk__context_stores(ctx);

    for (uint32_t i = 0; i < stores->count; i++) {
        const stk__item *item = &stores->items[i];
        const stk_store_ops *of = NULL;
        bool by_name;

        STK_TRY(driver_of(ctx, item, &of, &by_name, err));
        const stk_option_table *table = STK__STORE_HAS(of, options) ? of->options : NULL;
        void *scratch = stk__calloc(ctx, 1, table ? table->struct_size : 1);
        if (!scratch)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory for options of stores");
        stk_status status = stk__item_options(item, table, "", scratch, err);
        stk__free(ctx, scratch);
        for (uint32_t k = 0; k < item->count && status == STK_OK && of == driver &&
                             (by_name || is_about(item, url));
             k++)
            status = stk_options_set(table, options, item->arguments[k].name,
                                     item->arguments[k].value, err);
        STK_TRY(status);
    }
    return STK_OK;
}

/* The options of the query; what is left of it is the inner store's, or wrong. */
static stk_status take_query(stk_context *ctx, const stk__url *url, stk__store_given *given,
                             const stk_option_table *table, stk_error *err)
{
    if (!url->query)
        return STK_OK;
    STK_TRY(stk__spec_take(ctx, given->url, table, given->options, &given->texts, err));
    const char *left = strchr(given->url, '?');
    return !left || !left[1] || url->inner || url->container
               ? STK_OK
               : stk__spec_unknown(table, left + 1, err);
}

void stk__store_given_release(stk_context *ctx, stk__store_given *given)
{
    stk__free(ctx, given->options);
    stk__free(ctx, given->texts);
    stk__free(ctx, given->url);
    *given = (stk__store_given){0};
}

stk_status stk__store_given_take(stk_context *ctx, const char *text, const stk__url *url,
                                 stk__store_given *given, stk_error *err)
{
    const stk_store_ops *driver = url->driver;
    const stk_option_table *table = STK__STORE_HAS(driver, options) ? driver->options : NULL;

    *given = (stk__store_given){0};
    given->url = stk__strdup(ctx, text);
    if (table)
        given->options = stk__calloc(ctx, 1, table->struct_size);
    if (!given->url || (table && !given->options)) {
        stk__store_given_release(ctx, given);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_STORE, "no memory to open '%.200s'", text);
    }
    if (table)
        stk_options_init(table, given->options, table->struct_size);
    stk_status status = take_items(ctx, driver, text, given->options, err);
    if (status == STK_OK && table)
        status = take_query(ctx, url, given, table, err);
    if (status != STK_OK)
        stk__store_given_release(ctx, given);
    return status;
}

/* Whether one of the stores of a URL, wrappers and what holds a container included, has an option.
 */
static bool is_known(const stk_context *ctx, const char *url, const char *name)
{
    stk__url parsed;

    for (const char *text = url; text;) {
        stk__url_scan(ctx, text, &parsed);
        const stk_store_ops *driver = parsed.driver;
        if (driver && STK__STORE_HAS(driver, options) && stk_options_find(driver->options, name))
            return true;
        text = parsed.inner ? parsed.inner : parsed.object_length > 0 ? parsed.path : NULL;
    }
    return false;
}

char *stk__store_query(stk_context *ctx, const char *bare, const char *query)
{
    stk__text out = {.ctx = ctx};
    char name[STK_OPTION_NAME], join = '?';

    stk__text_add(&out, "%s", bare);
    for (const char *at = query; *at && *++at;) {
        const size_t length = strcspn(at, "&");
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "=&"), at);
        if (is_known(ctx, bare, name)) {
            stk__text_add(&out, "%c%.*s", join, (int)length, at);
            join = '&';
        }
        at += length;
    }
    if (!out.failed)
        return out.bytes;
    stk__text_release(&out);
    return NULL;
}
