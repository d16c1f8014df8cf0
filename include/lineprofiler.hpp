/*
 * lineprofiler.h for C++11 and later: objects that close what they open. A header, no library of its own.
 *
 *     lp::profiler profiler{"profile", "actor"};        // closed at the end of its block
 *     static const lp::name expand{"expand"};
 *     lp::phase phase{expand};                          // of the installed profiler, until the end of the block
 *     lp::count("leaves");
 *
 * None of these throws, but that lp::current() makes a text: what cannot be recorded is not. In an extension module of
 * Python include <lineprofiler_python.h> first.
 */
#ifndef LINEPROFILER_HPP
#define LINEPROFILER_HPP

#include <lineprofiler.h>

#include <string>

/* One that is not kept in a variable ends at once. */
#if __cplusplus >= 201703L
#define LP_NODISCARD_ [[nodiscard]]
#else
#define LP_NODISCARD_
#endif

namespace lp {

/* A name that is looked up once. Cheap to copy. Where LINEPROFILER_BOUND is defined, as in extension modules of Python, one
   that is made before lp_bind() or lp_import() is none: let it be a static variable of a function, not of a file. */
class name {
  public:
    explicit name(const char *text) noexcept : id_(lp_intern(text))
    {
    }
    explicit name(const std::string &text) noexcept : id_(lp_intern_text(text.data(), text.size()))
    {
    }
    /* The same phase, measured one entry in round(1 / fraction). */
    name sampled(double fraction) const noexcept
    {
        return name(lp_sampled(id_, fraction));
    }
    /* The same phase, measuring more: LP_IO, LP_SYNC, LP_GPU, LP_ASYNC_WORK. */
    name with(std::uint32_t flags) const noexcept
    {
        return name(lp_with(id_, flags));
    }
    lp_name id() const noexcept
    {
        return id_;
    }

  private:
    explicit name(lp_name id) noexcept : id_(id)
    {
    }
    lp_name id_;
};

/* An entry, from its construction to its destruction. To stay on its thread. */
class LP_NODISCARD_ phase {
  public:
    explicit phase(const name &of, lp_profiler *profiler = lp_installed()) noexcept
        : entry_(lp_enter(profiler, of.id()))
    {
    }
    /* Looks the name up each time, 12 to 100 ns: in hot places use a static lp::name, or LP_PHASE. */
    explicit phase(const char *text, lp_profiler *profiler = lp_installed()) noexcept : phase(name(text), profiler)
    {
    }
    explicit phase(const std::string &text, lp_profiler *profiler = lp_installed()) noexcept
        : phase(name(text), profiler)
    {
    }
    ~phase()
    {
        lp_leave(&entry_);
    }
    /* Ends it before its block does. */
    void leave() noexcept
    {
        lp_leave(&entry_);
    }
    phase(const phase &) = delete;
    phase &operator=(const phase &) = delete;

  private:
    lp_phase entry_;
};

/* Adds to a counter of the installed profiler. False if the sum would leave 64 bits. */
inline bool count(const name &counter, std::int64_t n = 1, lp_profiler *profiler = lp_installed()) noexcept
{
    return lp_count(profiler, counter.id(), n) == 0;
}
inline bool count(const char *counter, std::int64_t n = 1, lp_profiler *profiler = lp_installed()) noexcept
{
    return count(name(counter), n, profiler);
}

/* The names of the open phases of this thread, joined by "/". */
inline std::string current(lp_profiler *profiler = lp_installed())
{
    std::string text(lp_current(profiler, nullptr, 0), '\0');
    if (!text.empty())
        lp_current(profiler, &text[0], text.size() + 1);
    return text;
}

/* A profiler that is closed when its block ends. */
class LP_NODISCARD_ profiler {
  public:
    explicit profiler(lp_options options = lp_options()) noexcept : profiler_(lp_open(&options))
    {
    }
    explicit profiler(const char *run_dir, const char *role = nullptr, lp_options options = lp_options()) noexcept
        : profiler_(nullptr)
    {
        options.run_dir = run_dir;
        options.role = role;
        profiler_ = lp_open(&options);
    }
    ~profiler()
    {
        lp_close(profiler_);
    }
    /* False if it could not be opened: error() says why. */
    explicit operator bool() const noexcept
    {
        return profiler_ != nullptr;
    }
    static const char *error() noexcept
    {
        return lp_error_message();
    }
    bool close() noexcept
    {
        return lp_close(profiler_) == 0;
    }
    bool snapshot() noexcept
    {
        return lp_snapshot(profiler_) == 0;
    }
    lp_profiler *get() const noexcept
    {
        return profiler_;
    }
    profiler(const profiler &) = delete;
    profiler &operator=(const profiler &) = delete;

  private:
    lp_profiler *profiler_;
};

} // namespace lp

#endif
