/* Several documents of one worker, and images beside files: J5, EX10, F5. */
#include <fcntl.h>

#include "support.h"

#include "run/build.h"

/* A worker's state at a moment: the later, the more calls. */
static struct spec worker_at(const char *worker, uint64_t written_s, const char *state)
{
    static char threads[4][256];
    static int turn;
    char *nodes = threads[turn++ % 4];
    snprintf(nodes, sizeof threads[0],
             ONE_THREAD(",{\"parent\":0,\"name\":\"step\",\"calls\":%d,\"wall_ns\":%d,\"hist\":\"10:%d\"}"),
             (int)written_s, (int)written_s * 10, (int)written_s);
    return (struct spec){.worker = worker, .written_s = written_s, .state = state, .threads = nodes};
}

struct scene {
    char *folder;
    int dir_fd;
    struct lp_run_gather gather;
};

static void begin(struct scene *scene)
{
    *scene = (struct scene){.folder = make_folder()};
    write_bytes(scene->folder, "workers/none", "", 0);
}

static void add_image(struct scene *scene, const struct spec *spec, enum lp_run_source source)
{
    char *text = make_document(spec);
    assert_int_equal(lp_run_gather_image(&scene->gather, "/dev/shm/image", text, strlen(text), source, NULL), 0);
    free(text);
}

/* Takes in the folder's files and the images; the attempt, or NULL. */
static struct lp_run_attempt *gather_all(struct scene *scene)
{
    struct lp_run_files files;
    scene->dir_fd = open(scene->folder, O_RDONLY | O_DIRECTORY);
    assert_true(scene->dir_fd >= 0);
    assert_int_equal(lp_run_scan(&files, scene->dir_fd), 0);
    for (size_t i = 0; i < files.n_files; i++)
        assert_int_equal(lp_run_gather_file(&scene->gather, scene->dir_fd, &files.files[i]), 0);
    assert_int_equal(lp_run_gather_images(&scene->gather), 0);
    lp_run_files_release(&files);
    return lp_run_attempts_chosen(&scene->gather.attempts);
}

static void end(struct scene *scene)
{
    close(scene->dir_fd);
    lp_run_gather_release(&scene->gather);
    remove_folder(scene->folder);
}

/* One worker was taken in, from that source, with that many calls. */
static void assert_one_worker(const struct lp_run_attempt *attempt, enum lp_run_source source, uint64_t calls)
{
    assert_non_null(attempt);
    assert_int_equal(attempt->n_workers, 1);
    assert_int_equal(attempt->workers_kept, 1);
    assert_int_equal(attempt->workers[0].source, source);
    struct lp_run_phase *root = lp_run_tree_seal(&attempt->roles[0]->tree);
    assert_int_equal(phase_at(root, "step")->calls, calls);
    lp_run_phase_free(root);
}

#define NAME "w_r1_4242_00000001"

static void test_a_newer_image_beats_the_file_J5(void **state)
{
    (void)state;
    struct scene scene;
    struct spec file = worker_at(NAME, 50, "running"), image = worker_at(NAME, 70, "running");
    begin(&scene);
    write_worker(scene.folder, &file);
    add_image(&scene, &image, LP_SOURCE_LIVE_IMAGE);
    assert_one_worker(gather_all(&scene), LP_SOURCE_LIVE_IMAGE, 70);
    assert_int_equal(scene.gather.n_unreadable, 0);
    end(&scene);
}

/* It flushed after its image was read: it lives all the same, and its state is that of a moment before. */
static void test_a_live_image_beats_a_flush_meanwhile_J5(void **state)
{
    (void)state;
    struct scene scene;
    struct spec file = worker_at(NAME, 90, "running"), image = worker_at(NAME, 70, "running");
    begin(&scene);
    write_worker(scene.folder, &file);
    add_image(&scene, &image, LP_SOURCE_LIVE_IMAGE);
    struct lp_run_attempt *attempt = gather_all(&scene);
    assert_int_equal(attempt->workers[0].written.realtime_ns, EPOCH + 90 * SECOND);
    assert_one_worker(attempt, LP_SOURCE_LIVE_IMAGE, 70);
    end(&scene);
}

