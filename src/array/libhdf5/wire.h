/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library and the program stoker-hdf5 say to each other, by frames over one socket.
 *
 * A frame is its kind and the bytes of its payload (two uint32), and the payload. Both ends run on
 * one machine and are of one build, so numbers are as the machine has them. The library asks; until
 * the answer ends with DONE or FAIL the program may ask for bytes of the file (WANT), which are
 * given at once. Neither end believes the other: a frame that is not in its place, or not as long
 * as what it says, ends the conversation.
 *
 * This header is all that both have in common, and needs nothing but libc.
 */
#ifndef STK_SRC_ARRAY_LIBHDF5_WIRE_H
#define STK_SRC_ARRAY_LIBHDF5_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define STK__WIRE_VERSION 1
#define STK__WIRE_PIECE   (1u << 20)  /* bytes of a BYTES or DATA frame at most */
#define STK__WIRE_MOST    (16u << 20) /* of any payload */
#define STK__WIRE_RANK    32          /* dimensions, those of HDF5 as well */
#define STK__WIRE_NODES   (1u << 20)  /* of one file */
#define STK__WIRE_NONE    UINT32_MAX  /* no dimension */

/* Descriptors of the program. Every other one is closed. */
#define STK__WIRE_SOCKET 0
#define STK__WIRE_FILE   3 /* that is written */

typedef enum stk__wire_kind {
    /* From the library: */
    STK__WIRE_READ_FILE = 1, /* size: the file that WANT is about */
    STK__WIRE_LIST,          /* -> NODE ... */
    STK__WIRE_DESCRIBE,      /* path -> ATTRIBUTE ..., of a dataset LAYOUT */
    STK__WIRE_READ,          /* path, itemsize, rank, start, shape -> DATA ... */
    STK__WIRE_BYTES,         /* what WANT asked for; nothing: it could not be read */
    STK__WIRE_WRITE_FILE,    /* properties: the file of STK__WIRE_FILE */
    STK__WIRE_GROUP,         /* path */
    STK__WIRE_DIMENSION,     /* id, path, size, unlimited: one without a variable */
    STK__WIRE_VARIABLE,      /* see stk__libhdf5_put_variable() */
    STK__WIRE_PUT_ATTRIBUTE, /* of the group or variable that was made last */
    STK__WIRE_DEFINED,       /* all of it: dimensions are attached */
    STK__WIRE_BOX,           /* variable, start, shape, is it read back; its bytes of DATA follow */
    STK__WIRE_CHUNK,         /* variable, start, bytes, is it read back; that much DATA follows */
    STK__WIRE_FINISH,
    /* From either: */
    STK__WIRE_DATA,
    /* From the program: */
    STK__WIRE_HELLO, /* version: before anything else */
    STK__WIRE_DONE,
    STK__WIRE_FAIL, /* status, text */
    STK__WIRE_WANT, /* offset, length: at most STK__WIRE_PIECE */
    STK__WIRE_NODE, /* is it an array, path */
    STK__WIRE_LAYOUT,
    STK__WIRE_ATTRIBUTE
} stk__wire_kind;

/* Types of elements: those of stk_dtype, and: */
enum {
    STK__WIRE_TEXT = 64, /* bytes padded with zeros; of an attribute: texts of any length */
    STK__WIRE_UNICODE,   /* UTF-32 padded with zeros; of a variable that is written: VLEN */
    STK__WIRE_RAW,       /* bytes that mean nothing here */
    STK__WIRE_OTHER      /* of an attribute: none of these; it has no values */
};

typedef struct stk__wire_head {
    uint32_t kind, length;
} stk__wire_head;

/* ---- Taking a payload apart ---- */

/* `bad` once it was too short or not as it has to be; what is taken then is zeros. */
typedef struct stk__wire_in {
    const unsigned char *at;
    size_t left;
    bool bad;
} stk__wire_in;

static inline const void *stk__wire_take(stk__wire_in *in, uint64_t length)
{
    const unsigned char *at = in->at;

    if (in->bad || length > in->left) {
        in->bad = true;
        return NULL;
    }
    in->at += length;
    in->left -= (size_t)length;
    return at;
}

static inline uint64_t stk__wire_number(stk__wire_in *in, size_t bytes)
{
    const void *at = stk__wire_take(in, bytes);
    uint64_t n64 = 0;
    uint32_t n32 = 0;

    if (!at)
        return 0;
    if (bytes == 1)
        return *(const unsigned char *)at;
    if (bytes == sizeof n32)
        memcpy(&n32, at, sizeof n32);
    else
        memcpy(&n64, at, sizeof n64);
    return bytes == sizeof n32 ? n32 : n64;
}

static inline uint32_t stk__wire_u8(stk__wire_in *in)
{
    return (uint32_t)stk__wire_number(in, 1);
}

static inline uint32_t stk__wire_u32(stk__wire_in *in)
{
    return (uint32_t)stk__wire_number(in, 4);
}

static inline uint64_t stk__wire_u64(stk__wire_in *in)
{
    return stk__wire_number(in, 8);
}

/* A text within the payload, ended by a zero and with none before. Never NULL. */
static inline const char *stk__wire_text(stk__wire_in *in)
{
    const uint32_t length = stk__wire_u32(in);
    const char *text = (const char *)stk__wire_take(in, (uint64_t)length + 1);

    if (text && (text[length] || memchr(text, 0, length)))
        in->bad = true;
    return in->bad ? "" : text;
}

/* Whether all of it was taken and nothing was wrong. */
static inline bool stk__wire_end(const stk__wire_in *in)
{
    return !in->bad && in->left == 0;
}

/* ---- Putting one together ---- */

/* grow() makes room for as many bytes more, or says that it cannot. */
typedef struct stk__wire_out {
    unsigned char *bytes;
    size_t length, room;
    bool bad;      /* no memory, or too long: it lacks something */
    bool too_long; /* for STK__WIRE_MOST */
    bool (*grow)(struct stk__wire_out *out, size_t more);
    void *user;
} stk__wire_out;

static inline void stk__wire_put(stk__wire_out *out, const void *data, size_t length)
{
    if (length > STK__WIRE_MOST - out->length)
        out->bad = out->too_long = true;
    if (!out->bad && length > out->room - out->length && !out->grow(out, length))
        out->bad = true;
    if (out->bad)
        return;
    if (length)
        memcpy(out->bytes + out->length, data, length);
    out->length += length;
}

static inline void stk__wire_put_u8(stk__wire_out *out, uint32_t n)
{
    const unsigned char byte = (unsigned char)n;

    stk__wire_put(out, &byte, 1);
}

static inline void stk__wire_put_u32(stk__wire_out *out, uint32_t n)
{
    stk__wire_put(out, &n, sizeof n);
}

static inline void stk__wire_put_u64(stk__wire_out *out, uint64_t n)
{
    stk__wire_put(out, &n, sizeof n);
}

static inline void stk__wire_put_text_of(stk__wire_out *out, const char *text, uint32_t length)
{
    stk__wire_put_u32(out, length);
    stk__wire_put(out, text, length);
    stk__wire_put_u8(out, 0);
}

static inline void stk__wire_put_text(stk__wire_out *out, const char *text)
{
    const size_t length = strlen(text);

    if (length > STK__WIRE_MOST)
        out->bad = out->too_long = true;
    else
        stk__wire_put_text_of(out, text, (uint32_t)length);
}

#endif
