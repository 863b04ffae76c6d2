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

const char *cli_home_folder(void)
{
    const char *home = getenv("HOME");

    return home && *home == '/' ? home : NULL;
}

const char *cli_home(const char *text)
{
    const char *home = cli_home_folder();
    const size_t length = text && home ? stk_home_path(text, home, NULL, 0) : 0;

    struct kept *made = length ? malloc(sizeof *made + length + 1) : NULL;
    if (!made)
        return text;
    stk_home_path(text, home, made->text, length + 1);
    made->next = kept;
    kept = made;
    return made->text;
}

/* Also in front of the options of a store. */
bool cli_is_weights(const char *path)
{
    static const char *const endings[] = {".ckpt", ".safetensors", ".pth", ".pt", ".onnx"};
    const size_t length = strcspn(path, "?");

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t tail = strlen(endings[i]);
        if (cli_ends_with(path, endings[i]) ||
            (length > tail && memcmp(path + length - tail, endings[i], tail) == 0))
            return true;
    }
    return false;
}
