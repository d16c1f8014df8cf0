/*
 * Stands in for libc's `stdin`, `stdout` and `stderr` inside the libraries that
 * are linked into the extension, Jansson and ncurses.
 *
 * A distribution's static libraries may be compiled for executables only
 * (Debian's are). Such code reaches every variable relative to itself, which the
 * linker cannot arrange for a variable of another library, and these refer to
 * three: Jansson compares its input with `stdin`, merely to name the source in an
 * error text, and ncurses has them for programs that do not say which streams
 * they mean. The build renames those references to the variables here, which lie
 * in the same object and hold the streams from the moment it is loaded.
 */
#include <stdio.h>

#define HIDDEN __attribute__((visibility("hidden")))

extern FILE *lp_stdin HIDDEN, *lp_stdout HIDDEN, *lp_stderr HIDDEN;
FILE *lp_stdin, *lp_stdout, *lp_stderr;

__attribute__((constructor)) static void take_streams(void)
{
    lp_stdin = stdin;
    lp_stdout = stdout;
    lp_stderr = stderr;
}
