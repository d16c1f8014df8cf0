/* Of the Python package: include and lib lie beside the extension, which this is a part of. */
#include "cli/places.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char extension[] = "/_core.";

/* The package's folder, absolute; links are kept, for a link farm may have one for each file. */
static bool find_package(char folder[PATH_MAX])
{
    Dl_info object;
    char here[PATH_MAX] = "";
    if (dladdr((const void *)extension, &object) == 0 || object.dli_fname == NULL)
        return false;
    if (object.dli_fname[0] != '/' && getcwd(here, sizeof here) == NULL)
        return false;
    int len = snprintf(folder, PATH_MAX, "%s%s%s", here, here[0] != '\0' ? "/" : "", object.dli_fname);
    char *file = len > 0 && len < PATH_MAX ? strrchr(folder, '/') : NULL;
    if (file == NULL || strncmp(file, extension, sizeof extension - 1) != 0)
        return false;
    *file = '\0';
    return true;
}

static bool join(char path[PATH_MAX], const char *folder, const char *name)
{
    int len = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return len > 0 && len < PATH_MAX;
}

bool lp_cli_places_find(struct lp_cli_places *places)
{
    char folder[PATH_MAX];
    places->include_is_default = places->lib_is_default = false;
    return find_package(folder) && join(places->include_dir, folder, "include") && join(places->lib_dir, folder, "lib");
}
