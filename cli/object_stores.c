/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the environment says of S3 [AWS SDKs and Tools Reference Guide, Environment variables], of
 * Google Cloud Storage [Application Default Credentials] and of the user's cache: the library does
 * not read it, so the command and the Python package make options of stores of it. They stand in
 * front of those that were given, which count more. Secrets stay where they are: an option names
 * them.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "object_stores.h"

static const struct {
    const char *variable, *option;
    bool secret;
} variables[] = {
    {"AWS_DEFAULT_REGION", "region", false},
    {"AWS_REGION", "region", false},
    {"AWS_ENDPOINT_URL", "endpoint", false},
    {"AWS_ENDPOINT_URL_S3", "endpoint", false},
    {"AWS_PROFILE", "profile", false},
    {"AWS_ROLE_ARN", "role_arn", false},
    {"AWS_ROLE_SESSION_NAME", "role_session_name", false},
    {"AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file", false},
    {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "container_uri", false},
    {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "container_uri", false},
    {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "container_token_file", false},
    {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "container_token", true},
    {"AWS_EC2_METADATA_SERVICE_ENDPOINT", "metadata_endpoint", false},
};

/* "STORE(option='value', ...)" as it is put together. */
struct item {
    FILE *to;
    const char *store;
    bool any;
};

static void begin(struct item *item, const char *option)
{
    if (item->any)
        fputs(", ", item->to);
    else
        fprintf(item->to, "%s(", item->store);
    item->any = true;
    fprintf(item->to, "%s=", option);
}

static void end(const struct item *item)
{
    if (item->any)
        fputs("), ", item->to);
}

/* What lies between is put together; one that has both kinds of quotes cannot be written. */
static void add(struct item *item, const char *option, const char *front, const char *value,
                const char *tail)
{
    const char quote = strchr(value, '\'') ? '"' : '\'';

    if (strpbrk(value, "\r\n") || strchr(value, quote))
        return;
    begin(item, option);
    fprintf(item->to, "%c%s%s%s%c", quote, front, value, tail, quote);
}

static const char *set(const char *variable)
{
    const char *value = getenv(variable);

    return value && *value ? value : NULL;
}

static bool is_true(const char *value)
{
    return value && (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

static void add_secret(struct item *item, const char *option, const char *variable)
{
    begin(item, option);
    fprintf(item->to, "env:%s", variable);
}

/* A file of `aws configure`, where nothing else is said. */
static void add_file(struct item *item, const char *option, const char *variable, const char *home,
                     const char *tail)
{
    if (set(variable))
        add(item, option, "", set(variable), "");
    else if (home)
        add(item, option, "", home, tail);
}

static void add_amazon(FILE *to, const char *home)
{
    struct item s3 = {to, "s3", false};

    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (set(variables[i].variable) && variables[i].secret)
            add_secret(&s3, variables[i].option, variables[i].variable);
        else if (set(variables[i].variable))
            add(&s3, variables[i].option, "", set(variables[i].variable), "");
    /* Half a pair is not one: the next source is asked. */
    if (set("AWS_ACCESS_KEY_ID") && set("AWS_SECRET_ACCESS_KEY")) {
        add_secret(&s3, "access_key_id", "AWS_ACCESS_KEY_ID");
        add_secret(&s3, "secret_access_key", "AWS_SECRET_ACCESS_KEY");
        if (set("AWS_SESSION_TOKEN"))
            add_secret(&s3, "session_token", "AWS_SESSION_TOKEN");
    }
    add_file(&s3, "credentials_file", "AWS_SHARED_CREDENTIALS_FILE", home, "/.aws/credentials");
    add_file(&s3, "config_file", "AWS_CONFIG_FILE", home, "/.aws/config");
    if (home)
        add(&s3, "sso_folder", "", home, "/.aws/sso/cache");
    if (is_true(set("AWS_EC2_METADATA_DISABLED")))
        add(&s3, "metadata_endpoint", "", "", "");
    end(&s3);
}

/* What `gcloud auth application-default login` leaves, where it has left it. */
static void add_login(struct item *item, const char *folder, const char *between)
{
    static const char name[] = "/application_default_credentials.json";
    char path[4096];

    if (snprintf(path, sizeof path, "%s%s%s", folder, between, name) < (int)sizeof path &&
        access(path, R_OK) == 0)
        add(item, "credentials_file", "", path, "");
}

static void add_google(FILE *to, const char *home)
{
    struct item gs = {to, "gs", false};

    const char *server = set("STORAGE_EMULATOR_HOST");
    if (server)
        add(&gs, "endpoint", strstr(server, "://") ? "" : "http://", server, "");
    if (set("GOOGLE_APPLICATION_CREDENTIALS"))
        add(&gs, "credentials_file", "", set("GOOGLE_APPLICATION_CREDENTIALS"), "");
    else if (set("CLOUDSDK_CONFIG"))
        add_login(&gs, set("CLOUDSDK_CONFIG"), "");
    else if (home)
        add_login(&gs, home, "/.config/gcloud");
    if (is_true(set("NO_GCE_CHECK")))
        add(&gs, "metadata_endpoint", "", "", "");
    else if (set("GCE_METADATA_HOST"))
        add(&gs, "metadata_endpoint", "http://", set("GCE_METADATA_HOST"), "");
    end(&gs);
}

bool cli_cache_folder(const char *home, char *folder, size_t size)
{
    const char *cache = set("XDG_CACHE_HOME");
    int length;

    if (cache && *cache == '/')
        length = snprintf(folder, size, "%s/stoker", cache);
    else if (home && *home == '/')
        length = snprintf(folder, size, "%s/.cache/stoker", home);
    else
        return false;
    return length > 0 && (size_t)length < size;
}

/* Where cache+URL keeps what it reads, unless it says so itself. */
static void add_cache(FILE *to, const char *home)
{
    struct item cache = {to, "cache", false};
    char folder[PATH_MAX];

    if (cli_cache_folder(home, folder, sizeof folder))
        add(&cache, "dir", "", folder, "");
    end(&cache);
}

char *cli_object_stores(const char *home, const char *given)
{
    const stk_driver_head *s3;
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);

    if (!to)
        return NULL;
    /* Without libcurl they have none. */
    if (stk_driver_find(NULL, STK_DRIVER_STORE, "s3", &s3, NULL) == STK_OK && s3->options) {
        add_amazon(to, home);
        add_google(to, home);
    }
    add_cache(to, home);
    fputs(given ? given : "", to);
    if (fclose(to) == 0) {
        /* Nothing may follow the last comma. */
        if (length >= 2 && strcmp(text + length - 2, ", ") == 0)
            text[length - 2] = 0;
        return text;
    }
    free(text);
    return NULL;
}
