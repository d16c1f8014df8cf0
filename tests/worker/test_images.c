/* The images of this machine as documents: those of one run directory, alive or dead, and nothing else. */
#include "support/in_folder.h"
#include "support/worker.h"

#include <pthread.h>

#include "worker/images.h"

/* What was handed over. */
struct found {
    int n, alive;
    uint64_t calls;
    uint64_t written_ns;
    int adds_up;
    char worker[256];
    int stop_after;
};

static int take(void *context, const struct lp_image_document *image)
{
    struct found *found = context;
    json_t *document = json_of(image->document, image->len);
    const char *fault = fault_of_document(document);
    if (fault)
        print_error("wrong at %s: %s\n", fault, image->document);
    CHECK(!fault);
    CHECK(strcmp(text_at(document, "worker"), image->worker) == 0);
    CHECK(strstr(image->path, image->worker) != NULL);
    found->n++;
    found->alive += image->alive;
    found->calls += figures_at(document, "a").calls;
    found->written_ns = json_u64(json_object_get(document, "written"), "monotonic_ns", 0);
    snprintf(found->worker, sizeof found->worker, "%s", image->worker);
    assert_document_adds_up(document);
    found->adds_up++;
    json_decref(document);
    return found->n == found->stop_after ? 42 : 0;
}

static struct found find(const char *run_dir)
{
    struct found found = {0};
    CHECK(lp_images_each(run_dir, take, &found) == 0);
    return found;
}

static void own_shm(void)
{
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
}

static void find_ones_own(void *context)
{
    struct found found;
    char *other = folder_make();
    (void)context;
    own_shm();
    CHECK_U64((uint64_t)find(folder).n, 0); /* nobody has made the images' folder yet */
    CHECK_U64((uint64_t)find("/no/such/run").n, 0);
    struct lp_worker *worker = worker_open(folder);
    CANNOT_IF(lp_worker_recorder(worker)->image.fd < 0);
    worker_record(worker, "a");
    uint64_t before = clock_now_ns(CLOCK_MONOTONIC);
    found = find(folder);
    CHECK_U64((uint64_t)found.n, 1);
    CHECK_U64((uint64_t)found.alive, 1);
    CHECK_U64(found.calls, 1);
    CHECK(found.written_ns >= before); /* now */
    CHECK(strcmp(found.worker, lp_worker_name(worker)) == 0);
    CHECK_U64((uint64_t)find(other).n, 0); /* another run's */

    char *link;
    CHECK(asprintf(&link, "%s/link", other) > 0 && symlink(folder, link) == 0);
    CHECK_U64((uint64_t)find(link).n, 1); /* the same directory by another name */

    struct lp_worker *second = worker_open(folder);
    CHECK_U64((uint64_t)find(folder).n, 2);
    struct found one = {.stop_after = 1};
    CHECK(lp_images_each(folder, take, &one) == 42 && one.n == 1);
    lp_worker_free(second);
    lp_worker_free(worker);
    CHECK_U64((uint64_t)find(folder).n, 0);
    free(link);
    folder_remove(other);
}

static void test_those_of_a_run_directory(void **state)
{
    (void)state;
    in_child(find_ones_own, NULL);
}

