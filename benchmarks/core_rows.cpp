#include <lineprofiler.hpp>

#include "core_rows.h"

void core_cpp_static_name(int turns)
{
    static const lp::name outer{"outer"};
    for (int i = 0; i < turns; i++)
        lp::phase phase{outer};
}

void core_cpp_text(int turns)
{
    for (int i = 0; i < turns; i++)
        lp::phase phase{"outer"};
}
