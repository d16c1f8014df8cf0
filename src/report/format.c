#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

static struct lp_report_cell print(const char *format, ...) LP_PRINTF(1, 2);

static struct lp_report_cell print(const char *format, ...)
{
    struct lp_report_cell cell;
    va_list args;
    va_start(args, format);
    vsnprintf(cell.text, sizeof cell.text, format, args);
    va_end(args);
    return cell;
}

static struct lp_report_cell append(struct lp_report_cell cell, const char *suffix)
{
    strncat(cell.text, suffix, sizeof cell.text - strlen(cell.text) - 1);
    return cell;
}

static struct lp_report_cell minus(struct lp_report_cell cell)
{
    return print("-%.*s", (int)sizeof cell.text - 2, cell.text);
}

/* Beyond every sum that a run can hold (a saturated counter over one nanosecond). */
#define TOO_MUCH 1e28

/* value >= 0 rounded to a whole number; at most 2^63, which no shown number reaches. */
static uint64_t rounded(double value)
{
    return value < 9.2e18 ? (uint64_t)(value + 0.5) : (uint64_t)1 << 63;
}

static struct lp_report_cell grouped(uint64_t value)
{
    char digits[24];
    struct lp_report_cell cell;
    size_t n = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, value);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            cell.text[at++] = ',';
        cell.text[at++] = digits[i];
    }
    cell.text[at] = '\0';
    return cell;
}

/* value >= 0 with one decimal, written in whole numbers because a locale may own the point. */
static struct lp_report_cell tenths(double value, const char *unit)
{
    uint64_t n = rounded(value * 10);
    return print("%" PRIu64 ".%u%s", n / 10, (unsigned)(n % 10), unit);
}

static bool below(double value, uint64_t limit)
{
    return rounded(value * 10) < limit * 10;
}

/* --- durations --- */

static struct lp_report_cell nanoseconds(double ns)
{
    if (ns > 0 && ns < 0.05)
        return print("<0.1ns");
    if (below(ns, 10) && ns != floor(ns))
        return tenths(ns, "ns");
    return print("%" PRIu64 "ns", rounded(ns));
}

static struct lp_report_cell minutes(uint64_t s)
{
    if (s % 60 == 0)
        return print("%" PRIu64 "m", s / 60);
    return print("%" PRIu64 "m %02us", s / 60, (unsigned)(s % 60));
}

static struct lp_report_cell long_duration(double s)
{
    if (rounded(s) < 3600)
        return minutes(rounded(s));
    uint64_t m = rounded(s / 60);
    if (m < 6000)
        return print("%" PRIu64 "h %02um", m / 60, (unsigned)(m % 60));
    uint64_t h = rounded(s / 3600);
    if (h < 24 * 365)
        return print("%" PRIu64 "d %02uh", h / 24, (unsigned)(h % 24));
    uint64_t d = rounded(s / 86400);
    return print("%" PRIu64 "y %ud", d / 365, (unsigned)(d % 365));
}

static struct lp_report_cell duration(double ns)
{
    if (rounded(ns) < 1000)
        return nanoseconds(ns);
    if (below(ns / 1e3, 1000))
        return tenths(ns / 1e3, "us");
    if (below(ns / 1e6, 1000))
        return tenths(ns / 1e6, "ms");
    if (below(ns / 1e9, 60))
        return tenths(ns / 1e9, "s");
    return long_duration(ns / 1e9);
}

struct lp_report_cell lp_report_duration(double ns)
{
    if (isnan(ns))
        return print("n/a");
    if (fabs(ns) > TOO_MUCH)
        return print(ns > 0 ? "for ever" : "-for ever");
    return ns < 0 ? minus(duration(-ns)) : duration(ns);
}

struct lp_report_cell lp_report_each(double ns)
{
    return isnan(ns) ? print("n/a") : append(lp_report_duration(ns), "/ea");
}

/* --- rates and sizes --- */

static struct lp_report_cell rate(double per_s)
{
    static const struct {
        double seconds;
        const char *unit;
    } units[] = {{1, "/s"}, {60, "/min"}, {3600, "/h"}, {86400, "/day"}};
    if (per_s <= 0)
        return print("0.0/s");
    if (per_s >= 1e18) /* Digits beyond a double's own would be invented. */
        return print("%" PRIu64 "e18/s", rounded(per_s / 1e18));
    size_t i = 0;
    while (i < 4 && per_s * units[i].seconds < 0.1)
        i++;
    if (i == 4)
        return print("<0.1/day");
    uint64_t n = rounded(per_s * units[i].seconds * 10);
    return append(print("%s.%u", grouped(n / 10).text, (unsigned)(n % 10)), units[i].unit);
}

