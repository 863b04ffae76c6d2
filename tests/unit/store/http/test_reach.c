/* SPDX-License-Identifier: Apache-2.0 */
/* Operation by what stands between a client and its server: names, TLS, proxies. */
#include "operations.h"

#include <dlfcn.h>
#include <netdb.h>

#include "support/certificates.h"
#include "support/tunnel.h"

#define TRIES 3 /* retries=2 of the options below */

/* ---- Names ---- */

/* That of the C library comes behind this one, which is found first. */
typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool released; /* names without an answer get one; guarded by `lock` */
static atomic_int asked_once[OPERATIONS];

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    resolver *real = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    const size_t length = name ? strlen(name) : 0;

    if (length < 5 || strcmp(name + length - 5, ".test") != 0)
        return real(name, service, hints, out);
    if (strncmp(name, "unknown", 7) == 0)
        return EAI_NONAME;
    if (strncmp(name, "fails", 5) == 0)
        return EAI_AGAIN;
    if (strncmp(name, "once-", 5) == 0 && atomic_fetch_add(&asked_once[name[5] - '0'], 1) == 0)
        return EAI_AGAIN;
    if (strncmp(name, "silent", 6) == 0) {
        pthread_mutex_lock(&lock);
        while (!released)
            pthread_cond_wait(&cond, &lock);
        pthread_mutex_unlock(&lock);
        return EAI_AGAIN;
    }
    if (strncmp(name, "two", 3) != 0)
        return real("127.0.0.1", service, hints, out);
    /* Nobody listens at the first address. */
    const int failed = real("127.0.0.2", service, hints, out);
    return failed ? failed : real("127.0.0.1", service, hints, &(*out)->ai_next);
}

/* ---- The matrix ---- */

enum { PLAIN, GOOD, EXPIRED, OTHER, SELF, SERVERS };
static const char *const certificates[] = {NULL, "server", "expired", "other", "self"};

typedef struct row {
    const char *name, *scheme, *host; /* NULL: 127.0.0.1 */
    int server;
    bool trusts; /* the test's CA is given */
    stk_status ends;
    const char *text; /* of the error */
    http_fault at_accept;
    const char *connect; /* what a proxy answers; NULL: there is none */
} row;

#define NONE         {.at_accept = false}, NULL
#define CUT(how, n)  {.at_accept = true, .at = 1, .cut = how, .count = n}, NULL
#define SLOW         {.at_accept = true, .latency_ms = 100}, NULL
#define PROXY(text)  {.at_accept = false}, "HTTP/1.1 " text "\r\n\r\n"
#define SILENT_PROXY {.at_accept = false}, ""
#define LENGTH_0     "\r\nContent-Length: 0"
#define TIMES_OUT    STK_ETIMEDOUT, "connect_timeout"
#define UNTRUSTED    STK_EINVAL, "not trusted"

static const row rows[] = {
    {"a name that there is not", "http", "unknown.test", PLAIN, false, STK_EIO, "resolve", NONE},
    {"a name whose server fails", "http", "fails.test", PLAIN, false, STK_EIO, "resolve", NONE},
    {"a name whose server fails once", "http", "once-", PLAIN, false, STK_OK, "", NONE},
    {"a name without an answer", "http", "silent.test", PLAIN, false, TIMES_OUT, NONE},
    {"a name of two addresses", "http", "two.test", PLAIN, false, STK_OK, "", NONE},
    {"a certificate of a trusted CA", "https", NULL, GOOD, true, STK_OK, "", NONE},
    {"a CA that is not trusted", "https", NULL, GOOD, false, UNTRUSTED, NONE},
    {"an expired certificate", "https", NULL, EXPIRED, true, UNTRUSTED, NONE},
    {"a certificate of another host", "https", NULL, OTHER, true, UNTRUSTED, NONE},
    {"a certificate that signs itself", "https", NULL, SELF, true, UNTRUSTED, NONE},
    {"TLS of a server that has none", "https", NULL, PLAIN, true, STK_ETIMEDOUT, "", NONE},
    {"no TLS of a server that has it", "http", NULL, GOOD, true, STK_EIO, "", NONE},
    {"a reset within TLS", "https", NULL, GOOD, true, STK_OK, "", CUT(HTTP_RESET, 1)},
    {"resets within TLS", "https", NULL, GOOD, true, STK_EIO, "", CUT(HTTP_RESET, 0)},
    {"an end within TLS", "https", NULL, GOOD, true, STK_OK, "", CUT(HTTP_CLOSE, 1)},
    {"ends within TLS", "https", NULL, GOOD, true, STK_EIO, "", CUT(HTTP_CLOSE, 0)},
    {"a stall within TLS", "https", NULL, GOOD, true, STK_OK, "", CUT(HTTP_STALL, 1)},
    {"stalls within TLS", "https", NULL, GOOD, true, TIMES_OUT, CUT(HTTP_STALL, 0)},
    {"a slow beginning of TLS", "https", NULL, GOOD, true, STK_OK, "", SLOW},
    {"a proxy", "https", "other.example", OTHER, true, STK_OK, "", PROXY("200 OK\r\nX-A: b")},
    {"a proxy that says a length", "https", NULL, GOOD, true, STK_OK, "",
     PROXY("200 OK\r\nETag: \"proxy\"\r\nContent-Length: 7")},
    {"a proxy that refuses", "https", NULL, GOOD, true, STK_EACCES, "proxy answered 403",
     PROXY("403 Forbidden" LENGTH_0)},
    {"a proxy that wants credentials", "https", NULL, GOOD, true, STK_EACCES, "proxy answered 407",
     PROXY("407 Authentication" LENGTH_0)},
    {"a proxy that fails", "https", NULL, GOOD, true, STK_EIO, "proxy answered 502",
     PROXY("502 Bad Gateway" LENGTH_0)},
    /* No proof that the object is not there. */
    {"a proxy that finds nothing", "https", NULL, GOOD, true, STK_EIO, "proxy answered 404",
     PROXY("404 Not Found" LENGTH_0)},
    {"a proxy that says nothing", "https", NULL, GOOD, true, STK_ETIMEDOUT, "", SILENT_PROXY},
};

