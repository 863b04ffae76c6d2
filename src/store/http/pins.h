/* key -> the identity that its bytes have to have */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_HTTP_PINS_H
#define STK_SRC_STORE_HTTP_PINS_H

#include "base/base.h"

/*
 * What was first seen of an object holds for as long as its store is open, unless it is looked at
 * again or written by it. Keys are known by 128 bits of hash. An object for which there is no
 * memory is not pinned.
 */
typedef struct stk__http_pin {
    uint64_t high, low; /* of the key; 0, 0: free */
    uint64_t identity;
    char *etag; /* for If-Match; NULL: there is none that holds byte for byte */
} stk__http_pin;

typedef struct stk__http_pins {
    stk_context *context;
    pthread_mutex_t mutex; /* guards the rest */
    stk__http_pin *pins;   /* a power of two of them, or none */
    size_t room, count;
} stk__http_pins;

void stk__http_pins_init(stk__http_pins *pins, stk_context *ctx);
void stk__http_pins_release(stk__http_pins *pins);
/* 0: it is not pinned. `etag` gets that of If-Match, or "". */
uint64_t stk__http_pins_find(stk__http_pins *pins, const char *key, char *etag, size_t size);
/* `anew`: also where it is pinned already. An identity of 0 takes the pin away. */
void stk__http_pins_set(stk__http_pins *pins, const char *key, uint64_t identity, const char *etag,
                        bool anew);

#endif
