# Sourced by checks of what was installed.

# check_programs ROOT FOLDER: programs in C and C++ build against what lies below ROOT, found in each way that there is;
# they run, and the command that lies there reports them.
check_programs() {
    root=$1
    work=$2
    command=$(find "$root" -path '*/bin/lineprofiler')
    pc=$(find "$root" -name lineprofiler.pc)
    config=$(find "$root" -name lineprofiler-config.cmake)
    library=$(find "$root" -name liblineprofiler.so)
    for file in "$command" "$pc" "$config" "$library"; do
        [ -e "$file" ] || {
            echo "something is missing below $root, which has:" >&2
            find "$root" >&2
            return 1
        }
    done

    mkdir -p "$work"
    cat >"$work/program.c" <<'C'
#include <lineprofiler.h>

int main(int argc, char **argv)
{
    lp_options options = {.run_dir = argc > 1 ? argv[1] : 0, .role = "simulator"};
    lp_profiler *profiler = lp_open(&options);
    {
        LP_PHASE("step");
        LP_COUNT("moves", 3);
    }
    return !profiler || lp_close(profiler) != 0;
}
C
    cat >"$work/program.cc" <<'CC'
#include <lineprofiler.hpp>

int main(int argc, char **argv)
{
    lp::profiler profiler(argc > 1 ? argv[1] : nullptr, "simulator");
    {
        lp::phase step("step");
        lp::count("moves", 3);
    }
    return !profiler || !profiler.close();
}
CC
    cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.15)
project(program C CXX)
find_package(lineprofiler 0.4 REQUIRED)
add_executable(by_cmake program.c)
target_link_libraries(by_cmake PRIVATE lineprofiler::lineprofiler)
add_executable(by_cmake_cxx program.cc)
set_target_properties(by_cmake_cxx PROPERTIES CXX_STANDARD 11 CXX_EXTENSIONS OFF)
target_link_libraries(by_cmake_cxx PRIVATE lineprofiler::lineprofiler)
add_library(bound_by_cmake MODULE bound.c)
target_link_libraries(bound_by_cmake PRIVATE lineprofiler::headers)
CMAKE
    cat >"$work/bound.c" <<'C'
#define LINEPROFILER_BOUND
#include <lineprofiler.h>

int plugin_run(const lp_api *table);
int plugin_run(const lp_api *table)
{
    LP_PHASE("plugin");
    return lp_bind(table);
}
C

    strict='-std=c11 -Wall -Wextra -pedantic -Werror'
    # shellcheck disable=SC2086,SC2046 # flags are words
    {
        ${CC:-cc} $strict "$work/program.c" -o "$work/by_pkg_config" \
            $(PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$root pkg-config --cflags --libs lineprofiler)
        ${CC:-cc} $strict "$work/program.c" -o "$work/by_config" $("$command" config --cflags --libs)
    }
    check_report env LD_LIBRARY_PATH="${library%/*}" "$work/by_pkg_config"
    check_report "$work/by_config"
    command -v cmake >/dev/null || return 0
    cmake -S "$work" -B "$work/build" -Dlineprofiler_DIR="${config%/*}" >"$work/log" 2>&1 &&
        cmake --build "$work/build" >>"$work/log" 2>&1 || {
        cat "$work/log" >&2
        return 1
    }
    check_report "$work/build/by_cmake"
    check_report "$work/build/by_cmake_cxx"
}

check_report() { # program...
    rm -rf "$work/run"
    "$@" "$work/run"
    "$command" report "$work/run" >"$work/report"
    grep -q '^SIMULATOR  (1 process' "$work/report" && grep -q '+ moves  *3 ' "$work/report" || {
        echo "the report of $*:" >&2
        cat "$work/report" >&2
        return 1
    }
}
