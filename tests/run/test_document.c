/* One document, checked: J3, EX06, HG02, HG03. */
#include <math.h>

#include "support.h"

#include "run/document.h"

/* The document that each case below spoils in one place. */
static const struct spec base = {
    .troubles = "{\"failed_flushes\":2}",
    .threads =
        ONE_THREAD(",{\"parent\":0,\"name\":\"step\",\"calls\":2,\"wall_ns\":60,\"cpu_ns\":30,\"nocpu_wall_ns\":1,"
                   "\"child_wall_ns\":20,\"late_wall_ns\":3,\"stride\":1,\"hist\":\"30:1 31:1\","
                   "\"counters\":{\"games\":[5,2,1,4]}}"
                   ",{\"parent\":1,\"name\":\"inner\",\"calls\":4,\"wall_ns\":20,\"cpu_ns\":null,\"hist\":\"5:4\","
                   "\"open_calls\":1,\"open_wall_ns\":7,\"open_cpu_ns\":null}"),
};

static struct lp_run_document document;

static int parse(const char *text, struct lp_run_fault *fault)
{
    return lp_run_document_parse(&document, text, strlen(text), fault);
}

static int release(void **state)
{
    (void)state;
    lp_run_document_release(&document);
    return 0;
}

/* A document with one change is refused for that reason. */
static void assert_fault(const struct spec *spec, const char *from, const char *to, const char *reason)
{
    struct lp_run_fault fault = {0};
    char *good = make_document(spec);
    if (parse(good, &fault) < 0)
        fail_msg("refused unspoilt: %s", fault.text);
    char *bad = swapped(good, from, to);
    if (parse(bad, &fault) == 0)
        fail_msg("accepted: %s", to);
    assert_string_equal(fault.text, reason);
    assert_false(fault.no_memory);
    free(good);
    free(bad);
}

static void assert_accepted(const struct spec *spec, const char *from, const char *to)
{
    struct lp_run_fault fault = {0};
    char *good = make_document(spec);
    char *other = swapped(good, from, to);
    if (parse(other, &fault) < 0)
        fail_msg("refused for %s: %s", to, fault.text);
    free(good);
    free(other);
}

struct fault_case {
    const char *from, *to, *reason;
};

static void assert_faults(const struct fault_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_fault(&base, cases[i].from, cases[i].to, cases[i].reason);
}
#define ASSERT_FAULTS(cases) assert_faults(cases, sizeof(cases) / sizeof *(cases))

static void test_a_good_document(void **state)
{
    (void)state;
    struct lp_run_fault fault;
    char *text = make_document(&base);
    assert_int_equal(parse(text, &fault), 0);
    assert_true(lp_text_equal(document.worker, view_of("w_r1_4242_00000001")));
    assert_true(lp_text_equal(document.role, view_of("actor")));
    assert_int_equal(document.pid, 4242);
    assert_int_equal(document.rank, 0);
    assert_int_equal(document.index, -1);
    assert_int_equal(document.written.realtime_ns, EPOCH + 100 * SECOND);
    assert_true(document.snapshot_interval_s == 30.0);
    assert_true(document.closed);
    assert_int_equal(document.n_slots, 1);
    assert_int_equal(document.n_records, 3);
    assert_int_equal(document.records[1].calls, 2);
    assert_int_equal(document.records[1].n_hist, 2);
    assert_int_equal(document.records[1].stride, 1);
    assert_int_equal(document.records[2].depth, 2);
    assert_true(document.records[2].no_cpu);
    assert_int_equal(document.tallies[0].max, 4);
    assert_int_equal(document.n_troubles, 1);
    free(text);
}

static void test_other_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "empty file"},
        {"{}", "JSON, but not a worker file"},
        {"[1]", "JSON, but not a worker file"},
        {"{\"format\":\"lineprofiler-metadata\",\"version\":1}", "JSON, but not a worker file"},
        {"{\"format\":7}", "JSON, but not a worker file"},
        {"{\"format\":\"lineprofiler-worker\"}", "version: missing"},
        {"{\"format\":\"lineprofiler-worker\",\"version\":2}",
         "version 2: written by a newer release; this one reads up to version 1"},
        {"{\"format\":\"lineprofiler-worker\",\"version\":0}", "version: less than 1"},
        {"{\"format\":\"lineprofiler-worker\",\"version\":\"1\"}", "version: an integer expected, found a string"},
        {"{\"format\":", "cut off at byte 10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lp_run_fault fault;
        assert_int_equal(parse(cases[i].text, &fault), -1);
        assert_string_equal(fault.text, cases[i].reason);
    }
}

