/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of ranges.c: libcurl's multi interface alone, on one thread, its bytes copied to where
 * they are wanted. Nothing of an answer is looked at but its status; nothing is tried again.
 */
#include <curl/curl.h>

#include "ranges.h"

struct request {
    CURL *easy;
    unsigned char *data;
    size_t got, room;
};

static size_t take(char *from, size_t one, size_t n, void *user)
{
    struct request *q = user;

    if (n > q->room - q->got)
        return 0;
    memcpy(q->data + q->got, from, n);
    q->got += n;
    return n * one;
}

static void send_next(CURLM *multi, struct ranges *r, struct request *q)
{
    const uint64_t at = ranges_next(r);
    char range[48];

    q->got = 0;
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)at,
             (unsigned long long)(at + r->length - 1));
    curl_easy_setopt(q->easy, CURLOPT_RANGE, range);
    curl_multi_add_handle(multi, q->easy);
}

static void check(const struct ranges *r, const struct request *q, CURLcode code)
{
    long status = 0;

    curl_easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 206 || q->got != r->length)
        bench_die("bare_ranges", code != CURLE_OK ? curl_easy_strerror(code) : "a wrong answer");
}

int main(int argc, char **argv)
{
    struct ranges r;
    int running, left;

    ranges_begin(&r, argc, argv);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURLM *multi = curl_multi_init();
    struct request *requests = calloc(r.depth, sizeof *requests);
    if (!multi || !requests)
        bench_die("bare_ranges", "no memory");
    for (size_t i = 0; i < r.depth; i++) {
        struct request *q = &requests[i];
        q->easy = curl_easy_init();
        q->data = ranges_buffer(&r);
        q->room = r.length;
        curl_easy_setopt(q->easy, CURLOPT_URL, r.url);
        curl_easy_setopt(q->easy, CURLOPT_PROXY, "");
        curl_easy_setopt(q->easy, CURLOPT_WRITEFUNCTION, take);
        curl_easy_setopt(q->easy, CURLOPT_WRITEDATA, q);
        curl_easy_setopt(q->easy, CURLOPT_PRIVATE, q);
        curl_easy_setopt(q->easy, CURLOPT_BUFFERSIZE, 512L << 10);
        send_next(multi, &r, q);
    }
    do {
        curl_multi_perform(multi, &running);
        for (CURLMsg *m; (m = curl_multi_info_read(multi, &left));) {
            struct request *q;
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &q);
            const CURLcode code = m->data.result;
            check(&r, q, code);
            curl_multi_remove_handle(multi, q->easy);
            if (ranges_ended(&r)) {
                send_next(multi, &r, q);
                running++;
            }
        }
        if (running)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    } while (running);
    for (size_t i = 0; i < r.depth; i++) {
        curl_easy_cleanup(requests[i].easy);
        free(requests[i].data);
    }
    free(requests);
    curl_multi_cleanup(multi);
    ranges_print(&r, "bound");
    return 0;
}
