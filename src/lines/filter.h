/*
 * lines/filter: which code is profiled.
 *
 * A file is the project's if it lies, symbolic links resolved, in the project folder, but not in the standard library, in
 * installed packages (a folder named site-packages or dist-packages, or one with a pyvenv.cfg, between the project folder
 * and the file) or in this package. A file that has gone is judged by where it was; one inside a zip file is no file.
 * Code without a file ("<string>") is out, but for notebook cells and for what was added by name.
 *
 * include and exclude are globs over the path below the project folder, in which * also matches a slash; functions are globs over
 * qualified names. With any include, or any functions, one has to match.
 *
 * Must not know: Python.
 */
#ifndef LP_LINES_FILTER_H
#define LP_LINES_FILTER_H

#include <stdbool.h>
#include <stddef.h>

struct lp_lines_globs {
    char **items; /* Owned. */
    size_t n;
};

struct lp_lines_filter {
    char *folder, *cwd;            /* Owned; the folder's real path, and the working directory of the beginning. */
    struct lp_lines_globs outside; /* Real paths of folders. */
    struct lp_lines_globs names;   /* Names of code without a file, and of files, that are in whatever they are. */
    struct lp_lines_globs include, exclude, functions;
};

/* 0 or -errno. outside may be added afterwards with lp_lines_filter_leave_out. */
int lp_lines_filter_open(struct lp_lines_filter *filter, const char *folder);
void lp_lines_filter_free(struct lp_lines_filter *filter);
int lp_lines_filter_leave_out(struct lp_lines_filter *filter, const char *folder);
/* One more item of any of the lists; 0 or -ENOMEM. */
int lp_lines_globs_add(struct lp_lines_globs *globs, const char *item);
void lp_lines_globs_free(struct lp_lines_globs *globs);

bool lp_lines_filter_file(const struct lp_lines_filter *filter, const char *name);
bool lp_lines_filter_function(const struct lp_lines_filter *filter, const char *qualified_name);

#endif
