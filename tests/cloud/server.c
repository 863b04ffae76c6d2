/* SPDX-License-Identifier: Apache-2.0 */
/* The tests' web server as a program: prints its address, and serves until SIGTERM or the end of
 * what started it. README.md. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "support/http_server.h"

#define FAULTS_MOST 64
#define LOOK_NS     200000000 /* whether its parent is there */

typedef struct arguments {
    http_server_options server;
    const char *faults[FAULTS_MOST];
    int n_faults;
    uint32_t latency_ms;
    uint64_t bandwidth;
    uint64_t bandwidth_all;
    const char *generate; /* "/bucket/train/:1000000:1000" */
    bool stay;            /* whatever becomes of the parent */
} arguments;

static const struct option names[] = {
    {"root", required_argument, NULL, 'r'},
    {"port", required_argument, NULL, 'p'},
    {"threads", required_argument, NULL, 't'},
    {"seed", required_argument, NULL, 'e'},
    {"token", required_argument, NULL, 'k'},
    {"s3", no_argument, NULL, 's'},
    {"mlflow", no_argument, NULL, 'm'},
    {"certificate", required_argument, NULL, 'c'},
    {"key", required_argument, NULL, 'y'},
    {"fault", required_argument, NULL, 'f'},
    {"latency-ms", required_argument, NULL, 'l'},
    {"bandwidth", required_argument, NULL, 'b'},
    {"bandwidth-all", required_argument, NULL, 'a'},
    {"trace", no_argument, NULL, 'v'},
    {"generate", required_argument, NULL, 'g'},
    {"stay", no_argument, NULL, 'w'},
    {0},
};

static void usage(void)
{
    fputs("usage: cloud_server [--root DIR] [--port N] [--threads N] [--seed N] [--token TOKEN]"
          " [--s3] [--mlflow]\n"
          "           [--certificate FILE --key FILE] [--latency-ms N] [--bandwidth BYTES]\n"
          "           [--bandwidth-all BYTES] [--fault NAME=VALUE,...]... [--trace]\n"
          "           [--generate FOLDER:COUNT:EACH] [--stay]\n",
          stderr);
}

/* What is asked, a line each. */
static void trace(void *user, const http_request *request, http_fault *fault)
{
    char range[64] = "";

    (void)user, (void)fault;
    http_header(request, "Range", range, sizeof range);
    fprintf(stderr, "%s %s %s\n", request->method, request->target, range);
}

static bool set(arguments *a, int option, const char *value)
{
    switch (option) {
    case 'r':
        a->server.root = value;
        return true;
    case 'p':
        a->server.port = (int)strtol(value, NULL, 10);
        return true;
    case 't':
        a->server.threads = (int)strtol(value, NULL, 10);
        return true;
    case 'e':
        a->server.seed = strtoull(value, NULL, 10);
        return true;
    case 'k':
        a->server.token = value;
        return true;
    case 's':
        a->server.s3 = true;
        return true;
    case 'm':
        a->server.mlflow = true;
        return true;
    case 'c':
        a->server.certificate = value;
        return true;
    case 'y':
        a->server.key = value;
        return true;
    case 'f':
        if (a->n_faults == FAULTS_MOST)
            return false;
        a->faults[a->n_faults++] = value;
        return true;
    case 'l':
        a->latency_ms = (uint32_t)strtoul(value, NULL, 10);
        return true;
    case 'b':
        a->bandwidth = strtoull(value, NULL, 10);
        return true;
    case 'g':
        a->generate = value;
        return strchr(value, ':') != NULL;
    case 'v':
        a->server.seen = trace;
        return true;
    case 'w':
        a->stay = true;
        return true;
    case 'a':
        a->bandwidth_all = strtoull(value, NULL, 10);
        return true;
    default:
        return false;
    }
}

/* Names for lists, of objects of 100,000 bytes. */
static void generate(http_server *server, const char *text)
{
    char folder[128], *end;

    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(text, ":"), text);
    const uint64_t count = strtoull(strchr(text, ':') + 1, &end, 10);
    http_server_generate(server, folder, count, *end ? strtoull(end + 1, NULL, 10) : 0, 100000);
}

/* As many connections as the system lets it have. */
static void raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    arguments a = {.server.control = true};
    const pid_t parent = getppid();
    sigset_t ends;
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
        if (!set(&a, option, optarg)) {
            usage();
            return 2;
        }
    if (optind != argc || !a.server.certificate != !a.server.key) {
        usage();
        return 2;
    }
    raise_files();
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    http_server *server = http_server_start(&a.server);
    if (!server) {
        fprintf(stderr, "cloud_server: cannot start: %s\n", strerror(errno));
        return 1;
    }
    if (a.generate)
        generate(server, a.generate);
    http_server_shape(server, a.latency_ms, a.bandwidth, a.bandwidth_all);
    for (int i = 0; i < a.n_faults; i++)
        if (!http_server_fault_text(server, a.faults[i])) {
            fprintf(stderr, "cloud_server: no such fault: %s\n", a.faults[i]);
            http_server_stop(&server);
            return 2;
        }
    printf("%s\n", http_server_url(server));
    fflush(stdout);
    while (sigtimedwait(&ends, NULL, &(struct timespec){.tv_nsec = LOOK_NS}) < 0 &&
           (a.stay || getppid() == parent)) {
    }
    http_server_stop(&server);
    return 0;
}
