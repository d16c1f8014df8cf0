/*
 * cli/places: where what builds need lies: the headers and the library that belong to this program.
 *
 * Two files, of which the build picks one: of an installation in C (places.c) and of the Python package
 * (places_package.c), where only the extension can tell, for the command lies in an environment's bin.
 */
#ifndef LP_CLI_PLACES_H
#define LP_CLI_PLACES_H

#include <limits.h>
#include <stdbool.h>

struct lp_cli_places {
    char include_dir[PATH_MAX]; /* Absolute, as lib_dir is. */
    char lib_dir[PATH_MAX];
    bool include_is_default; /* Compilers look there by themselves. */
    bool lib_is_default;     /* The linker and the loader do. */
};

/* False: not to be told from here. */
bool lp_cli_places_find(struct lp_cli_places *places);

#endif
