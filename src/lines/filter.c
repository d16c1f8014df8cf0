#include "lines/filter.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int lp_lines_globs_add(struct lp_lines_globs *globs, const char *item)
{
    char **items = realloc(globs->items, (globs->n + 1) * sizeof *items);
    if (!items)
        return -ENOMEM;
    globs->items = items;
    items[globs->n] = strdup(item);
    if (!items[globs->n])
        return -ENOMEM;
    globs->n++;
    return 0;
}

void lp_lines_globs_free(struct lp_lines_globs *globs)
{
    for (size_t i = 0; i < globs->n; i++)
        free(globs->items[i]);
    free(globs->items);
    *globs = (struct lp_lines_globs){0};
}

static bool any_matches(const struct lp_lines_globs *globs, const char *text)
{
    for (size_t i = 0; i < globs->n; i++)
        if (fnmatch(globs->items[i], text, 0) == 0)
            return true;
    return false;
}

static bool any_equals(const struct lp_lines_globs *globs, const char *text)
{
    for (size_t i = 0; i < globs->n; i++)
        if (strcmp(globs->items[i], text) == 0)
            return true;
    return false;
}

/* What is left of the path below the folder; NULL: it is not in there. */
static const char *below(const char *folder, const char *path)
{
    size_t len = strlen(folder);
    while (len > 0 && folder[len - 1] == '/')
        len--;
    return strncmp(folder, path, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

int lp_lines_filter_open(struct lp_lines_filter *filter, const char *folder)
{
    struct stat found;
    *filter = (struct lp_lines_filter){0};
    filter->folder = realpath(folder, NULL);
    if (!filter->folder)
        return -errno;
    if (stat(filter->folder, &found) < 0)
        return -errno;
    if (!S_ISDIR(found.st_mode))
        return -ENOTDIR;
    filter->cwd = getcwd(NULL, 0); /* NULL: it has gone, and names relative to it are of no file. */
    return 0;
}

void lp_lines_filter_free(struct lp_lines_filter *filter)
{
    free(filter->folder);
    free(filter->cwd);
    lp_lines_globs_free(&filter->outside);
    lp_lines_globs_free(&filter->names);
    lp_lines_globs_free(&filter->include);
    lp_lines_globs_free(&filter->exclude);
    lp_lines_globs_free(&filter->functions);
}

int lp_lines_filter_leave_out(struct lp_lines_filter *filter, const char *folder)
{
    char real[PATH_MAX];
    if (!realpath(folder, real))
        return 0; /* Nothing can be in there. */
    return lp_lines_globs_add(&filter->outside, real);
}

/* The real path of a file, or of where it was: then its folder's. False: it is in no folder. */
static bool resolve(const struct lp_lines_filter *filter, const char *name, char *real)
{
    char path[PATH_MAX], folder[PATH_MAX];
    struct stat found;
    int len = name[0] == '/' ? snprintf(path, sizeof path, "%s", name)
                             : snprintf(path, sizeof path, "%s/%s", filter->cwd ? filter->cwd : "", name);
    if (len >= (int)sizeof path || (name[0] != '/' && !filter->cwd))
        return false;
    if (realpath(path, real))
        return true;
    char *base = strrchr(path, '/');
    *base++ = '\0';
    if (!realpath(*path ? path : "/", folder)) {
        /* The folder has gone as well: by its name, unless a file stands in the place of one of its parts. */
        if (errno == ENOTDIR || strstr(path, "/../") || strstr(path, "/./"))
            return false;
        return snprintf(real, PATH_MAX, "%s/%s", path, base) < PATH_MAX;
    }
    if (stat(folder, &found) < 0 || !S_ISDIR(found.st_mode))
        return false;
    return snprintf(real, PATH_MAX, "%s/%s", folder, base) < PATH_MAX;
}

static bool has_file(const char *folder, size_t len, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%.*s/%s", (int)len, folder, name) >= (int)sizeof path)
        return false;
    return access(path, F_OK) == 0;
}

/* Whether a folder between the project's and the file, rest being what is below the project's, is of installed packages. */
static bool is_installed(const char *real, const char *rest)
{
    for (const char *part = rest, *end; (end = strchr(part, '/')) != NULL; part = end + 1) {
        size_t len = (size_t)(end - part);
        if (len == strlen("site-packages") &&
            (strncmp(part, "site-packages", len) == 0 || strncmp(part, "dist-packages", len) == 0))
            return true;
        if (has_file(real, (size_t)(end - real), "pyvenv.cfg"))
            return true;
    }
    return false;
}

/* "/tmp/ipykernel_4711/1234567.py", which is no file, or "<ipython-input-3-0123456789ab>". */
static bool is_cell(const char *name)
{
    const char *base = strrchr(name, '/');
    if (strncmp(name, "<ipython-input-", strlen("<ipython-input-")) == 0)
        return true;
    if (!base || base == name)
        return false;
    const char *folder = base - 1;
    while (folder > name && folder[-1] != '/')
        folder--;
    return strncmp(folder, "ipykernel_", strlen("ipykernel_")) == 0;
}

static bool is_chosen(const struct lp_lines_filter *filter, const char *path)
{
    return (filter->include.n == 0 || any_matches(&filter->include, path)) && !any_matches(&filter->exclude, path);
}

bool lp_lines_filter_file(const struct lp_lines_filter *filter, const char *name)
{
    char real[PATH_MAX];
    if (any_equals(&filter->names, name) || is_cell(name))
        return is_chosen(filter, name);
    if (name[0] == '<' || name[0] == '\0')
        return filter->include.n > 0 && is_chosen(filter, name);
    if (!resolve(filter, name, real))
        return false;
    for (size_t i = 0; i < filter->outside.n; i++)
        if (below(filter->outside.items[i], real) && !below(filter->outside.items[i], filter->folder) &&
            strcmp(filter->outside.items[i], filter->folder) != 0)
            return false;
    const char *rest = below(filter->folder, real);
    return rest && !is_installed(real, rest) && is_chosen(filter, rest);
}

bool lp_lines_filter_function(const struct lp_lines_filter *filter, const char *qualified_name)
{
    return filter->functions.n == 0 || any_matches(&filter->functions, qualified_name);
}
