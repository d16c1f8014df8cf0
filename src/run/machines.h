/*
 * machines: how many machines were up at once under the name of a host.
 *
 * A name may be that of many: every container of an image, every clone of a virtual machine. What was granted and used
 * is counted by the name, and would be a share of one machine's. Boots tell them apart: of one machine there is one at a
 * time. When a boot began is known by its clock since boot, to the accuracy of the wall clock; so boots that meet by less
 * than GIVE_NS may be one machine that restarted.
 */
#ifndef LP_RUN_MACHINES_H
#define LP_RUN_MACHINES_H

#include "run/run.h"

/* Fills run->host_machines. 0, or -1 without memory. */
int lp_run_machines(struct lp_run *run);

#endif