struct lp_report_cell lp_report_rate(double per_s)
{
    if (isnan(per_s))
        return print("n/a");
    return per_s < 0 ? minus(rate(-per_s)) : rate(per_s);
}

static struct lp_report_cell rate_brief(double per_s)
{
    static const char *const units[] = {"k/s", "M/s", "G/s", "T/s", "P/s"};
    if (below(per_s, 1000) || per_s >= 1e18)
        return rate(per_s);
    size_t i = 0;
    double scaled = per_s / 1e3;
    while (i < 4 && !below(scaled, 1000)) {
        scaled /= 1e3;
        i++;
    }
    return tenths(scaled, units[i]);
}

struct lp_report_cell lp_report_rate_brief(double per_s)
{
    if (isnan(per_s))
        return print("n/a");
    return per_s < 0 ? minus(rate_brief(-per_s)) : rate_brief(per_s);
}

static struct lp_report_cell size(double bytes)
{
    static const char *const units[] = {" kB", " MB", " GB", " TB", " PB", " EB"};
    if (rounded(bytes) < 1000)
        return print("%" PRIu64 " B", rounded(bytes));
    size_t i = 0;
    double scaled = bytes / 1e3;
    while (i < 5 && !below(scaled, 1000)) {
        scaled /= 1e3;
        i++;
    }
    return tenths(scaled, units[i]);
}

struct lp_report_cell lp_report_size(double bytes)
{
    if (isnan(bytes))
        return print("n/a");
    return bytes < 0 ? minus(size(-bytes)) : size(bytes);
}

struct lp_report_cell lp_report_size_rate(double bytes_per_s)
{
    return isnan(bytes_per_s) ? print("n/a") : append(lp_report_size(bytes_per_s), "/s");
}

/* --- counts and shares --- */

struct lp_report_cell lp_report_count(uint64_t count)
{
    return grouped(count);
}

struct lp_report_cell lp_report_signed(int64_t count)
{
    return count < 0 ? minus(grouped(0 - (uint64_t)count)) : grouped((uint64_t)count);
}

struct lp_report_cell lp_report_number(int64_t number)
{
    return print("%" PRId64, number);
}

struct lp_report_cell lp_report_process(int64_t rank, int64_t index, int64_t pid)
{
    if (rank >= 0 && index >= 0)
        return print("rank %" PRId64 " index %" PRId64, rank, index);
    if (rank >= 0)
        return print("rank %" PRId64, rank);
    return index >= 0 ? print("index %" PRId64, index) : print("pid %" PRId64, pid);
}

struct lp_report_cell lp_report_share(double fraction)
{
    if (isnan(fraction))
        return print("n/a");
    if (fraction > 0 && fraction < 0.0005)
        return print("<0.1%%");
    return fraction < 0 ? minus(tenths(-fraction * 100, "%")) : tenths(fraction * 100, "%");
}

struct lp_report_cell lp_report_percent(double fraction)
{
    if (isnan(fraction))
        return print("n/a");
    if (fraction > 0 && fraction < 0.005)
        return print("<1%%");
    if (fraction < 1 && fraction >= 0.995)
        return print(">99%%");
    return print("%" PRIu64 "%%", rounded(fraction > 0 ? fraction * 100 : 0));
}

struct lp_report_cell lp_report_ratio(double ratio)
{
    if (isnan(ratio) || ratio < 0)
        return print("n/a");
    uint64_t n = rounded(ratio * 100);
    return print("%" PRIu64 ".%02u", n / 100, (unsigned)(n % 100));
}

struct lp_report_cell lp_report_cores(double cores)
{
    if (isnan(cores) || cores < 0)
        return print("n/a");
    uint64_t n = rounded(cores * 100);
    if (n % 100 == 0)
        return grouped(n / 100);
    if (n < 1000)
        return print("%" PRIu64 ".%02u", n / 100, (unsigned)(n % 100));
    n = rounded(cores * 10);
    return print("%" PRIu64 ".%u", n / 10, (unsigned)(n % 10));
}