static void test_broken_json_is_one_printable_line(void **state)
{
    (void)state;
    static const char *const cases[] = {"\x01\x02\x03",
                                        "{\"a\"\n\n:\x80\xff}",
                                        "\xef\xbb\xbf{}",
                                        "{\"a\":1}}",
                                        "nul",
                                        "{'a':1}",
                                        "{\"a\":NaN}",
                                        "{\"a\":Infinity}",
                                        "{\"a\":1e999}",
                                        "{\"a\":99999999999999999999}",
                                        "{\"a\":1,\"a\":2}",
                                        "{\"a\":\"\\u0000\"}",
                                        "{\"a\":\"\\ud800\"}",
                                        "{\"a\":01}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lp_run_fault fault;
        assert_int_equal(parse(cases[i], &fault), -1);
        if (strncmp(fault.text, "not JSON at byte ", 17) != 0)
            fail_msg("%s: %s", cases[i], fault.text);
        for (const char *at = fault.text; *at; at++)
            assert_in_range(*at, 0x20, 0x7e);
    }
}

static void test_deep_json_does_not_exhaust_the_stack(void **state)
{
    (void)state;
    struct lp_run_fault fault;
    size_t n = 1 << 20;
    char *text = malloc(n + 1);
    memset(text, '[', n);
    text[n] = '\0';
    assert_int_equal(parse(text, &fault), -1);
    free(text);
}

static void test_process_fields(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"\"worker\":\"w_r1_4242_00000001\"", "\"worker\":\"\"", "worker: empty"},
        {"\"worker\":\"w_r1_4242_00000001\"", "\"worker\":1", "worker: a string or null expected, found an integer"},
        {"\"run_id\":\"r1\"", "\"run_id\":null", "run_id: a string expected, found null"},
        {"\"run_id\":\"r1\"", "\"run_id\":\"\\\\q\"", "run_id: text with an unknown escape"},
        {"\"role\":\"actor\",", "", "role: missing"},
        {"\"pid\":4242", "\"pid\":0", "pid: less than 1"},
        {"\"pid\":4242", "\"pid\":-1", "pid: negative"},
        {"\"pid\":4242", "\"pid\":1.5", "pid: an integer expected, found a fraction"},
        {"\"parent_pid\":1", "\"parent_pid\":true", "parent_pid: an integer expected, found a boolean"},
        {"\"host\":\"node07\"", "\"host\":\"\"", "host: empty"},
        {"\"rank\":0", "\"rank\":-1", "rank: negative"},
        {"\"rank\":0,", "", "rank: missing"},
        {"\"rank\":0,", "\"rank\":0,\"index\":-1,", "index: negative"},
        {"\"rank\":0,", "\"rank\":0,\"index\":\"a\",", "index: an integer expected, found a string"},
        {"\"world_size\":8", "\"world_size\":0", "world_size: less than 1"},
        {"\"launcher\":\"slurm\"", "\"launcher\":[]", "launcher: a string or null expected, found an array"},
        {"\"job\":{\"system\":\"slurm\",\"id\":\"99\"}", "\"job\":1", "job: an object expected, found an integer"},
        {"\"system\":\"slurm\",\"id\"", "\"id\"", "job.system: missing"},
        {"\"id\":\"99\"", "\"id\":99", "job.id: a string or null expected, found an integer"},
        {"\"boot_id\":\"b1\"", "\"boot_id\":null", "boot_id: a string expected, found null"},
        {"\"pid_namespace\":1", "\"pid_namespace\":-1", "pid_namespace: negative"},
        {"\"process_start_ticks\":5", "\"process_start_ticks\":\"5\"",
         "process_start_ticks: an integer expected, found a string"},
        {"\"library\":\"0.4.0\"", "\"library\":{}", "library: a string or null expected, found an object"},
        {"\"runtime\":\"CPython 3.12.1\"", "\"runtime\":3", "runtime: a string or null expected, found an integer"},
        {"\"command\":[\"a\"]", "\"command\":\"a\"", "command: an array expected, found a string"},
        {"\"command\":[\"a\"]", "\"command\":[\"a\",1]", "command[1]: a string expected, found an integer"},
        {"\"run_id_origin\":\"inherited\"", "\"run_id_origin\":\"made up\"",
         "run_id_origin: not one of given, inherited, launcher, generated"},
    };
    ASSERT_FAULTS(cases);
}

