/* The functions as a table. */
#include <lineprofiler.h>

const lp_api *lp_table(void)
{
    static const lp_api table = {
        .size = sizeof table,
        .version = lp_version,
        .open_sized = lp_open_sized,
        .close = lp_close,
        .snapshot = lp_snapshot,
        .error_message = lp_error_message,
        .is_enabled = lp_is_enabled,
        .installed = lp_installed,
        .run_dir = lp_run_dir,
        .run_id = lp_run_id,
        .worker_file = lp_worker_file,
        .intern_text = lp_intern_text,
        .sampled = lp_sampled,
        .with = lp_with,
        .enter = lp_enter,
        .leave = lp_leave,
        .count = lp_count,
        .current = lp_current,
        .name_thread = lp_name_thread,
        .use_stream = lp_use_stream,
    };
    return &table;
}