#define ROWS (sizeof rows / sizeof *rows)

typedef struct table {
    fixture *f;
    char folder[256];
    http_server *servers[SERVERS];
} table;

static http_server *start(const table *t, int which)
{
    char certificate[300], key[300];

    snprintf(certificate, sizeof certificate, "%s/%s.pem", t->folder, certificates[which]);
    snprintf(key, sizeof key, "%s/%s.key", t->folder, certificates[which]);
    http_server *server = http_server_start(
        which == PLAIN ? &(http_server_options){.seed = 1}
                       : &(http_server_options){.seed = 1, .certificate = certificate, .key = key});
    if (server)
        http_server_put(server, "/d/x", t->f->bytes, SIZE);
    return server;
}

static void run_cell(void *user, size_t at, char wrong[MATRIX_TEXT])
{
    table *t = user;
    const row *r = &rows[at / OPERATIONS];
    const int operation = (int)(at % OPERATIONS);
    char url[900], proxy[100] = "", host[64];
    const char *patience = r->ends == STK_ETIMEDOUT ? "0.5" : matrix_patience(&r->at_accept);
    http_server *server = start(t, r->server);
    tunnel through;
    stk_error err;

    snprintf(host, sizeof host, "%s", r->host ? r->host : "127.0.0.1");
    if (strcmp(host, "once-") == 0)
        snprintf(host, sizeof host, "once-%d.test", operation);
    if (r->connect) {
        tunnel_start(&through, r->connect, http_server_port(server));
        snprintf(proxy, sizeof proxy, "&proxy=http://127.0.0.1:%d", through.port);
    }
    if (r->at_accept.at_accept)
        http_server_fault(server, &r->at_accept);
    snprintf(url, sizeof url,
             "%s://%s:%d/d/?first_byte_timeout=%s&stall_timeout=%s&connect_timeout=%s&retries=%d"
             "%s%s%s%s",
             r->scheme, host, http_server_port(server), patience, patience,
             r->ends == STK_ETIMEDOUT ? "0.3" : "2", TRIES - 1, r->trusts ? "&ca_file=" : "",
             r->trusts ? t->folder : "", r->trusts ? "/ca.pem" : "", proxy);
    const uint64_t start_ns = stk__now_ns();
    const stk_status status = operate_at(t->f, url, operation, "x", &err);
    const uint64_t took = stk__now_ns() - start_ns;
    if (status != r->ends || !strstr(err.text, r->text) ||
        !is_kept(t->f, server, "/d/x", operation == PUT && status == STK_OK) ||
        (r->connect && atomic_load(&through.connects) == 0) ||
        took > DEADLINE_NS + DEADLINE_NS / 10)
        snprintf(wrong, MATRIX_TEXT, "%s through '%s': %s instead of %s, %.1f s: %.500s",
                 operations[operation], r->name, stk_status_name(status), stk_status_name(r->ends),
                 (double)took / 1e9, err.text);
    if (r->connect)
        tunnel_stop(&through);
    http_server_stop(&server);
}

static int set_up(void **state)
{
    return world_open(state, NULL);
}

static void test_matrix(void **state)
{
    table t = {.f = *state};

    test_folder(t.folder);
    if (test_certificates(t.folder))
        matrix_run(ROWS * OPERATIONS, run_cell, &t);
    pthread_mutex_lock(&lock);
    released = true;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&lock);
    test_folder_remove(t.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_matrix, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
