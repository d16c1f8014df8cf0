#include "run/line.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S UINT64_C(1000000000)

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
static const char ellipsis[] = "\xe2\x80\xa6";    /* U+2026 */

static void append(struct lp_run_line *line, const char *bytes, size_t len)
{
    if (line->failed)
        return;
    if (line->room - line->len < len) {
        size_t room = (line->len + len) * 2;
        char *moved = realloc(line->bytes, room);
        if (!moved) {
            line->failed = true;
            return;
        }
        line->bytes = moved;
        line->room = room;
    }
    memcpy(line->bytes + line->len, bytes, len);
    line->len += len;
}

void lp_run_line_add(struct lp_run_line *line, const char *format, ...)
{
    char piece[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (len > 0)
        append(line, piece, (size_t)len < sizeof piece ? (size_t)len : sizeof piece - 1);
}

/* Whether a sequence (of lp_text_sequence) prints as itself on one line. */
static bool is_plain(const char *sequence, size_t len)
{
    const unsigned char *byte = (const unsigned char *)sequence;
    if (len == 1)
        return byte[0] >= 0x20 && byte[0] != 0x7f;
    if (len == 2)
        return byte[0] != 0xc2 || byte[1] >= 0xa0;
    if (len == 3 && byte[0] == 0xed)
        return byte[1] < 0xa0;
    return len != 3 || byte[0] != 0xe2 || byte[1] != 0x80 || (byte[2] != 0xa8 && byte[2] != 0xa9);
}

void lp_run_line_text(struct lp_run_line *line, struct lp_span text)
{
    while (text.len) {
        size_t len = lp_text_sequence(text);
        if (len && is_plain(text.bytes, len))
            append(line, text.bytes, len);
        else
            append(line, replacement, sizeof replacement - 1);
        size_t used = len ? len : 1;
        text.bytes += used;
        text.len -= used;
    }
}

/* The next character, and its columns: what has three bytes or more is taken for a wide one. */
static size_t next_of(struct lp_span text, size_t at, size_t *columns)
{
    size_t len = lp_text_sequence((struct lp_span){text.bytes + at, text.len - at});
    *columns = len >= 3 ? 2 : 1;
    return len ? len : 1;
}

static size_t columns_of(struct lp_span text)
{
    size_t columns, all = 0;
    for (size_t at = 0; at < text.len; all += columns)
        at += next_of(text, at, &columns);
    return all;
}

/* Behind so many columns, or behind the character that stands there. */
static size_t behind(struct lp_span text, size_t columns)
{
    size_t at = 0, width;
    for (size_t done = 0; at < text.len && done < columns; done += width)
        at += next_of(text, at, &width);
    return at;
}

void lp_run_line_name(struct lp_run_line *line, struct lp_span name)
{
    size_t columns = columns_of(name);
    if (columns <= LP_RUN_LINE_NAME) {
        lp_run_line_text(line, name);
        return;
    }
    size_t head = behind(name, LP_RUN_LINE_NAME / 2), tail = behind(name, columns - (LP_RUN_LINE_NAME - 1) / 2);
    lp_run_line_text(line, (struct lp_span){name.bytes, head});
    append(line, ellipsis, sizeof ellipsis - 1);
    lp_run_line_text(line, (struct lp_span){name.bytes + tail, name.len - tail});
}

/* To the nearest, as the pages of report/format.h have it: one duration reads the same everywhere. */
static unsigned long long nearest(uint64_t ns, uint64_t unit_ns)
{
    return ns / unit_ns + (ns % unit_ns >= unit_ns / 2);
}

static void tenths(struct lp_run_line *line, unsigned long long n, const char *unit)
{
    lp_run_line_add(line, "%llu.%llu%s", n / 10, n % 10, unit);
}

static void long_duration(struct lp_run_line *line, uint64_t ns)
{
    unsigned long long seconds = nearest(ns, S), minutes = nearest(ns, 60 * S), hours = nearest(ns, 3600 * S);
    if (seconds < 3600 && seconds % 60 == 0)
        lp_run_line_add(line, "%llum", seconds / 60);
    else if (seconds < 3600)
        lp_run_line_add(line, "%llum %02llus", seconds / 60, seconds % 60);
    else if (minutes < 6000)
        lp_run_line_add(line, "%lluh %02llum", minutes / 60, minutes % 60);
    else
        lp_run_line_add(line, "%llud %02lluh", hours / 24, hours % 24);
}

void lp_run_line_range(struct lp_run_line *line, int64_t first, int64_t last)
{
    lp_run_line_add(line, "%lld", (long long)first);
    if (last > first)
        lp_run_line_add(line, "-%lld", (long long)last);
}

void lp_run_line_duration(struct lp_run_line *line, uint64_t ns)
{
    if (ns < 1000)
        lp_run_line_add(line, "%lluns", (unsigned long long)ns);
    else if (nearest(ns, 100) < 10000)
        tenths(line, nearest(ns, 100), "us");
    else if (nearest(ns, 100000) < 10000)
        tenths(line, nearest(ns, 100000), "ms");
    else if (nearest(ns, S / 10) < 600)
        tenths(line, nearest(ns, S / 10), "s");
    else
        long_duration(line, ns);
}

char *lp_run_line_take(struct lp_run_line *line)
{
    append(line, "", 1);
    char *bytes = line->bytes;
    if (line->failed) {
        free(bytes);
        bytes = NULL;
    }
    *line = (struct lp_run_line){0};
    return bytes;
}
