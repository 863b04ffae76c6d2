/* The constants of the inverse DCT, the same in all its versions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_CODEC_IMAGE_IDCT_H
#define STK_SRC_CODEC_IMAGE_IDCT_H

#define CONST_BITS 13
#define PASS1_BITS 2
/* Multiples of 2^CONST_BITS, as pairs of the coefficients that stand in pairs. */
#define C_0_298 2446
#define C_0_390 3196
#define C_0_541 4433
#define C_0_765 6270
#define C_0_899 7373
#define C_1_175 9633
#define C_1_501 12299
#define C_1_847 15137
#define C_1_961 16069
#define C_2_053 16819
#define C_2_562 20995
#define C_3_072 25172

#endif