static void test_state_fields(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"\"measure_cpu\":true", "\"measure_cpu\":1", "settings.measure_cpu: a boolean expected, found an integer"},
        {"\"thread_names\":false,", "", "settings.thread_names: missing"},
        {"\"snapshot_interval_s\":30.0", "\"snapshot_interval_s\":0", "settings.snapshot_interval_s: not above 0"},
        {"\"snapshot_interval_s\":30.0", "\"snapshot_interval_s\":\"30\"",
         "settings.snapshot_interval_s: a number or null expected, found a string"},
        {"\"sample_interval_s\":1.0", "\"sample_interval_s\":-1", "settings.sample_interval_s: not above 0"},
        {"\"monotonic_ns\":1000000000000,", "\"monotonic_ns\":1200000000000,", "written.monotonic_ns: before started"},
        {"\"monotonic_ns\":1100000000000,", "", "written.monotonic_ns: missing"},
        {"\"boottime_ns\":1000000000000}", "\"boottime_ns\":-5}", "started.boottime_ns: negative"},
        {"\"state\":\"closed\"", "\"state\":\"open\"", "state: neither running nor closed"},
        {"\"flush\":3", "\"flush\":0", "flush: less than 1"},
        {"\"clock\":{\"wall\":\"tsc\",\"cpu\":\"token\"}", "\"clock\":[]", "clock: an object expected, found an array"},
        {"\"wall\":\"tsc\",", "", "clock.wall: missing"},
        {"\"image\":\"shared\"", "\"image\":\"lost\"", "image: neither shared nor private"},
        {"{\"failed_flushes\":2}", "[]", "troubles: an object expected, found an array"},
        {"{\"failed_flushes\":2}", "{\"failed_flushes\":-2}", "troubles.failed_flushes: negative"},
    };
    ASSERT_FAULTS(cases);
}

#define MACHINE                                                                                                        \
    "\"machine\":{\"cores\":16,\"cores_usable\":2,\"cores_usable_list\":\"0-1\",\"cpu_limit_cores\":1.5,"              \
    "\"ram_bytes\":64000,\"memory_limit_bytes\":2000,\"kernel\":\"6.1\",\"cpu_model\":null},"                          \
    "\"memory\":{\"peak_rss_bytes\":700,\"pss_bytes\":null},"

static void test_machine_and_memory(void **state)
{
    (void)state;
    struct lp_run_fault fault;
    struct spec spec = base;
    spec.facts = MACHINE;
    char *text = make_document(&spec), *other;
    assert_int_equal(parse(text, &fault), 0);
    assert_int_equal(document.machine.cores, 16);
    assert_int_equal(document.machine.cores_usable, 2);
    assert_true(document.machine.cpu_limit_cores == 1.5);
    assert_int_equal(document.machine.ram_bytes, 64000);
    assert_int_equal(document.machine.memory_limit_bytes, 2000);
    assert_true(lp_text_equal(document.usable_list, view_of("0-1")));
    assert_true(lp_text_equal(document.kernel, view_of("6.1")));
    assert_null(document.cpu_model.bytes);
    assert_int_equal(document.peak_rss_bytes, 700);
    assert_int_equal(document.pss_bytes, 0);
    other = swapped(text, "\"cpu_limit_cores\":1.5", "\"cpu_limit_cores\":\"none\"");
    free(text);
    text = swapped(other, "\"memory_limit_bytes\":2000", "\"memory_limit_bytes\":\"none\"");
    free(other);
    assert_int_equal(parse(text, &fault), 0);
    assert_true(isinf(document.machine.cpu_limit_cores));
    assert_true(document.machine.memory_limit_bytes == UINT64_MAX);
    free(text);
    /* Of an older writer; what the document before had is gone. */
    text = make_document(&base);
    assert_int_equal(parse(text, &fault), 0);
    assert_int_equal(document.machine.cores, 0);
    assert_true(isnan(document.machine.cpu_limit_cores));
    assert_int_equal(document.machine.memory_limit_bytes, 0);
    assert_int_equal(document.peak_rss_bytes, 0);
    free(text);
}

