/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/pins.h"

#include <xxhash.h>

#include "store/http/head.h"
#include "store/opening.h"

#define FIRST_ROOM 64

void stk__http_pins_init(stk__http_pins *pins, stk_context *ctx)
{
    *pins = (stk__http_pins){.context = ctx};
    pthread_mutex_init(&pins->mutex, NULL);
}

void stk__http_pins_release(stk__http_pins *pins)
{
    for (size_t i = 0; i < pins->room; i++)
        stk__free(pins->context, pins->pins[i].etag);
    stk__free(pins->context, pins->pins);
    pthread_mutex_destroy(&pins->mutex);
}

/* The pin of a hash, or where it belongs. There is always a free one. */
static stk__http_pin *place_of(stk__http_pin *pins, size_t room, XXH128_hash_t hash)
{
    size_t at = (size_t)hash.low64 & (room - 1);

    while ((pins[at].high || pins[at].low) &&
           (pins[at].high != hash.high64 || pins[at].low != hash.low64))
        at = (at + 1) & (room - 1);
    return &pins[at];
}

static bool grow_locked(stk__http_pins *pins)
{
    const size_t room = pins->room ? pins->room * 2 : FIRST_ROOM;

    if (pins->room && (pins->count + 1) * 2 <= pins->room)
        return true;
    if ((uint64_t)room * sizeof *pins->pins > stk__memory_left(pins->context) / 4)
        return false;
    stk__http_pin *grown = stk__calloc(pins->context, room, sizeof *grown);
    if (!grown)
        return false;
    for (size_t i = 0; i < pins->room; i++) {
        const stk__http_pin *pin = &pins->pins[i];
        const XXH128_hash_t hash = {.low64 = pin->low, .high64 = pin->high};
        if (pin->high || pin->low)
            *place_of(grown, room, hash) = *pin;
    }
    stk__free(pins->context, pins->pins);
    pins->pins = grown;
    pins->room = room;
    return true;
}

uint64_t stk__http_pins_find(stk__http_pins *pins, const char *key, char *etag, size_t size)
{
    const XXH128_hash_t hash = XXH3_128bits(key, strlen(key));
    uint64_t identity = 0;

    etag[0] = 0;
    pthread_mutex_lock(&pins->mutex);
    if (pins->room) {
        const stk__http_pin *pin = place_of(pins->pins, pins->room, hash);
        identity = pin->identity;
        if (pin->etag && strlen(pin->etag) < size)
            memcpy(etag, pin->etag, strlen(pin->etag) + 1);
    }
    pthread_mutex_unlock(&pins->mutex);
    return identity;
}

void stk__http_pins_set(stk__http_pins *pins, const char *key, uint64_t identity, const char *etag,
                        bool anew)
{
    const XXH128_hash_t hash = XXH3_128bits(key, strlen(key));

    if (!identity) /* it was written or removed */
        stk__opening_forget(pins->context);
    pthread_mutex_lock(&pins->mutex);
    if (grow_locked(pins) || pins->room > pins->count + 1) {
        stk__http_pin *pin = place_of(pins->pins, pins->room, hash);
        pins->count += !pin->high && !pin->low;
        pin->high = hash.high64;
        pin->low = hash.low64;
        if ((anew || !pin->identity) && pin->identity != identity) {
            stk__free(pins->context, pin->etag);
            pin->etag = stk__http_etag_strong(etag) ? stk__strdup(pins->context, etag) : NULL;
            pin->identity = identity;
        }
    }
    pthread_mutex_unlock(&pins->mutex);
}
