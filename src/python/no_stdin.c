/*
 * Stands in for libc's `stdin` inside the Jansson that is linked into the
 * extension.
 *
 * A distribution's libjansson.a may be compiled for executables only (Debian's
 * is). Such code reaches every variable relative to itself, which the linker
 * cannot arrange for a variable of another library, and Jansson refers to one:
 * it compares its input with `stdin`, merely to name the source in an error
 * text. The build renames that reference to this variable, which lies in the
 * same object. Nothing of ours parses from a FILE, so it stays NULL.
 */
#include <stdio.h>

extern FILE *lp_no_stdin __attribute__((visibility("hidden")));
FILE *lp_no_stdin;
