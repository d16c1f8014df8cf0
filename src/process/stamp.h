/*
 * process/stamp: the three kernel clocks read together, so that moments of different processes and machines can be
 * compared as far as they can be (docs/format.md).
 */
#ifndef LP_PROCESS_STAMP_H
#define LP_PROCESS_STAMP_H

#include "image/image.h"

/* Now. Async-signal-safe. */
struct lp_stamp lp_stamp_now(void);

#endif
