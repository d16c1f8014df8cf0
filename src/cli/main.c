#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "cli/interpreter.h"

/* A stream that the shell closed (`>&-`) must stay unusable: else the next file to be opened takes
   its number, and what was meant for the stream goes there. */
static void hold_closed_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    hold_closed_streams();
    signal(SIGPIPE, SIG_IGN); /* A reader that went away is an error to handle, as in Python, where
                                 it is never raised. */
    signal(SIGXFSZ, SIG_IGN); /* Likewise a file that may grow no further. */
    const struct lp_cli cli = {.out = stdout, .err = stderr, .run_by_python = lp_cli_run_by_python};
    return lp_cli_run(&cli, argc, argv);
}