static void test_machine_fields(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"\"cores\":16", "\"cores\":0", "machine.cores: less than 1"},
        {"\"cores\":16", "\"cores\":\"16\"", "machine.cores: an integer expected, found a string"},
        {"\"cpu_limit_cores\":1.5", "\"cpu_limit_cores\":-1", "machine.cpu_limit_cores: not above 0"},
        {"\"cpu_limit_cores\":1.5", "\"cpu_limit_cores\":\"many\"",
         "machine.cpu_limit_cores: a number or null expected, found a string"},
        {"\"memory_limit_bytes\":2000", "\"memory_limit_bytes\":-2", "machine.memory_limit_bytes: negative"},
        {"\"kernel\":\"6.1\"", "\"kernel\":6", "machine.kernel: a string or null expected, found an integer"},
        {"\"peak_rss_bytes\":700", "\"peak_rss_bytes\":0", "memory.peak_rss_bytes: less than 1"},
        {"\"memory\":{\"peak_rss_bytes\":700,\"pss_bytes\":null}", "\"memory\":[]",
         "memory: an object expected, found an array"},
    };
    struct spec spec = base;
    spec.facts = MACHINE;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fault(&spec, cases[i].from, cases[i].to, cases[i].reason);
}

static void test_threads_and_tree(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"\"threads\":[", "\"threads\":[null,", "threads[0]: an object expected, found null"},
        {"\"name\":\"MainThread\"", "\"name\":3", "threads[0].name: a string or null expected, found an integer"},
        {"\"tid\":7", "\"tid\":-7", "threads[0].tid: negative"},
        {"\"alive\":true,", "", "threads[0].alive: missing"},
        {"\"nodes\":[{}", "\"nodes\":[7", "threads[0].nodes[0]: an object expected, found an integer"},
        {"\"nodes\":[{}", "\"nodes\":[{\"parent\":0}", "threads[0].nodes[0]: the root has a parent or a name"},
        {"\"nodes\":[{}", "\"nodes\":[{\"calls\":1}", "threads[0].nodes[0]: the root has time of its own"},
        {"\"parent\":1,", "", "threads[0].nodes[2].parent: missing"},
        {"\"parent\":1,", "\"parent\":2,", "threads[0].nodes[2].parent: 2 does not stand before its child"},
        {"\"parent\":1,", "\"parent\":-1,", "threads[0].nodes[2].parent: negative"},
        {"\"parent\":1,", "\"parent\":null,", "threads[0].nodes[2].parent: an integer expected, found null"},
        {"\"name\":\"inner\",", "", "threads[0].nodes[2].name: missing"},
        {"\"name\":\"inner\",", "\"name\":\"\",", "threads[0].nodes[2].name: empty"},
        {"\"name\":\"inner\",", "\"name\":7,", "threads[0].nodes[2].name: a string expected, found an integer"},
        {"\"name\":\"inner\",", "\"name\":\"\\\\x01\",", "threads[0].nodes[2].name: text with an unknown escape"},
    };
    ASSERT_FAULTS(cases);
    struct spec without_nodes = base;
    without_nodes.threads = "[{\"name\":\"\",\"tid\":1,\"alive\":false,\"nodes\":[{}]}]";
    assert_fault(&without_nodes, "[{}]", "[]", "threads[0].nodes: empty, without even a root");
}

