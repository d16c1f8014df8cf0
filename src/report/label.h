/*
 * report/label: names as they can stand in a table.
 *
 * Recorded text is arbitrary: UTF-8 in which lone surrogates may stand, with NUL and any control
 * character, and paths of the file system need not be UTF-8 at all. Shown, every control character,
 * every invalid byte, every lone surrogate and every character that turns the direction of a line
 * or breaks it is U+FFFD. Columns are counted as a terminal draws them: two for wide East Asian
 * characters, none for combining ones (width_table.h; the C library's own wcwidth knows nothing in
 * the C locale). A path that is too long keeps its tail, which tells it from its neighbours, behind
 * an ellipsis. The name of a host, a role or a run may differ from others at either end: it keeps both.
 *
 * Must not know: which table, which column.
 */
#ifndef LP_REPORT_LABEL_H
#define LP_REPORT_LABEL_H

#include <stddef.h>
#include <stdint.h>

#include "report/sink.h"

#define LP_REPORT_INVALID UINT32_MAX

/* Reads one character of len > 0 bytes and returns how many bytes it takes. A lone surrogate is
   returned as its code; a byte that begins no character as LP_REPORT_INVALID, alone. */
size_t lp_report_decode(const char *bytes, size_t len, uint32_t *code);
/* Writes a character as UTF-8 (a surrogate as it would be) and returns its length, at most 4. */
size_t lp_report_encode(uint32_t code, char bytes[4]);
/* What is shown for a character: itself or U+FFFD. */
uint32_t lp_report_shown(uint32_t code);
/* 0, 1 or 2 columns for a character that is shown. */
unsigned lp_report_columns_of(uint32_t code);

/* Columns of a text as shown. */
size_t lp_report_columns(const char *bytes, size_t len);
/* Writes a text as shown, its tail if it takes more than `columns`; returns the columns taken, never more. */
size_t lp_report_label(struct lp_report_sink *sink, const char *bytes, size_t len, size_t columns);
/* Likewise, head and tail. */
size_t lp_report_name(struct lp_report_sink *sink, const char *bytes, size_t len, size_t columns);

#endif
