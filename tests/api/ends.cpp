/*
 * A program that records where programs end: in destructors of thread-local and static objects, in those of keys, in exit
 * handlers, while exceptions and pthread_exit unwind. test_ends.c runs it and reads what it leaves.
 *
 *     ends RUN_DIR open|close|other_thread|quick
 */
#include <lineprofiler.hpp>

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include <climits>

namespace {

struct at_end {
    const char *name;
    explicit at_end(const char *of) : name(of)
    {
    }
    ~at_end()
    {
        lp::phase phase{name};
        lp::count("ends");
    }
};

at_end static_object{"static destructor"};
thread_local at_end of_thread{"thread_local destructor"};

pthread_key_t early_key, late_key; /* made before the profiler, and after it has made its own */

#ifdef __SANITIZE_THREAD__
constexpr int most_rounds = 2; /* it is no longer there in the last ones */
#else
constexpr int most_rounds = 2 * PTHREAD_DESTRUCTOR_ITERATIONS; /* of both keys, as often as libc goes round */
#endif

void key_ends(void *value)
{
    static thread_local int rounds;
    pthread_key_t key = *static_cast<pthread_key_t *>(value);
    lp::phase phase{key == early_key ? "early key" : "late key"};
    if (++rounds < most_rounds)
        pthread_setspecific(key, value);
}

void *in_thread(void *how)
{
    LP_PHASE("thread");
    (void)of_thread.name; /* makes it */
    pthread_setspecific(early_key, &early_key);
    pthread_setspecific(late_key, &late_key);
    if (how) {
        LP_PHASE("pthread_exit");
        pthread_exit(nullptr);
    }
    return nullptr;
}

void fail_at(int depth)
{
    lp::phase phase{"deep"};
    LP_PHASE_WITH("deep with io", LP_IO, 1.0);
    if (depth == 0)
        throw std::runtime_error("as is meant");
    fail_at(depth - 1);
}

void unwind()
{
    lp::phase phase{"unwind"};
    try {
        fail_at(5);
    } catch (const std::runtime_error &) {
        if (lp::current() != "unwind")
            std::_Exit(90);
    }
    lp::phase early{"left early"};
    early.leave();
    early.leave();
    if (lp::current() != "unwind")
        std::_Exit(91);
}

void wrap_up()
{
    lp::phase phase{"exit handler"};
}

template <class Function> void in_lambda(Function function)
{
    LP_PHASE("template");
    function();
}

std::atomic<bool> stays{true};

} // namespace

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *how = argv[2];
    pthread_key_create(&early_key, key_ends);
    lp_options options = lp_options();
    options.run_id = "one";
    options.snapshot_interval_s = 3600;
    options.sample_interval_s = -1;
    static lp::profiler profiler{argv[1], "ends", options};
    if (!profiler) {
        std::fprintf(stderr, "%s\n", lp::profiler::error());
        return 3;
    }
    std::atexit(wrap_up);
    lp::phase("first").leave(); /* the library makes its own key */
    pthread_key_create(&late_key, key_ends);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, in_thread, i % 2 ? &stays : nullptr) != 0)
            return 4;
        pthread_join(thread, nullptr);
    }
    unwind();
    in_lambda([] { LP_PHASE("lambda"); });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([i] {
            static const lp::name step{"step"}, some = step.sampled(0.5).with(LP_IO);
            for (int j = 0; j < 100; j++)
                lp::phase phase{i % 2 ? step : some};
        });
    for (std::thread &thread : threads)
        thread.join();
    (void)of_thread.name;
    if (std::strcmp(how, "close") == 0 && !profiler.close())
        return 5;
    if (std::strcmp(how, "quick") == 0)
        std::quick_exit(0);
    if (std::strcmp(how, "other_thread") == 0) { /* exits, while we record */
        std::thread([] { std::exit(0); }).detach();
        while (stays)
            lp::phase phase{"until the end"};
    }
    return 0;
}
