/* SPDX-License-Identifier: Apache-2.0 */
/* "images:~/train": the shell does not see that tilde, so the command puts the home folder there.
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Texts made here live as long as the command. */
static struct kept {
    struct kept *next;
    char text[];
} * kept;

/* Where a path begins with "~/": at the beginning, or behind the ':' of a prefix; NULL: nowhere. */
static const char *find_tilde(const char *text)
{
    for (const char *p = text; *p && *p != '?' && *p != '/'; p++)
        if (p[0] == '~' && (p[1] == '/' || !p[1]) && (p == text || p[-1] == ':'))
            return p;
    return NULL;
}

const char *cli_home_folder(void)
{
    const char *home = getenv("HOME");

    return home && *home == '/' ? home : NULL;
}

const char *cli_home(const char *text)
{
    const char *home = cli_home_folder(), *tilde = text ? find_tilde(text) : NULL;

    if (!tilde || !home)
        return text;
    size_t before = (size_t)(tilde - text), length = strlen(home);
    struct kept *made = malloc(sizeof *made + before + length + strlen(tilde));
    if (!made)
        return text;
    memcpy(made->text, text, before);
    memcpy(made->text + before, home, length);
    memcpy(made->text + before + length, tilde + 1, strlen(tilde));
    made->next = kept;
    kept = made;
    return made->text;
}