static void test_figures(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"\"calls\":2,", "\"calls\":-2,", "threads[0].nodes[1].calls: negative"},
        {"\"calls\":2,", "\"calls\":2.0,", "threads[0].nodes[1].calls: an integer expected, found a fraction"},
        {"\"calls\":2,", "\"calls\":null,", "threads[0].nodes[1].calls: an integer expected, found null"},
        {"\"wall_ns\":60", "\"wall_ns\":\"60\"", "threads[0].nodes[1].wall_ns: an integer expected, found a string"},
        {"\"cpu_ns\":30", "\"cpu_ns\":-1", "threads[0].nodes[1].cpu_ns: negative"},
        {"\"nocpu_wall_ns\":1", "\"nocpu_wall_ns\":-1", "threads[0].nodes[1].nocpu_wall_ns: negative"},
        {"\"child_wall_ns\":20", "\"child_wall_ns\":[]",
         "threads[0].nodes[1].child_wall_ns: an integer expected, found an array"},
        {"\"late_wall_ns\":3", "\"late_wall_ns\":-3", "threads[0].nodes[1].late_wall_ns: negative"},
        {"\"open_calls\":1", "\"open_calls\":-1", "threads[0].nodes[2].open_calls: negative"},
        {"\"open_wall_ns\":7", "\"open_wall_ns\":null",
         "threads[0].nodes[2].open_wall_ns: an integer expected, found null"},
        {"\"open_cpu_ns\":null", "\"open_cpu_ns\":-1", "threads[0].nodes[2].open_cpu_ns: negative"},
        {"\"stride\":1", "\"stride\":0", "threads[0].nodes[1].stride: 0"},
        {"\"hist\":\"30:1 31:1\"", "\"hist\":[30]", "threads[0].nodes[1].hist: a string expected, found an array"},
    };
    ASSERT_FAULTS(cases);
}

static void test_histogram_text(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"30:1 31:1", "30:1  31:1", "threads[0].nodes[1].hist: no bucket:count pair at character 5"},
        {"30:1 31:1", "30:1 31:1 ", "threads[0].nodes[1].hist: not bucket:count pairs joined by blanks"},
        {"30:1 31:1", " 30:1 31:1", "threads[0].nodes[1].hist: no bucket:count pair at character 0"},
        {"30:1 31:1", "30:1,31:1", "threads[0].nodes[1].hist: not bucket:count pairs joined by blanks"},
        {"30:1 31:1", "30:1 31", "threads[0].nodes[1].hist: no bucket:count pair at character 7"},
        {"30:1 31:1", "30:1 31:", "threads[0].nodes[1].hist: no bucket:count pair at character 8"},
        {"30:1 31:1", "30:1 :1", "threads[0].nodes[1].hist: no bucket:count pair at character 5"},
        {"30:1 31:1", "30:1 -31:1", "threads[0].nodes[1].hist: no bucket:count pair at character 5"},
        {"30:1 31:1", "30:1 31:-1", "threads[0].nodes[1].hist: no bucket:count pair at character 8"},
        {"30:1 31:1", "31:1 30:1", "threads[0].nodes[1].hist: bucket 30 out of order"},
        {"30:1 31:1", "30:1 30:1", "threads[0].nodes[1].hist: bucket 30 out of order"},
        {"30:1 31:1", "30:1 496:1", "threads[0].nodes[1].hist: no bucket:count pair at character 8"},
        {"30:1 31:1", "30:1 18446744073709551646:1", "threads[0].nodes[1].hist: no bucket:count pair at character 24"},
        {"30:1 31:1", "30:1 31:9223372036854775808", "threads[0].nodes[1].hist: no bucket:count pair at character 27"},
    };
    ASSERT_FAULTS(cases);
}

static void test_counters(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"{\"games\":[5,2,1,4]}", "[]", "threads[0].nodes[1].counters: an object expected, found an array"},
        {"[5,2,1,4]", "[5,2,1]", "threads[0].nodes[1].counters.games: [sum, calls, min, max] expected"},
        {"[5,2,1,4]", "5", "threads[0].nodes[1].counters.games: [sum, calls, min, max] expected"},
        {"[5,2,1,4]", "[5.5,2,1,4]", "threads[0].nodes[1].counters.games: an integer expected, found a fraction"},
        {"[5,2,1,4]", "[5,-2,1,4]", "threads[0].nodes[1].counters.games: negative"},
        {"[5,2,1,4]", "[5,2,null,4]", "threads[0].nodes[1].counters.games: an integer expected, found null"},
        {"[5,2,1,4]", "[5,2,4,1]", "threads[0].nodes[1].counters.games: min above max"},
        {"[5,2,1,4]", "[5,0,0,0]", "threads[0].nodes[1].counters.games: a sum of no calls"},
        {"\"games\"", "\"\"", "threads[0].nodes[1].counters.: empty"},
        {"\"games\"", "\"\\\\u\"", "threads[0].nodes[1].counters.\\u: text with an unknown escape"},
    };
    ASSERT_FAULTS(cases);
    assert_accepted(&base, "[5,2,1,4]", "[-9223372036854775808,2,-9223372036854775808,9223372036854775807]");
}

