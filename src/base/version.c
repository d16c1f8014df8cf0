#include <lineprofiler.h>

#include "base/version_string.h"

const char *lp_version(void)
{
    return LP_VERSION_STRING;
}
