/* A program that knows nothing of the library: it loads something that does, and unloads it while it records. test_ends.c
   runs it and reads what it leaves.

       host RECORDER RUN_DIR */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

typedef int record_fn(const char *run_dir, int round);

static void *load_record_and_unload(void *context)
{
    char **argv = context;
    for (int round = 0; round < 3; round++) {
        void *object = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!object) {
            fprintf(stderr, "%s\n", dlerror());
            return argv;
        }
        record_fn *record = (record_fn *)dlsym(object, "record");
        if (!record || record(argv[2], round) != 0 || dlclose(object) != 0)
            return argv;
    }
    return NULL;
}

/* The thread that has recorded ends when what it recorded with is no longer loaded. */
int main(int argc, char **argv)
{
    pthread_t thread;
    void *failed;
    if (argc < 3 || pthread_create(&thread, NULL, load_record_and_unload, argv) != 0 ||
        pthread_join(thread, &failed) != 0)
        return 2;
    return failed ? 1 : 0;
}
