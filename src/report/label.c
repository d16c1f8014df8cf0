#include "report/label.h"

#include <stdbool.h>

#include "report/width_table.h"
#include "run/text.h"

#define ELLIPSIS "\xe2\x80\xa6" /* U+2026 */
#define REPLACEMENT 0xfffdu

/* --- UTF-8 --- */

size_t lp_report_decode(const char *bytes, size_t len, uint32_t *code)
{
    static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t n = lp_text_sequence((struct lp_span){bytes, len});
    if (n == 0) {
        *code = LP_REPORT_INVALID;
        return 1;
    }
    *code = (unsigned char)bytes[0] & lead_bits[n];
    for (size_t i = 1; i < n; i++)
        *code = *code << 6 | ((unsigned char)bytes[i] & 0x3fu);
    return n;
}

size_t lp_report_encode(uint32_t code, char bytes[4])
{
    if (code < 0x80) {
        bytes[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6)
        bytes[i] = (char)(0x80u | (code & 0x3fu));
    bytes[0] = (char)((0xf00u >> n & 0xffu) | code);
    return n;
}

/* --- what is shown, and how wide --- */

uint32_t lp_report_shown(uint32_t code)
{
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool surrogate = code >= 0xd800 && code < 0xe000;
    bool line_break = code == 0x2028 || code == 0x2029;
    /* Marks, embeddings, overrides and isolates of writing direction: they reorder what stands beside them. */
    bool direction = code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069);
    return control || surrogate || line_break || direction || code > 0x10ffff ? REPLACEMENT : code;
}

static bool is_in(const struct lp_report_range *ranges, size_t n, uint32_t code)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && code >= ranges[low].first;
}

#define IS_IN(table, code) is_in(table, sizeof(table) / sizeof *(table), code)

unsigned lp_report_columns_of(uint32_t code)
{
    if (code < 0x300)
        return 1;
    if (IS_IN(lp_report_zero_width, code))
        return 0;
    return IS_IN(lp_report_double_width, code) ? 2 : 1;
}

static size_t next_shown(const char *bytes, size_t len, uint32_t *code)
{
    size_t n = lp_report_decode(bytes, len, code);
    *code = lp_report_shown(*code);
    return n;
}

size_t lp_report_columns(const char *bytes, size_t len)
{
    size_t columns = 0;
    uint32_t code;
    for (size_t at = 0; at < len;) {
        at += next_shown(bytes + at, len - at, &code);
        columns += lp_report_columns_of(code);
    }
    return columns;
}

/* --- labels --- */

static void write_shown(struct lp_report_sink *sink, const char *bytes, size_t len)
{
    uint32_t code;
    char utf8[4];
    for (size_t at = 0; at < len;) {
        at += next_shown(bytes + at, len - at, &code);
        lp_report_write(sink, utf8, lp_report_encode(code, utf8));
    }
}

/* Where the longest tail of at most `columns` begins; it does not begin with a character that combines. */
static size_t tail_begin(const char *bytes, size_t len, size_t all, size_t columns)
{
    size_t at = 0;
    uint32_t code;
    while (at < len) {
        size_t n = next_shown(bytes + at, len - at, &code);
        size_t width = lp_report_columns_of(code);
        if (all <= columns && width > 0)
            break;
        all -= width;
        at += n;
    }
    return at;
}

/* Where the longest head of at most `columns` ends, with what combines with its last character. */
static size_t head_end(const char *bytes, size_t len, size_t columns)
{
    size_t at = 0;
    uint32_t code;
    while (at < len && (at > 0 || columns > 0)) {
        size_t n = next_shown(bytes + at, len - at, &code);
        size_t width = lp_report_columns_of(code);
        if (width > columns)
            break;
        columns -= width;
        at += n;
    }
    return at;
}

/* The head that is to be shown, an ellipsis, and as much of the tail as there is room for. */
static size_t cut(struct lp_report_sink *sink, const char *bytes, size_t len, size_t columns, size_t head_columns)
{
    size_t all = lp_report_columns(bytes, len);
    if (all <= columns) {
        write_shown(sink, bytes, len);
        return all;
    }
    if (columns == 0)
        return 0;
    size_t head = head_end(bytes, len, head_columns), taken = lp_report_columns(bytes, head) + 1;
    size_t tail = tail_begin(bytes, len, all, columns - taken);
    write_shown(sink, bytes, head);
    lp_report_puts(sink, ELLIPSIS);
    write_shown(sink, bytes + tail, len - tail);
    return taken + lp_report_columns(bytes + tail, len - tail);
}

size_t lp_report_label(struct lp_report_sink *sink, const char *bytes, size_t len, size_t columns)
{
    return cut(sink, bytes, len, columns, 0);
}

size_t lp_report_name(struct lp_report_sink *sink, const char *bytes, size_t len, size_t columns)
{
    return cut(sink, bytes, len, columns, columns / 2);
}
