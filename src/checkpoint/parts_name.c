/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of which save a file is: in its text, and in its name. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/url.h"
#include "checkpoint/parts.h"

#define ENDING ".safetensors"

void stk__checkpoint_part_draw(stk__checkpoint_part *part)
{
    if (getrandom(part->save, sizeof part->save, 0) == (ssize_t)sizeof part->save)
        return;
    part->save[0] = stk__now_ns();
    part->save[1] = (uint64_t)getpid();
}

void stk__part_text(const stk__checkpoint_part *part, char text[STK__CHECKPOINT_PART_TEXT])
{
    snprintf(text, STK__CHECKPOINT_PART_TEXT, "%016" PRIx64 "%016" PRIx64 " %" PRIu32 " %" PRIu32,
             part->save[0], part->save[1], part->number, part->count);
}

/* Digits of a number, lower-case, no more than there are in `most`; behind them `end`. */
static bool take_number(const char **at, unsigned base, size_t most, char end, uint64_t *out)
{
    static const char digits[] = "0123456789abcdef";
    const char *p = *at;

    *out = 0;
    for (; *p && *p != end; p++) {
        const char *digit = memchr(digits, *p, base);
        if (!digit || (size_t)(p - *at) == most)
            return false;
        *out = *out * base + (uint64_t)(digit - digits);
    }
    if (p == *at || *p != end)
        return false;
    *at = p + (end != 0);
    return true;
}

/* The number of a save, 32 digits. */
static bool take_save(const char **at, uint64_t save[2])
{
    for (int i = 0; i < 2; i++) {
        char half[17];
        const char *from = half;
        if (strnlen(*at, 16) < 16)
            return false;
        memcpy(half, *at, 16);
        half[16] = 0;
        if (!take_number(&from, 16, 16, 0, &save[i]))
            return false;
        *at += 16;
    }
    return true;
}

static bool make(const uint64_t save[2], uint64_t number, uint64_t count, stk__checkpoint_part *out)
{
    if (count < 2 || count > STK__CHECKPOINT_MOST_PARTS || number >= count)
        return false;
    *out = (stk__checkpoint_part){{save[0], save[1]}, (uint32_t)number, (uint32_t)count};
    return true;
}

bool stk__part_parse(const char *text, stk__checkpoint_part *out)
{
    uint64_t save[2], number, count;

    return take_save(&text, save) && *text++ == ' ' && take_number(&text, 10, 7, ' ', &number) &&
           take_number(&text, 10, 7, 0, &count) && make(save, number, count, out);
}

/* ---- Files ---- */

char *stk__checkpoint_parts_folder(stk_context *ctx, const char *path)
{
    const char *slash = strrchr(path, '/');

    return stk__format(ctx, "%.*s" STK__CHECKPOINT_PARTS, slash ? (int)(slash + 1 - path) : 0,
                       path);
}

static char *beside(stk_context *ctx, const char *first, const stk__checkpoint_part *part,
                    uint32_t number, const char *ending)
{
    size_t length;
    const char *name = stk__url_name(ctx, first, &length);

    return stk__format(ctx,
                       "%.*s" STK__CHECKPOINT_PARTS "/%016" PRIx64 "%016" PRIx64 "-%05" PRIu32
                       "-of-%05" PRIu32 "%s%s",
                       (int)(name - first), first, part->save[0], part->save[1], number,
                       part->count, ending, name + length);
}

char *stk__part_path(stk_context *ctx, const char *first, const stk__checkpoint_part *part,
                     uint32_t number)
{
    return beside(ctx, first, part, number, ENDING);
}

char *stk__part_failed_path(stk_context *ctx, const char *first, const stk__checkpoint_part *part,
                            uint32_t number)
{
    return beside(ctx, first, part, number, ENDING STK__PART_FAILED);
}

bool stk__part_name_parse(const char *name, stk__checkpoint_part *out)
{
    static const char of[] = "of-";
    uint64_t save[2], number, count;
    const size_t skip = sizeof of - 1;

    if (!take_save(&name, save) || *name++ != '-' || !take_number(&name, 10, 7, '-', &number) ||
        strncmp(name, of, skip) != 0)
        return false;
    name += skip;
    return take_number(&name, 10, 7, '.', &count) && make(save, number, count, out) &&
           (strcmp(name, ENDING + 1) == 0 || strcmp(name, &(ENDING STK__PART_FAILED)[1]) == 0);
}
