#include "run/spread.h"

#include "run/hist.h"

static lp_run_square product(lp_run_square a, uint64_t b, bool *saturated)
{
    lp_run_square result;
    if (!__builtin_mul_overflow(a, (lp_run_square)b, &result))
        return result;
    *saturated = true;
    return ~(lp_run_square)0;
}

static void add(lp_run_square *sum, lp_run_square value, bool *saturated)
{
    if (!__builtin_add_overflow(*sum, value, sum))
        return;
    *saturated = true;
    *sum = ~(lp_run_square)0;
}

void lp_run_share_add(struct lp_run_share *share, uint64_t calls, uint64_t ended_ns)
{
    share->calls = lp_run_sum(share->calls, calls, &share->saturated);
    share->wall_ns = lp_run_sum(share->wall_ns, ended_ns, &share->saturated);
}

void lp_run_share_add_bucket(struct lp_run_share *share, unsigned bucket, uint64_t count)
{
    uint64_t log;
    if (__builtin_mul_overflow(count, (uint64_t)lp_hist_bucket_log(bucket), &log)) {
        share->saturated = true;
        log = UINT64_MAX;
    }
    share->log = lp_run_sum(share->log, log, &share->saturated);
}

void lp_run_spread_add(struct lp_run_spread *spread, const struct lp_run_share *share)
{
    if (share->calls == 0)
        return;
    lp_run_square calls = share->calls, wall_ns = share->wall_ns, log = share->log;
    bool *saturated = &spread->saturated;
    *saturated |= share->saturated;
    spread->l = lp_run_sum(spread->l, share->log, saturated);
    add(&spread->cc, calls * calls, saturated);
    add(&spread->ccc, product(calls * calls, share->calls, saturated), saturated);
    add(&spread->cw, calls * wall_ns, saturated);
    add(&spread->ww, wall_ns * wall_ns, saturated);
    add(&spread->cl, calls * log, saturated);
    add(&spread->ll, log * log, saturated);
}

void lp_run_spread_merge(struct lp_run_spread *spread, const struct lp_run_spread *from)
{
    bool *saturated = &spread->saturated;
    *saturated |= from->saturated;
    spread->l = lp_run_sum(spread->l, from->l, saturated);
    add(&spread->cc, from->cc, saturated);
    add(&spread->ccc, from->ccc, saturated);
    add(&spread->cw, from->cw, saturated);
    add(&spread->ww, from->ww, saturated);
    add(&spread->cl, from->cl, saturated);
    add(&spread->ll, from->ll, saturated);
}
