/*
 * report/format: numbers as people read them. The only place that turns one into text.
 *
 * A cell is returned by value and used on the spot: lp_report_duration(ns).text. Cells never end in
 * a rounded-up unit
 * ("60s", "1000.0us"): the value is rounded in the unit that it is shown in, and moves up if that
 * makes it whole. A figure that does not exist (NaN) reads "n/a". The decimal point is a point in
 * every locale.
 *
 * Must not know: columns, and what the number means.
 */
#ifndef LP_REPORT_FORMAT_H
#define LP_REPORT_FORMAT_H

#include <stdint.h>

/* Long enough for every number below; "-9,223,372,036,854,775,808" is 26 long. */
struct lp_report_cell {
    char text[56];
};

/* 0ns, 4.2ns, 815ns, 156.8us, 9.4ms, 41.3s, 1m 05s, 27m, 2h 31m, 99h 59m, 4d 04h, 1y 12d. */
struct lp_report_cell lp_report_duration(double ns);
/* 156.8us/ea */
struct lp_report_cell lp_report_each(double ns);
/* 6,377.0/s; below a tenth per second 3.0/min, 1.5/h, 2.0/day. */
struct lp_report_cell lp_report_rate(double per_s);
/* The same in at most 8 columns, up to the largest: 812.3/s, 6.4k/s, 3.0M/s, 3.0/min. */
struct lp_report_cell lp_report_rate_brief(double per_s);
/* 0 B, 999 B, 1.0 kB, 408.7 MB, 8.4 GB: powers of 1000. */
struct lp_report_cell lp_report_size(double bytes);
/* 327.6 MB/s */
struct lp_report_cell lp_report_size_rate(double bytes_per_s);
/* 4,800 */
struct lp_report_cell lp_report_count(uint64_t count);
struct lp_report_cell lp_report_signed(int64_t count);
/* 4800: of a process or a rank, as other tools write it. */
struct lp_report_cell lp_report_number(int64_t number);
/* "rank 5", "rank 0 index 3", "index 3", or "pid 4711" where there is neither (each negative: none). */
struct lp_report_cell lp_report_process(int64_t rank, int64_t index, int64_t pid);
/* Of a fraction of 1: 82.9%, and <0.1% for what is there but small. */
struct lp_report_cell lp_report_share(double fraction);
/* The same in whole percent: 18%, <1%, >99%. */
struct lp_report_cell lp_report_percent(double fraction);
/* 1.22 */
struct lp_report_cell lp_report_ratio(double ratio);
/* Of processors: 0.38, 12.5, 96; a whole number without decimals. */
struct lp_report_cell lp_report_cores(double cores);

#endif