/* What a worker did between its last flush and its death is in the image alone; that it lived at the flush, in the
   file. */
static void test_a_dead_workers_image_beats_its_last_flush_F7(void **state)
{
    (void)state;
    struct scene scene;
    struct spec file = worker_at(NAME, 90, "running"), image = worker_at(NAME, 70, "running");
    begin(&scene);
    write_worker(scene.folder, &file);
    add_image(&scene, &image, LP_SOURCE_DEAD_IMAGE);
    struct lp_run_attempt *attempt = gather_all(&scene);
    assert_int_equal(attempt->workers[0].written.realtime_ns, EPOCH + 90 * SECOND);
    assert_one_worker(attempt, LP_SOURCE_DEAD_IMAGE, 70);
    end(&scene);
}

static void test_a_dead_image_yields_to_a_later_flush(void **state)
{
    (void)state;
    struct scene scene;
    struct spec file = worker_at(NAME, 90, "running"), image = worker_at(NAME, 70, "running");
    char *text = make_document(&file), *later = swapped(text, "\"flush\":3", "\"flush\":4");
    begin(&scene);
    write_bytes(scene.folder, "workers/node07/" NAME ".json", later, strlen(later));
    free(text);
    free(later);
    add_image(&scene, &image, LP_SOURCE_DEAD_IMAGE);
    assert_one_worker(gather_all(&scene), LP_SOURCE_FILE, 90);
    end(&scene);
}

static void test_a_closed_file_is_final(void **state)
{
    (void)state;
    struct scene scene;
    struct spec file = worker_at(NAME, 60, "closed"), image = worker_at(NAME, 70, "running");
    begin(&scene);
    write_worker(scene.folder, &file);
    add_image(&scene, &image, LP_SOURCE_LIVE_IMAGE);
    assert_one_worker(gather_all(&scene), LP_SOURCE_FILE, 60);
    end(&scene);
}

/* What did not fit into shared memory is in the file alone, and an image without it looks whole. */
static void check_partial_image(enum lp_run_source source)
{
    struct scene scene;
    struct spec file = worker_at(NAME, 50, "running"), image = worker_at(NAME, 70, "running");
    image.image = "private";
    begin(&scene);
    write_worker(scene.folder, &file);
    add_image(&scene, &image, source);
    assert_one_worker(gather_all(&scene), LP_SOURCE_FILE, 50);
    assert_int_equal(scene.gather.n_unreadable, 0);
    end(&scene);
}

static void test_a_partial_image_yields_to_any_file_J5_F7(void **state)
{
    (void)state;
    check_partial_image(LP_SOURCE_LIVE_IMAGE);
    check_partial_image(LP_SOURCE_DEAD_IMAGE);
}

static void test_an_image_needs_no_file(void **state)
{
    (void)state;
    struct scene scene;
    struct spec image = worker_at(NAME, 70, "running");
    begin(&scene);
    add_image(&scene, &image, LP_SOURCE_LIVE_IMAGE);
    assert_one_worker(gather_all(&scene), LP_SOURCE_LIVE_IMAGE, 70);
    end(&scene);
}

static void test_an_image_makes_up_for_a_broken_file(void **state)
{
    (void)state;
    struct scene scene;
    struct spec image = worker_at(NAME, 70, "running");
    begin(&scene);
    write_bytes(scene.folder, "workers/node07/" NAME ".json", "{", 1);
    add_image(&scene, &image, LP_SOURCE_LIVE_IMAGE);
    assert_one_worker(gather_all(&scene), LP_SOURCE_LIVE_IMAGE, 70);
    assert_int_equal(scene.gather.n_unreadable, 0);
    end(&scene);
}

