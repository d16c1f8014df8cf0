/* Of an installation in C, which may have been moved as a whole: the command tells where it is now. */
#include "cli/places.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* From src/meson.build: LP_PREFIX, and the others below it or absolute. */
static const char prefix_of_build[] = LP_PREFIX;
static const char command[] = "/" LP_BINDIR "/lineprofiler";

/* The folder that the command's path says it was installed to; else the one it was built for. */
static void find_prefix(char prefix[PATH_MAX])
{
    ssize_t len = readlink("/proc/self/exe", prefix, PATH_MAX - 1);
    ssize_t prefix_len = len - (ssize_t)(sizeof command - 1);
    if (len > 0)
        prefix[len] = '\0';
    if (prefix_len < 0 || strcmp(prefix + prefix_len, command) != 0)
        snprintf(prefix, PATH_MAX, "%s", prefix_of_build);
    else
        prefix[prefix_len] = '\0';
}

static bool join(char path[PATH_MAX], const char *prefix, const char *folder)
{
    int len = snprintf(path, PATH_MAX, "%s%s%s", folder[0] == '/' ? "" : prefix, folder[0] == '/' ? "" : "/", folder);
    return len > 0 && len < PATH_MAX;
}

static bool is_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

bool lp_cli_places_find(struct lp_cli_places *places)
{
    char prefix[PATH_MAX];
    find_prefix(prefix);
    if (!join(places->include_dir, prefix, LP_INCLUDEDIR) || !join(places->lib_dir, prefix, LP_LIBDIR))
        return false;
    places->include_is_default = strcmp(places->include_dir, "/usr/include") == 0;
    places->lib_is_default = is_below(places->lib_dir, "/usr/lib") || is_below(places->lib_dir, "/usr/lib64") ||
                             is_below(places->lib_dir, "/lib") || is_below(places->lib_dir, "/lib64");
    return true;
}
