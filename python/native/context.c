/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, with what the environment says of object stores: as the command has them. */
#include <stdlib.h>

#include "native.h"
#include "object_stores.h"

stk_status stk_py_context(stk_message_fn *say, void *user, stk_context **out, stk_error *err)
{
    const char *home = getenv("HOME");
    stk_context_options options;

    *out = NULL;
    stk_context_options_init(&options);
    options.on_message = say;
    options.on_message_user = user;
    char *stores = cli_object_stores(home && *home == '/' ? home : NULL, NULL);
    options.stores = stores;
    const stk_status status = stk_context_create(&options, out, err);
    free(stores);
    return status;
}
