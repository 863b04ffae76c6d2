/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/s3.h"

#define AT(member) offsetof(stk__s3_options, member)

#define COMMON                                                                                     \
    STK__HTTP_OPTIONS(stk__s3_options, http),                                                      \
        {.name = "endpoint",                                                                       \
         .offset = AT(endpoint),                                                                   \
         .type = STK_OPTION_STRING,                                                                \
         .metavar = "URL",                                                                         \
         .doc = "Another server that speaks this language: https://HOST[:PORT]."},                 \
        {.name = "style",                                                                          \
         .offset = AT(style),                                                                      \
         .type = STK_OPTION_ENUM,                                                                  \
         .choices = "auto|virtual|path",                                                           \
         .initial = "auto",                                                                        \
         .doc = "Where a request names the bucket: as part of the host's name or of the path. "    \
                "auto: of Amazon's hosts, where the name can be part of one; else of the path."},  \
        {.name = "access_key_id",                                                                  \
         .offset = AT(access_key_id),                                                              \
         .type = STK_OPTION_SECRET,                                                                \
         .doc = "The first half of a pair of keys; of Google Cloud an HMAC key."},                 \
        {.name = "secret_access_key",                                                              \
         .offset = AT(secret_access_key),                                                          \
         .type = STK_OPTION_SECRET,                                                                \
         .doc = "The second half."},                                                               \
        {.name = "metadata_endpoint",                                                              \
         .offset = AT(metadata_endpoint),                                                          \
         .type = STK_OPTION_STRING,                                                                \
         .metavar = "URL",                                                                         \
         .initial = "http://169.254.169.254",                                                      \
         .doc = "Instance metadata that is asked for credentials where nothing else has any; "     \
                "empty: it is not asked."},                                                        \
        {.name = "anonymous",                                                                      \
         .offset = AT(anonymous),                                                                  \
         .type = STK_OPTION_BOOL,                                                                  \
         .initial = "false",                                                                       \
         .doc = "Send no credentials: the bucket is public."},                                     \
    {                                                                                              \
        .name = "allow_http", .offset = AT(allow_http), .type = STK_OPTION_BOOL,                   \
        .initial = "false", .doc = "Let signed requests go to another machine over plain http."    \
    }

static const stk_option s3_option_list[] = {
    COMMON,
    {.name = "region",
     .offset = AT(region),
     .type = STK_OPTION_STRING,
     .metavar = "REGION",
     .doc = "Where the bucket lies, as us-east-1; else that of the profile, and then the bucket is "
            "asked."},
    {.name = "session_token",
     .offset = AT(session_token),
     .type = STK_OPTION_SECRET,
     .doc = "What comes with keys that expire."},
    {.name = "profile",
     .offset = AT(profile),
     .type = STK_OPTION_STRING,
     .metavar = "NAME",
     .doc = "Which profile of the files of credentials; else default."},
    {.name = "credentials_file",
     .offset = AT(credentials_file),
     .type = STK_OPTION_STRING,
     .metavar = "FILE",
     .doc = "File of `aws configure` with keys, as ~/.aws/credentials."},
    {.name = "config_file",
     .offset = AT(config_file),
     .type = STK_OPTION_STRING,
     .metavar = "FILE",
     .doc = "File of `aws configure` with profiles, as ~/.aws/config."},
    {.name = "sso_folder",
     .offset = AT(sso_folder),
     .type = STK_OPTION_STRING,
     .metavar = "DIR",
     .doc = "Folder of the tokens that `aws sso login` left, as ~/.aws/sso/cache."},
    {.name = "role_arn",
     .offset = AT(role_arn),
     .type = STK_OPTION_STRING,
     .metavar = "ARN",
     .doc = "Role that is taken by web identity."},
    {.name = "role_session_name",
     .offset = AT(role_session_name),
     .type = STK_OPTION_STRING,
     .metavar = "NAME",
     .initial = "stoker",
     .doc = "Its name in logs of Amazon."},
    {.name = "web_identity_token_file",
     .offset = AT(web_identity_token_file),
     .type = STK_OPTION_STRING,
     .metavar = "FILE",
     .doc = "File with the token of the web identity."},
    {.name = "container_uri",
     .offset = AT(container_uri),
     .type = STK_OPTION_STRING,
     .metavar = "URI",
     .doc = "Service of the container that is asked for credentials: a path or a URL."},
    {.name = "container_token",
     .offset = AT(container_token),
     .type = STK_OPTION_SECRET,
     .doc = "What it wants as Authorization."},
    {.name = "container_token_file",
     .offset = AT(container_token_file),
     .type = STK_OPTION_STRING,
     .metavar = "FILE",
     .doc = "File with the same."},
    {.name = "requester_pays",
     .offset = AT(requester_pays),
     .type = STK_OPTION_BOOL,
     .initial = "false",
     .doc = "Pay for requests of a bucket whose owner does not."},
};

const stk_option_table stk__s3_option_table = {
    .name = "s3",
    .doc = "Objects of Amazon S3, and of what speaks its language.",
    .struct_size = sizeof(stk__s3_options),
    .options = s3_option_list,
    .count = STK_COUNT(s3_option_list),
};

static const stk_option gs_option_list[] = {
    COMMON,
    {.name = "credentials_file",
     .offset = AT(credentials_file),
     .type = STK_OPTION_STRING,
     .metavar = "FILE",
     .doc =
         "Key of a service account, or what `gcloud auth application-default login` left: JSON."},
};

const stk_option_table stk__gs_option_table = {
    .name = "gs",
    .doc = "Objects of Google Cloud Storage.",
    .struct_size = sizeof(stk__s3_options),
    .options = gs_option_list,
    .count = STK_COUNT(gs_option_list),
};
