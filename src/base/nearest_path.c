/* SPDX-License-Identifier: Apache-2.0 */
/* Misspelt paths: each part that does not exist becomes the nearest entry of its folder. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"

#define MAX_ENTRIES 10000 /* looked at in one folder: only a hint comes of it */

/* What a message shows as it is. */
static bool is_printable(const char *name)
{
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        if (*p < ' ' || *p == 0x7f)
            return false;
    return true;
}

/* Of the entries of a folder the one nearest to a name; of equals the first by its bytes, whatever
 * the order in which the system lists them. Empty where none is near. */
static void nearest_entry(const char *folder, const char *name, char found[STK_OPTION_NAME])
{
    DIR *dir = opendir(folder);
    stk__nearest best;

    stk__nearest_init(&best, name);
    best.found[0] = 0;
    for (int i = 0; dir && i < MAX_ENTRIES; i++) {
        const struct dirent *entry = readdir(dir);
        stk__nearest one;
        if (!entry)
            break;
        if ((entry->d_name[0] == '.' && name[0] != '.') || strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0 || !is_printable(entry->d_name))
            continue;
        stk__nearest_init(&one, name);
        stk__nearest_offer(&one, entry->d_name);
        if (one.found[0] && (one.distance < best.distance ||
                             (one.distance == best.distance && strcmp(one.found, best.found) < 0)))
            best = one;
    }
    if (dir)
        closedir(dir);
    memcpy(found, best.found, STK_OPTION_NAME);
}

bool stk_nearest_path(const char *path, char *found, size_t size)
{
    char made[STK_MAX_OBJECT_KEY], name[STK_MAX_OBJECT_KEY], nearest[STK_OPTION_NAME];
    size_t used = 0;
    bool changed = false;

    if (!path || strlen(path) >= sizeof made)
        return false;
    while (*path) {
        size_t slashes = strspn(path, "/"), length = strcspn(path + slashes, "/");
        if (used + slashes + STK_MAX(length, sizeof nearest) >= sizeof made)
            return false;
        memcpy(made + used, path, slashes);
        used += slashes;
        memcpy(made + used, path + slashes, length);
        made[used + length] = 0;
        if (access(made, F_OK) != 0) {
            memcpy(name, made + used, length + 1);
            made[used] = 0;
            nearest_entry(used ? made : ".", name, nearest);
            if (!*nearest)
                return false;
            changed = true;
            length = strlen(nearest);
            memcpy(made + used, nearest, length + 1);
        }
        used += length;
        path += slashes + strcspn(path + slashes, "/");
    }
    if (!changed || used >= size)
        return false;
    memcpy(found, made, used + 1);
    return true;
}

const char *stk__nearest_path_said(const char *path, char text[STK__PATH_MEANT])
{
    char found[STK__PATH_MEANT - 20]; /* less the words around it */

    text[0] = 0;
    if (stk_nearest_path(path, found, sizeof found))
        snprintf(text, STK__PATH_MEANT, "; did you mean '%s'?", found);
    return text;
}