/* EX01, F7: what a process recorded survives it. */
static void die_and_be_found(void *context)
{
    int status;
    (void)context;
    own_shm();
    pid_t pid = fork();
    if (pid == 0) {
        struct lp_entry open;
        struct lp_worker *worker = worker_open(folder);
        for (int i = 0; i < 7; i++)
            worker_record(worker, "a");
        lp_record_enter(lp_worker_recorder(worker), name_of("open"), &open);
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    uint64_t after = clock_now_ns(CLOCK_MONOTONIC);
    struct found found = find(folder);
    CHECK_U64((uint64_t)found.n, 1);
    CHECK_U64((uint64_t)found.alive, 0);
    CHECK_U64(found.calls, 7);
    CHECK(found.written_ns <= after); /* settled when it was last seen */
}

static void test_a_killed_process(void **state)
{
    (void)state;
    in_child(die_and_be_found, NULL);
}

/* The last that is known of a process may be an exit on another thread. */
struct late_exit {
    struct lp_entry entry;
    uint64_t before_ns, after_ns;
};

static void *leave_after_a_while(void *context)
{
    struct late_exit *late = context;
    uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + 3000000;
    while ((late->before_ns = clock_now_ns(CLOCK_MONOTONIC)) < until_ns)
        ;
    lp_record_leave(&late->entry);
    late->after_ns = clock_now_ns(CLOCK_MONOTONIC);
    return NULL;
}

static void leave_elsewhere_and_die(const int *ready)
{
    struct lp_worker *worker = worker_open(folder);
    struct lp_recorder *recorder = lp_worker_recorder(worker);
    struct late_exit late;
    struct lp_entry inner;
    pthread_t thread;
    lp_record_enter(recorder, name_of("a"), &late.entry);
    lp_record_enter(recorder, name_of("inner"), &inner);
    CHECK(pthread_create(&thread, NULL, leave_after_a_while, &late) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(write(ready[1], &late, sizeof late) == sizeof late);
    raise(SIGKILL);
}

static void die_after_an_exit_elsewhere(void *context)
{
    int status, ready[2];
    struct late_exit late;
    (void)context;
    own_shm();
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        close(ready[0]);
        leave_elsewhere_and_die(ready);
    }
    close(ready[1]);
    CHECK(read(ready[0], &late, sizeof late) == sizeof late);
    close(ready[0]);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    struct found found = find(folder);
    CHECK_U64((uint64_t)found.n, 1);
    CHECK_U64(found.calls, 1);
    CHECK_U64((uint64_t)found.adds_up, 1);
    CHECK(found.written_ns + BETWEEN_CLOCKS_NS >= late.before_ns);
    CHECK(found.written_ns <= late.after_ns + BETWEEN_CLOCKS_NS);
}

static void test_an_exit_on_another_thread_is_a_sign_of_life(void **state)
{
    (void)state;
    in_child(die_after_an_exit_elsewhere, NULL);
}

/* Files that are no images, or not the one that their name says, are passed over. */
static void find_among_rubbish(void *context)
{
    char path[300], images[64];
    (void)context;
    own_shm();
    struct lp_worker *worker = worker_open(folder);
    const struct lp_image *image = &lp_worker_recorder(worker)->image;
    CANNOT_IF(image->fd < 0);
    worker_record(worker, "a");
    lp_image_folder(images, sizeof images);
    size_t len;
    char *bytes = file_read(image->path, &len);
    struct lp_header *header = (struct lp_header *)(void *)bytes;

    snprintf(path, sizeof path, "%s/empty.img", images);
    file_write(path, "", 0);
    snprintf(path, sizeof path, "%s/short.img", images);
    file_write(path, bytes, 100);
    snprintf(path, sizeof path, "%s/not-an-image", images);
    file_write(path, bytes, len);
    snprintf(path, sizeof path, "%s/folder.img", images);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/pipe.img", images);
    CHECK(mkfifo(path, 0600) == 0);
    snprintf(path, sizeof path, "%s/link.img", images);
    CHECK(symlink(image->path, path) == 0);
    CHECK_U64((uint64_t)find(folder).n, 1);

    snprintf(path, sizeof path, "%s/copy.img", images);
    file_write(path, bytes, len);
    CHECK_U64((uint64_t)find(folder).n, 1);

    header->boot_id[0] = header->boot_id[0] == 'f' ? 'e' : 'f'; /* nobody lives from another boot */
    file_write(image->path, bytes, len);
    CHECK_U64((uint64_t)find(folder).n, 1);
    CHECK_U64((uint64_t)find(folder).alive, 0);
    lp_worker_free(worker);
    free(bytes);
}

static void test_what_is_no_living_image(void **state)
{
    (void)state;
    in_child(find_among_rubbish, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_those_of_a_run_directory),
        in_folder(test_a_killed_process),
        in_folder(test_an_exit_on_another_thread_is_a_sign_of_life),
        in_folder(test_what_is_no_living_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
