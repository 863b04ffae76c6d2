/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of hosts. curl looks them up on threads of its own, keeps what it found for a while and
 * tries all addresses in turn. Where a name that has led somewhere leads nowhere any more, as the
 * resolver fails, the addresses that were good last are used for a minute, and then it is looked
 * up again.
 */
#include <stdio.h>

#include "base/text.h"
#include "store/http/room.h"

#define USED_NS UINT64_C(60000000000)

/* Whether the try goes to the host of its client, by a name of it. */
static bool is_own(const stk__http_client *client, const stk__http_job *job)
{
    return !client->options.proxy && !job->url;
}

void stk__http_names_note(const stk__http_try *t, const char *address)
{
    stk__http_names *names = &t->client->host->names;
    size_t at = 0;

    if (!is_own(t->client, t->job) || !address || strlen(address) >= sizeof names->addresses[0] ||
        strcmp(names->addresses[0], address) == 0)
        return;
    while (at < STK__HTTP_ADDRESSES - 1 && strcmp(names->addresses[at], address) != 0)
        at++;
    memmove(names->addresses[1], names->addresses[0], at * sizeof names->addresses[0]);
    snprintf(names->addresses[0], sizeof names->addresses[0], "%s", address);
}

void stk__http_names_lost(stk__http_job *job)
{
    const stk__http_client *client = job->exchange->client;
    stk__http_names *names = &client->host->names;

    if (is_own(client, job) && names->addresses[0][0])
        names->until_ns = stk__now_ns() + USED_NS;
}

/* "HOST:PORT" of the endpoint. */
static void add_host(const char *endpoint, stk__text *out)
{
    const char *host = strstr(endpoint, "://") + 3; /* no literal address: it is looked up */

    stk__text_add(out, "%s", host);
    if (!strchr(host, ':'))
        stk__text_add(out, ":%d", strncmp(endpoint, "https:", 6) == 0 ? 443 : 80);
}

bool stk__http_names_set(stk__http_try *t)
{
    stk__http_names *names = &t->client->host->names;
    char line[640];
    stk__text text = {.bytes = line, .room = sizeof line};

    if (!names->until_ns || !is_own(t->client, t->job))
        return true;
    const bool over = stk__now_ns() >= names->until_ns;
    if (over)
        names->until_ns = 0;
    /* curl forgets what it was told of one that has a '-' in front. */
    stk__text_add(&text, over ? "-" : "");
    add_host(t->client->endpoint, &text);
    for (size_t i = 0; !over && i < STK__HTTP_ADDRESSES && names->addresses[i][0]; i++) {
        const bool six = strchr(names->addresses[i], ':') != NULL;
        stk__text_add(&text, "%c%s%s%s", i ? ',' : ':', six ? "[" : "", names->addresses[i],
                      six ? "]" : "");
    }
    if (text.length >= text.room)
        return true;
    t->names = curl_slist_append(NULL, line);
    return t->names && curl_easy_setopt(t->easy, CURLOPT_RESOLVE, t->names) == CURLE_OK;
}