/* What contradicts itself is refused in a closed worker; a running one may have entries in flight. */
static void test_contradictions(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"\"calls\":2,", "\"calls\":9,", "threads[0].nodes[1].hist: adds up to 2, calls to 9"},
        {"\"hist\":\"30:1 31:1\"", "\"hist\":\"30:1 31:7\"", "threads[0].nodes[1].hist: adds up to 8, calls to 2"},
        {"\"child_wall_ns\":20", "\"child_wall_ns\":61", "threads[0].nodes[1].child_wall_ns: above wall_ns"},
        {"\"nocpu_wall_ns\":1", "\"nocpu_wall_ns\":61", "threads[0].nodes[1].nocpu_wall_ns: above wall_ns"},
        {"\"late_wall_ns\":3", "\"late_wall_ns\":61", "threads[0].nodes[1].late_wall_ns: above wall_ns"},
        {"\"calls\":2,\"wall_ns\":60", "\"calls\":0,\"wall_ns\":60", "threads[0].nodes[1].wall_ns: time of no calls"},
        {"\"open_calls\":1,", "", "threads[0].nodes[2].open_wall_ns: time of no open calls"},
    };
    struct spec running = base;
    running.state = "running";
    ASSERT_FAULTS(cases);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_accepted(&running, cases[i].from, cases[i].to);
    assert_accepted(&running, "[5,2,1,4]", "[5,2,4,1]");
    assert_int_equal(document.tallies[0].min, 1);
    assert_int_equal(document.tallies[0].max, 4);
}

/* The one document with device times, and the devices. */
static const struct spec with_devices = {
    .facts = "\"gpus\":[{\"index\":1,\"name\":\"A100\",\"uuid\":null,\"memory_bytes\":80,\"state\":\"ok\","
             "\"own\":\"pid_namespace\"},{\"index\":2,\"name\":null,\"uuid\":\"GPU-2\",\"memory_bytes\":null,"
             "\"state\":\"lost\",\"own\":\"ok\"}],",
    .threads = ONE_THREAD(",{\"parent\":0,\"name\":\"a\",\"calls\":3,\"wall_ns\":60,\"hist\":\"30:3\","
                          "\"gpu_calls\":2,\"gpu_ns\":90,\"gpu_hist\":\"35:1 36:1\",\"async_work\":true}"),
};

static void test_devices_and_their_times_H5_H7(void **state)
{
    (void)state;
    static const struct fault_case cases[] = {
        {"\"gpu_calls\":2", "\"gpu_calls\":4", "threads[0].nodes[1].gpu_calls: above calls"},
        {"35:1 36:1", "35:1", "threads[0].nodes[1].gpu_hist: adds up to 1, gpu_calls to 2"},
        {"\"gpu_calls\":2", "\"gpu_calls\":0", "threads[0].nodes[1].gpu_ns: time of no calls"},
    };
    static const struct fault_case types[] = {
        {"\"gpu_ns\":90", "\"gpu_ns\":-1", "threads[0].nodes[1].gpu_ns: negative"},
        {"35:1 36:1", "36:1 35:1", "threads[0].nodes[1].gpu_hist: bucket 35 out of order"},
        {"\"async_work\":true", "\"async_work\":1",
         "threads[0].nodes[1].async_work: true or false expected, found an integer"},
        {"\"index\":1,", "", "gpus[0]: index: missing"},
        {"\"memory_bytes\":80", "\"memory_bytes\":-80", "gpus[0]: memory_bytes: negative"},
    };
    struct spec running = with_devices;
    running.state = "running";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_fault(&with_devices, cases[i].from, cases[i].to, cases[i].reason);
        assert_accepted(&running, cases[i].from, cases[i].to);
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        assert_fault(&running, types[i].from, types[i].to, types[i].reason);
    assert_accepted(&with_devices, "A100", "B200");
    assert_int_equal(document.n_gpus, 2);
    assert_int_equal(document.gpus[0].memory_bytes, 80);
    assert_null(document.gpus[0].uuid.bytes);
    assert_true(document.gpus[1].memory_bytes == UINT64_MAX);
    assert_accepted(&base, "\"late_wall_ns\":3", "\"late_wall_ns\":2");
    assert_int_equal(document.n_gpus, 0);
}

