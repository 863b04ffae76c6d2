/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_OBJECT_STORES_H
#define CLI_OBJECT_STORES_H

#include <stdbool.h>
#include <stddef.h>

/* What is here the Python package has, too. `home` is the home folder; NULL: none is known. */

/* The options of stores that were given (may be NULL), and in front of them what the environment
 * says of S3, Google Cloud Storage and the user's cache. NULL: no memory. To be freed. */
char *cli_object_stores(const char *home, const char *given);
/* The folder of this program in the user's cache; false: none is known. */
bool cli_cache_folder(const char *home, char *folder, size_t size);

#endif
