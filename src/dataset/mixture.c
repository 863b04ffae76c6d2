/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that alternate by a pattern of slots: from an index to a draw of a source, and back. */
#include "dataset/dataset.h"

uint64_t stk__mixture_draw(const stk__mixture *mixture, uint64_t v, uint32_t *source)
{
    const uint64_t slot = v % mixture->slots;

    *source = mixture->source[slot];
    return v / mixture->slots * mixture->counts[*source] + mixture->turn[slot];
}

uint64_t stk__mixture_index(const stk__mixture *mixture, uint32_t source, uint64_t draw)
{
    const uint32_t count = mixture->counts[source];

    return draw / count * mixture->slots + mixture->places[mixture->first[source] + draw % count];
}

uint64_t stk__mixture_draws(const stk__mixture *mixture, uint32_t source, uint64_t n)
{
    uint64_t draws = n / mixture->slots * mixture->counts[source];

    for (uint64_t slot = 0; slot < n % mixture->slots; slot++)
        draws += mixture->source[slot] == source;
    return draws;
}