static void test_what_is_no_contradiction(void **state)
{
    (void)state;
    struct spec full = base, sampled = base;
    assert_accepted(&base, "\"calls\":2,", "\"calls\":3,"); /* another thread was inside a boundary at close */
    full.troubles = "{\"image_full\":1}";
    assert_accepted(&full, "\"hist\":\"30:1 31:1\"", "\"hist\":\"\"");
    assert_fault(&full, "\"hist\":\"30:1 31:1\"", "\"hist\":\"30:9\"",
                 "threads[0].nodes[1].hist: adds up to 9, calls to 2");
    sampled.threads =
        ONE_THREAD(",{\"parent\":0,\"name\":\"a\",\"calls\":1,\"wall_ns\":50,\"child_wall_ns\":50,\"hist\":\"31:1\"}"
                   ",{\"parent\":1,\"name\":\"b\",\"calls\":100,\"wall_ns\":500,\"stride\":100,\"hist\":\"5:100\"}");
    assert_accepted(&sampled, "\"child_wall_ns\":50", "\"child_wall_ns\":500");
}

static void test_unknown_keys_are_ignored(void **state)
{
    (void)state;
    assert_accepted(&base, "\"pid\":4242", "\"news\":{\"a\":[1.5,null]},\"pid\":4242");
    assert_accepted(&base, "\"nodes\":[{}", "\"nodes\":[{\"news\":1}");
    assert_accepted(&base, "\"tid\":7", "\"tid\":7,\"nice\":-19");
    assert_accepted(&base, "\"calls\":2", "\"calls\":2,\"energy_nj\":-3");
    assert_accepted(&base, "\"launcher\":\"slurm\"", "\"launcher\":\"new one\"");
    assert_accepted(&base, "\"wall\":\"tsc\"", "\"wall\":\"new one\"");
}

static void test_what_may_be_null(void **state)
{
    (void)state;
    assert_accepted(&base, "\"rank\":0", "\"rank\":null");
    assert_int_equal(document.rank, -1);
    assert_accepted(&base, "\"launcher\":\"slurm\"", "\"launcher\":null");
    assert_null(document.launcher.bytes);
    assert_accepted(&base, "\"job\":{\"system\":\"slurm\",\"id\":\"99\"}", "\"job\":null");
    assert_null(document.job_id.bytes);
    assert_accepted(&base, "\"runtime\":\"CPython 3.12.1\"", "\"runtime\":null");
    assert_accepted(&base, "\"snapshot_interval_s\":30.0", "\"snapshot_interval_s\":null");
    assert_true(document.snapshot_interval_s < 0);
    assert_accepted(&base, ",\"threads\"", ",\"threads_\":0,\"threads\"");
    assert_accepted(&base, "\"troubles\":{\"failed_flushes\":2},", "");
    assert_int_equal(document.n_troubles, 0);
}

static char *nested_nodes(int depth)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "[{\"name\":\"t\",\"tid\":1,\"alive\":true,\"nodes\":[{}");
    for (int i = 0; i < depth; i++)
        fprintf(out, ",{\"parent\":%d,\"name\":\"r\"}", i);
    fprintf(out, "]}]");
    fclose(out);
    return text;
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    struct lp_run_fault fault;
    struct spec spec = base;
    char *nodes = nested_nodes(LP_RUN_DEPTH_MAX);
    spec.threads = nodes;
    char *text = make_document(&spec);
    assert_int_equal(parse(text, &fault), 0);
    free(nodes);
    free(text);
    spec.threads = nodes = nested_nodes(LP_RUN_DEPTH_MAX + 1);
    text = make_document(&spec);
    assert_int_equal(parse(text, &fault), -1);
    assert_string_equal(fault.text, "threads[0].nodes[129]: deeper than 128 phases");
    free(nodes);
    free(text);
}

