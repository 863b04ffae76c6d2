/* What the tests' web server has of S3. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_SUPPORT_HTTP_S3_H
#define STK_TESTS_SUPPORT_HTTP_S3_H

#include "support/http_parts.h"

#define HTTP_S3_SUM_MAX 128

/* False: it is a plain GET, PUT or DELETE of an object. */
bool http_s3_answer(http_server *server, const http_request *request, http_answer *answer);

/* A value of the query, decoded; NULL: there is none. */
const char *http_s3_value(const http_request *request, const char *name, http_text *value);
bool http_s3_asks(const http_request *request, const char *name);
void http_s3_escape(http_text *out, const char *text);
/* Begin a body with this element. */
void http_s3_xml(http_answer *answer, const char *name);

/* Whether the checksums in the head are those of the bytes; else the answer is an error. */
bool http_s3_sums_right(const http_request *request, const void *data, size_t length,
                        http_answer *answer);
/* That of a whole object in memory, where a request asks for it. */
void http_s3_add_sum(const http_request *request, http_answer *answer);
/* Whether those in this piece of XML are. */
bool http_s3_part_right(const char *part, const void *data, size_t length);

/* Uploads in parts: begin, part, complete, abort, parts that are there. */
void http_s3_upload(http_server *server, const http_request *request, http_answer *answer);
void http_s3_list_uploads(http_uploads *uploads, const char *bucket, http_answer *answer);

#endif
