/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, with what the environment says of object stores and of other ranks: as the command has
 * them. */
#include <stdlib.h>

#include <stoker/ranks.h>

#include "native.h"
#include "object_stores.h"

static const char *look(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

/* What contradicts itself is refused where a rank is asked for. */
static void share(stk_context_options *options)
{
    stk_ranks ranks = {.struct_size = sizeof ranks};
    stk_error err;

    if (stk_ranks_detect(NULL, look, NULL, &ranks, &err) != STK_OK)
        return;
    options->local_ranks = stk_ranks_sharing(&ranks);
    options->memory_ranks = stk_ranks_sharing_memory(&ranks);
    if (options->local_ranks > 1)
        options->local_number = ranks.local_rank + 1;
}

stk_status stk_py_context(stk_message_fn *say, void *user, stk_context **out, stk_error *err)
{
    const char *home = getenv("HOME");
    stk_context_options options;

    *out = NULL;
    stk_context_options_init(&options);
    options.on_message = say;
    options.on_message_user = user;
    share(&options);
    char *stores = cli_object_stores(home && *home == '/' ? home : NULL, NULL);
    options.stores = stores;
    const stk_status status = stk_context_create(&options, out, err);
    free(stores);
    return status;
}
