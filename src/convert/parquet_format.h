/* the numbers of Parquet that only who writes it needs */
/* SPDX-License-Identifier: Apache-2.0 */
/* https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift */
#ifndef STK_SRC_CONVERT_PARQUET_FORMAT_H
#define STK_SRC_CONVERT_PARQUET_FORMAT_H

#define STK__PARQUET_MAGIC "PAR1"
#define STK__PARQUET_MOST  INT32_MAX /* bytes of a page, of the footer */

enum { STK__PARQUET_REQUIRED = 0, STK__PARQUET_OPTIONAL = 1, STK__PARQUET_REPEATED = 2 };
enum { STK__PARQUET_DATA_PAGE = 0, STK__PARQUET_DICTIONARY_PAGE = 2 };
enum { STK__PARQUET_UNORDERED = 0, STK__PARQUET_ASCENDING = 1 };

/* ConvertedType, which older readers know, and the union LogicalType. */
enum { STK__PARQUET_UTF8 = 0, STK__PARQUET_LIST = 3 };
enum {
    STK__PARQUET_LOGICAL_STRING = 1,
    STK__PARQUET_LOGICAL_LIST = 3,
    STK__PARQUET_LOGICAL_INTEGER = 10,
    STK__PARQUET_LOGICAL_FLOAT16 = 15
};

#endif
