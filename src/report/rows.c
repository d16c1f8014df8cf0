#include "report/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/json_value.h"
#include "run/text.h"

static const char who_columns[] = "worker,role,host,rank,pid";

void lp_report_rows_init(struct lp_report_rows *rows, struct lp_report_sink *sink, enum lp_ring_kind kind, bool json)
{
    *rows = (struct lp_report_rows){.sink = sink, .kind = kind, .json = json};
}

void lp_report_rows_release(struct lp_report_rows *rows)
{
    free(rows->line.bytes);
    free(rows->who.bytes);
}

/* --- pieces --- */

static void put(struct lp_report_rows *rows, struct lp_buffer *to, const char *bytes, size_t len)
{
    if (lp_buffer_put(to, bytes, len) != 0)
        lp_report_fail(rows->sink, -ENOMEM);
}

static void puts_to(struct lp_report_rows *rows, struct lp_buffer *to, const char *text)
{
    put(rows, to, text, strlen(text));
}

static void put_number(struct lp_report_rows *rows, uint64_t number)
{
    char digits[20], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    put(rows, &rows->line, at, (size_t)(digits + sizeof digits - at));
}

/* A text as one field of CSV, quotes doubled in quotes; always quoted, so that an empty one is not taken for none. */
static void put_quoted(struct lp_report_rows *rows, struct lp_buffer *to, struct lp_span text)
{
    char *encoded = malloc(text.len * LP_TEXT_ENCODED_MAX + 1);
    if (!encoded) {
        lp_report_fail(rows->sink, -ENOMEM);
        return;
    }
    size_t len = lp_text_encode(encoded, text);
    for (size_t i = 0; i < len; i++)
        put(rows, to, encoded[i] == '"' ? "\"\"" : &encoded[i], encoded[i] == '"' ? 2 : 1);
    free(encoded);
}

static void put_text(struct lp_report_rows *rows, struct lp_buffer *to, const struct lp_text *text)
{
    puts_to(rows, to, "\"");
    put_quoted(rows, to, lp_text_span(text));
    puts_to(rows, to, "\",");
}

static void put_seconds(struct lp_report_rows *rows, uint64_t epoch_ns)
{
    char text[40];
    snprintf(text, sizeof text, "%" PRIu64 ".%09u", epoch_ns / 1000000000, (unsigned)(epoch_ns % 1000000000));
    puts_to(rows, &rows->line, text);
}

static void put_path(struct lp_report_rows *rows, const struct lp_run_phase *phase)
{
    if (phase->parent && phase->parent->parent) {
        put_path(rows, phase->parent);
        puts_to(rows, &rows->line, "/");
    }
    put_quoted(rows, &rows->line, lp_text_span(&phase->name));
}

/* --- CSV --- */

static void csv_who(struct lp_report_rows *rows, const struct lp_run_worker *worker)
{
    char numbers[64];
    put_text(rows, &rows->who, &worker->worker);
    put_text(rows, &rows->who, &worker->role);
    put_text(rows, &rows->who, &worker->host);
    if (worker->rank >= 0)
        snprintf(numbers, sizeof numbers, "%" PRId64 ",%" PRId64 ",", worker->rank, worker->pid);
    else
        snprintf(numbers, sizeof numbers, ",%" PRId64 ",", worker->pid);
    puts_to(rows, &rows->who, numbers);
}

static void csv_row(struct lp_report_rows *rows, const struct lp_run_sample *sample)
{
    size_t n;
    lp_sample_field_names(rows->kind, &n);
    put(rows, &rows->line, rows->who.bytes, rows->who.len);
    if (sample->phase_known) {
        puts_to(rows, &rows->line, "\"");
        if (sample->phase)
            put_path(rows, sample->phase);
        else
            puts_to(rows, &rows->line, "(no phase open)");
        puts_to(rows, &rows->line, "\"");
    }
    puts_to(rows, &rows->line, ",");
    put_seconds(rows, sample->epoch_ns);
    for (size_t i = 0; i < n; i++) {
        puts_to(rows, &rows->line, ",");
        if (sample->row[i] != LP_NOT_MEASURED)
            put_number(rows, sample->row[i]);
    }
    puts_to(rows, &rows->line, "\n");
}

void lp_report_rows_head(struct lp_report_rows *rows)
{
    size_t n;
    const char *const *names = lp_sample_field_names(rows->kind, &n);
    if (rows->json)
        return;
    lp_report_puts(rows->sink, who_columns);
    lp_report_puts(rows->sink, ",phase_path,time");
    for (size_t i = 0; i < n; i++) {
        lp_report_puts(rows->sink, ",");
        lp_report_puts(rows->sink, names[i]);
    }
    lp_report_puts(rows->sink, "\n");
}

/* --- JSON --- */

static void json_who(struct lp_report_rows *rows, const struct lp_run_worker *worker)
{
    struct lp_emit emit;
    lp_emit_init(&emit, lp_buffer_put, &rows->who);
    lp_report_json_object(&emit, NULL);
    lp_report_json_text(&emit, "worker", &worker->worker);
    lp_report_json_text(&emit, "role", &worker->role);
    lp_report_json_text(&emit, "host", &worker->host);
    if (worker->rank >= 0)
        lp_report_json_signed(&emit, "rank", worker->rank);
    else
        lp_report_json_null(&emit, "rank");
    lp_report_json_signed(&emit, "pid", worker->pid);
    if (lp_emit_end(&emit) != 0)
        lp_report_fail(rows->sink, -ENOMEM);
}

static void json_names(struct lp_emit *emit, const struct lp_run_phase *phase)
{
    if (!phase->parent)
        return;
    json_names(emit, phase->parent);
    lp_report_json_text(emit, NULL, &phase->name);
}

static void json_path(struct lp_report_rows *rows, const struct lp_run_phase *phase)
{
    struct lp_emit emit;
    lp_emit_init(&emit, lp_buffer_put, &rows->line);
    lp_report_json_array(&emit, NULL);
    if (phase)
        json_names(&emit, phase);
    lp_emit_close(&emit, ']');
    if (lp_emit_end(&emit) != 0)
        lp_report_fail(rows->sink, -ENOMEM);
}

static void json_row(struct lp_report_rows *rows, const struct lp_run_sample *sample)
{
    size_t n;
    const char *const *names = lp_sample_field_names(rows->kind, &n);
    put(rows, &rows->line, rows->who.bytes, rows->who.len);
    puts_to(rows, &rows->line, ",\"phase_path\":");
    if (sample->phase_known)
        json_path(rows, sample->phase);
    else
        puts_to(rows, &rows->line, "null");
    puts_to(rows, &rows->line, ",\"time\":");
    put_seconds(rows, sample->epoch_ns);
    for (size_t i = 0; i < n; i++) {
        puts_to(rows, &rows->line, ",\"");
        puts_to(rows, &rows->line, names[i]);
        puts_to(rows, &rows->line, "\":");
        if (sample->row[i] == LP_NOT_MEASURED)
            puts_to(rows, &rows->line, "null");
        else
            put_number(rows, sample->row[i]);
    }
    puts_to(rows, &rows->line, "}\n");
}

int lp_report_rows_put(struct lp_report_rows *rows, const struct lp_run_sample *sample)
{
    if (rows->whose != sample->worker) {
        rows->whose = sample->worker;
        rows->who.len = 0;
        (rows->json ? json_who : csv_who)(rows, sample->worker);
    }
    rows->line.len = 0;
    (rows->json ? json_row : csv_row)(rows, sample);
    lp_report_write(rows->sink, rows->line.bytes, rows->line.len);
    rows->n++;
    return rows->sink->error;
}
