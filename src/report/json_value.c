#include "report/json_value.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin(struct lp_emit *emit, const char *key)
{
    if (key != NULL)
        lp_emit_key(emit, key);
}

void lp_report_json_object(struct lp_emit *emit, const char *key)
{
    begin(emit, key);
    lp_emit_open(emit, '{');
}

void lp_report_json_array(struct lp_emit *emit, const char *key)
{
    begin(emit, key);
    lp_emit_open(emit, '[');
}

void lp_report_json_null(struct lp_emit *emit, const char *key)
{
    begin(emit, key);
    lp_emit_null(emit);
}

void lp_report_json_bool(struct lp_emit *emit, const char *key, bool value)
{
    begin(emit, key);
    lp_emit_bool(emit, value);
}

void lp_report_json_count(struct lp_emit *emit, const char *key, uint64_t value)
{
    begin(emit, key);
    lp_emit_u64(emit, value);
}

void lp_report_json_signed(struct lp_emit *emit, const char *key, int64_t value)
{
    begin(emit, key);
    lp_emit_i64(emit, value);
}

/* The decimal point of the locale may be anything, of several bytes too; JSON's is a point. */
static void set_point(char *digits)
{
    const char *point = localeconv()->decimal_point;
    char *found = *point != '\0' ? strstr(digits, point) : NULL;
    if (found == NULL)
        return;
    const char *rest = found + strlen(point);
    *found = '.';
    memmove(found + 1, rest, strlen(rest) + 1);
}

void lp_report_json_real(struct lp_emit *emit, const char *key, double value)
{
    char digits[48];
    if (!isfinite(value)) {
        lp_report_json_null(emit, key);
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    set_point(digits);
    begin(emit, key);
    if (emit->comma)
        lp_emit_raw(emit, ",", 1);
    lp_emit_raw(emit, digits, strlen(digits));
    emit->comma = true;
}

void lp_report_json_text(struct lp_emit *emit, const char *key, const struct lp_text *text)
{
    begin(emit, key);
    if (text->bytes != NULL)
        lp_emit_text(emit, text->bytes, text->len);
    else
        lp_emit_null(emit);
}

void lp_report_json_string(struct lp_emit *emit, const char *key, const char *text)
{
    begin(emit, key);
    if (text != NULL)
        lp_emit_string(emit, text);
    else
        lp_emit_null(emit);
}
