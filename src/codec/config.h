/* a codec's configuration as JSON -> its values. Inside src/codec only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_CONFIG_H
#define STK_SRC_CODEC_CONFIG_H

#include "codec/compile.h"

/* What is not given, or null, leaves the value as it is, unless said otherwise. */

/* The failure "codec: key what; mend the metadata". */
stk_status stk__config_wrong(stk__builder *b, const char *key, const char *what);
stk_status stk__config_int(stk__builder *b, const struct json_t *config, const char *key,
                           int64_t least, int64_t most, int64_t *value);
/* Levels beyond the range are those at its ends, as numcodecs has it. */
stk_status stk__config_level(stk__builder *b, const struct json_t *config, const char *key,
                             int64_t least, int64_t most, int64_t *level);
/* Must be given. *is_integer stays true where it is one. */
stk_status stk__config_number(stk__builder *b, const struct json_t *config, const char *key,
                              double *value, int64_t *integer, bool *is_integer);
/* Must be given where *number is none. */
stk_status stk__config_type(stk__builder *b, const struct json_t *config, const char *key,
                            stk__number *number);
/* The list "values" of an HDF5 filter, at least `least` of them; what is behind `most` is left out,
 * what is not there is 0. `count` NULL: it does not matter how many there are. */
stk_status stk__config_values(stk__builder *b, const struct json_t *config, size_t least,
                              uint32_t *values, size_t most, size_t *count);

/* What reads a configuration and pushes the steps of its codec. */
typedef stk_status stk__config_fn(stk__builder *b, const struct json_t *config,
                                  const stk__codec_ops *ops);
stk__config_fn stk__config_optional;
/* HDF5's filters (codecs_hdf5.c); zfp's (codecs_zfp.c). */
stk__config_fn stk__config_szip, stk__config_nbit, stk__config_scaleoffset, stk__config_hdf5_lz4,
    stk__config_bitshuffle, stk__config_hdf5_zfp, stk__config_zfpy, stk__config_zfp;

#endif
