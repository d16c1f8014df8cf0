/*
 * lines/frames: on CPython 3.11, lets code outside the project run as if nobody traced.
 *
 * A trace function makes the interpreter take the slow way through each instruction of each frame. Whether a frame is traced
 * is a flag of its evaluation, copied from that of its caller. A frame evaluation function (PEP 523) stands between the two,
 * and sets the flag for the project's code and clears it for other code, so that frames of the project are found whoever
 * calls them: sorted(), numpy, a finalizer. While it stands there, calls between Python functions take room on the C stack,
 * which they do not else; a thread that has used much of its stack ends it for the session, and tracing is as it is without.
 *
 * It is for threads whose only trace function is ours, and without a profile function. Who has set an evaluation function
 * before us keeps it, and we do without. Who sets one meanwhile has to call ours for each frame, as PyTorch's compiler does: if
 * not, calls of the project may be missed until that is found, which is then told.
 *
 * It costs other code a function call for each of its calls.
 */
#ifndef LP_LINES_FRAMES_H
#define LP_LINES_FRAMES_H

#include "lines/engine.h"

#if PY_VERSION_HEX < 0x030C0000

/* function: that which threads trace with. Where it cannot be, nothing is done, and all is traced. */
void lp_lines_frames_start(Py_tracefunc function);
/* A frame of the project begins or goes on, and its thread traces with that function. */
void lp_lines_frames_expect(struct lp_lines_thread *thread, const PyFrameObject *frame);
void lp_lines_frames_stop(void);

#endif
#endif