static int parse_name_of(size_t len, struct lp_run_fault *fault)
{
    char *name = malloc(len + 1);
    memset(name, 'n', len);
    name[len] = '\0';
    char *good = make_document(&base);
    char *text = swapped(good, "inner", name);
    int result = parse(text, fault);
    free(good);
    free(name);
    free(text);
    return result;
}

static void test_name_length_is_bounded_B12(void **state)
{
    (void)state;
    struct lp_run_fault fault;
    assert_int_equal(parse_name_of(LP_RUN_NAME_MAX, &fault), 0);
    assert_int_equal(document.records[2].name.len, LP_RUN_NAME_MAX);
    assert_int_equal(parse_name_of(LP_RUN_NAME_MAX + 1, &fault), -1);
    assert_string_equal(fault.text, "threads[0].nodes[2].name: 1048577 bytes long; 1048576 are allowed");
}

static void test_names_are_decoded(void **state)
{
    (void)state;
    assert_accepted(&base, "inner", "a\\\\\\\\b/\\\\x00\\\\udcff\\ud83d\\ude00");
    static const char expected[] = "a\\b/\0\xed\xb3\xbf\xf0\x9f\x98\x80";
    assert_true(lp_text_equal(document.records[2].name, (struct lp_span){expected, sizeof expected - 1}));
    assert_accepted(&base, "games", "\\\\x00");
    assert_true(lp_text_equal(document.tallies[0].name, (struct lp_span){"\0", 1}));
}

/* Cut off anywhere, a document is refused with a reason, and the next one is read as if nothing had been: EX06. */
static void test_every_truncation_is_refused_EX06(void **state)
{
    (void)state;
    char *text = make_document(&base);
    size_t len = strlen(text) - 1; /* without the last newline, which nothing depends on */
    for (size_t cut = 0; cut < len; cut++) {
        struct lp_run_fault fault = {0};
        char *part = malloc(cut ? cut : 1); /* exact, so that a sanitizer sees a read past its end */
        memcpy(part, text, cut);
        if (lp_run_document_parse(&document, part, cut, &fault) == 0)
            fail_msg("accepted when cut off after %zu bytes", cut);
        assert_true(fault.text[0] != '\0');
        free(part);
    }
    struct lp_run_fault fault;
    assert_int_equal(parse(text, &fault), 0);
    free(text);
}

/* Any one byte replaced: no crash, and what is accepted is in bounds. */
static void test_every_spoilt_byte_is_survived(void **state)
{
    (void)state;
    static const char spoilt[] = {'\0', ' ', '"', '\\', '{', ']', '9', '-', '\xff'};
    char *text = make_document(&base);
    size_t len = strlen(text);
    for (size_t at = 0; at < len; at++) {
        char kept = text[at];
        for (size_t i = 0; i < sizeof spoilt; i++) {
            struct lp_run_fault fault;
            text[at] = spoilt[i];
            if (lp_run_document_parse(&document, text, len, &fault) == 0)
                for (size_t j = 0; j < document.n_records; j++)
                    assert_true(document.records[j].parent <= j && document.records[j].wall_ns <= INT64_MAX);
        }
        text[at] = kept;
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_good_document),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_broken_json_is_one_printable_line),
        cmocka_unit_test(test_deep_json_does_not_exhaust_the_stack),
        cmocka_unit_test(test_process_fields),
        cmocka_unit_test(test_state_fields),
        cmocka_unit_test(test_machine_and_memory),
        cmocka_unit_test(test_machine_fields),
        cmocka_unit_test(test_threads_and_tree),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_histogram_text),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_what_is_no_contradiction),
        cmocka_unit_test(test_unknown_keys_are_ignored),
        cmocka_unit_test(test_what_may_be_null),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_name_length_is_bounded_B12),
        cmocka_unit_test(test_names_are_decoded),
        cmocka_unit_test(test_devices_and_their_times_H5_H7),
        cmocka_unit_test(test_every_truncation_is_refused_EX06),
        cmocka_unit_test(test_every_spoilt_byte_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