static void add_broken_image(struct scene *scene)
{
    assert_int_equal(lp_run_gather_image(&scene->gather, "/dev/shm/x/" NAME ".img", "{", 1, LP_SOURCE_LIVE_IMAGE, NULL),
                     0);
}

static void test_a_file_stands_in_for_a_broken_image(void **state)
{
    (void)state;
    struct scene scene;
    struct spec file = worker_at(NAME, 50, "running");
    begin(&scene);
    write_worker(scene.folder, &file);
    add_broken_image(&scene);
    assert_one_worker(gather_all(&scene), LP_SOURCE_FILE, 50);
    assert_int_equal(scene.gather.n_unreadable, 0);
    end(&scene);
}

static void test_a_broken_image_alone_is_named(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    write_bytes(scene.folder, "workers/node07/" NAME ".json", "", 0);
    add_broken_image(&scene);
    assert_null(gather_all(&scene));
    assert_int_equal(scene.gather.n_unreadable, 2);
    assert_string_equal(scene.gather.unreadable[0].path, "workers/node07/" NAME ".json");
    assert_string_equal(scene.gather.unreadable[1].path, "/dev/shm/x/" NAME ".img");
    assert_string_equal(scene.gather.unreadable[1].reason, "cut off at byte 1");
    end(&scene);
}

/* A copy of a file under another name or in another folder must not count twice. */
static void test_a_worker_counts_once(void **state)
{
    (void)state;
    struct scene scene;
    struct spec file = worker_at(NAME, 50, "closed");
    char *text = make_document(&file);
    begin(&scene);
    write_bytes(scene.folder, "workers/node07/" NAME ".json", text, strlen(text));
    write_bytes(scene.folder, "workers/node08/" NAME ".json", text, strlen(text));
    free(text);
    assert_one_worker(gather_all(&scene), LP_SOURCE_FILE, 50);
    assert_int_equal(scene.gather.n_unreadable, 1);
    assert_string_equal(scene.gather.unreadable[0].path, "workers/node08/" NAME ".json");
    end(&scene);
}

/* A second gathering, of one attempt, starts from the images again. */
static void test_restart_takes_one_attempt(void **state)
{
    (void)state;
    struct scene scene;
    struct spec file = worker_at(NAME, 50, "running"), image = worker_at(NAME, 70, "running");
    struct spec other = worker_at("w_r2_7_00000002", 80, "closed");
    other.run_id = "r2";
    other.start_s = 60;
    begin(&scene);
    write_worker(scene.folder, &file);
    write_worker(scene.folder, &other);
    add_image(&scene, &image, LP_SOURCE_LIVE_IMAGE);
    assert_string_equal(gather_all(&scene)->run_id.bytes, "r2");
    close(scene.dir_fd);
    lp_run_gather_restart(&scene.gather, view_of("r1"));
    assert_one_worker(gather_all(&scene), LP_SOURCE_LIVE_IMAGE, 70);
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_newer_image_beats_the_file_J5),
        cmocka_unit_test(test_a_live_image_beats_a_flush_meanwhile_J5),
        cmocka_unit_test(test_a_dead_workers_image_beats_its_last_flush_F7),
        cmocka_unit_test(test_a_dead_image_yields_to_a_later_flush),
        cmocka_unit_test(test_a_closed_file_is_final),
        cmocka_unit_test(test_a_partial_image_yields_to_any_file_J5_F7),
        cmocka_unit_test(test_an_image_needs_no_file),
        cmocka_unit_test(test_an_image_makes_up_for_a_broken_file),
        cmocka_unit_test(test_a_file_stands_in_for_a_broken_image),
        cmocka_unit_test(test_a_broken_image_alone_is_named),
        cmocka_unit_test(test_a_worker_counts_once),
        cmocka_unit_test(test_restart_takes_one_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
