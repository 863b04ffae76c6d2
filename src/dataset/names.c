/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/names.h"

#include <stdlib.h>
#include <xxhash.h>

#include "dataset/dataset.h"

#define NONE UINT32_MAX

static const char *name_of(const stk__names *n, uint32_t number)
{
    return n->text + n->places[number];
}

/* The slot of a name, or the empty one where it would be. */
static uint64_t slot_of(const stk__names *n, const char *text, size_t length)
{
    uint64_t at = XXH3_64bits(text, length) & (n->num_slots - 1);

    for (; n->slots[at] != NONE; at = (at + 1) & (n->num_slots - 1)) {
        const char *name = name_of(n, n->slots[at]);
        if (strlen(name) == length && memcmp(name, text, length) == 0)
            break;
    }
    return at;
}

static stk_status grow_slots(stk__names *n)
{
    const uint64_t room = n->num_slots ? 2 * n->num_slots : 64;
    uint32_t *slots = stk__alloc(n->context, room * sizeof *slots);

    if (!slots)
        return STK_ENOMEM;
    stk__free(n->context, n->slots);
    n->slots = slots;
    n->num_slots = room;
    memset(slots, 0xff, room * sizeof *slots);
    for (uint32_t i = 0; i < n->count; i++)
        slots[slot_of(n, name_of(n, i), strlen(name_of(n, i)))] = i;
    return STK_OK;
}

/* The text behind those that are there. */
static stk_status keep_text(stk__names *n, const char *text, size_t length)
{
    char *all = stk__grow(n->context, n->text, &n->text_room, n->text_bytes + length + 1, 1);

    if (!all)
        return STK_ENOMEM;
    n->text = all;
    uint64_t *places =
        stk__grow(n->context, n->places, &n->places_room, (uint64_t)n->count + 1, sizeof *places);
    if (!places)
        return STK_ENOMEM;
    n->places = places;
    places[n->count] = n->text_bytes;
    memcpy(n->text + n->text_bytes, text, length);
    n->text[n->text_bytes + length] = 0;
    n->text_bytes += length + 1;
    return STK_OK;
}

bool stk__names_find(const stk__names *n, const char *text, size_t length, uint32_t *number)
{
    if (!n->num_slots)
        return false;
    *number = n->slots[slot_of(n, text, length)];
    return *number != NONE;
}

stk_status stk__names_add(stk__names *n, const char *text, size_t length, uint32_t *number)
{
    if (stk__names_find(n, text, length, number))
        return STK_OK;
    if (length && memchr(text, 0, length))
        return STK_EFORMAT;
    if (n->count == STK__NAMES_MOST)
        return STK_ELIMIT;
    if ((uint64_t)n->count + 1 > n->num_slots / 2)
        STK_TRY(grow_slots(n));
    STK_TRY(keep_text(n, text, length));
    n->slots[slot_of(n, text, length)] = n->count;
    *number = n->count++;
    return STK_OK;
}

stk_status stk__names_list(stk__names *n)
{
    n->list = stk__alloc(n->context, STK_MAX(n->count, 1) * sizeof *n->list);
    if (!n->list)
        return STK_ENOMEM;
    for (uint32_t i = 0; i < n->count; i++)
        n->list[i] = name_of(n, i);
    return STK_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

stk_status stk__names_sort(stk__names *n, uint32_t **renumber)
{
    uint32_t number = 0;
    uint32_t *numbers = stk__alloc(n->context, STK_MAX(n->count, 1) * sizeof *numbers);

    if (renumber)
        *renumber = NULL;
    stk_status status = numbers ? stk__names_list(n) : STK_ENOMEM;
    if (status == STK_OK) {
        qsort(n->list, n->count, sizeof *n->list, by_text);
        for (uint32_t i = 0; i < n->count; i++)
            if (stk__names_find(n, n->list[i], strlen(n->list[i]), &number))
                numbers[number] = i;
        /* By their new numbers they are found from here on. */
        for (uint64_t s = 0; s < n->num_slots; s++)
            if (n->slots[s] != NONE)
                n->slots[s] = numbers[n->slots[s]];
        for (uint32_t i = 0; i < n->count; i++)
            n->places[i] = (uint64_t)(n->list[i] - n->text);
    }
    if (status == STK_OK && renumber)
        *renumber = numbers;
    else
        stk__free(n->context, numbers);
    return status;
}

uint64_t stk__names_print(const stk__names *n, uint64_t print)
{
    for (uint32_t i = 0; i < n->count; i++)
        print = stk__fingerprint(print, name_of(n, i), strlen(name_of(n, i)) + 1);
    return print;
}

void stk__names_release(stk__names *n)
{
    stk__free(n->context, n->list);
    stk__free(n->context, n->text);
    stk__free(n->context, n->places);
    stk__free(n->context, n->slots);
    *n = (stk__names){.context = n->context};
}
