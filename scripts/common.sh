# Sourced by the scripts beside it, from the root of the project.
#
# WERROR=1 in the environment makes warnings errors. Results of test runs, as
# JUnit files, go to build-results/.

export PIP_DISABLE_PIP_VERSION_CHECK=1

results=build-results
mkdir -p "$results"

werror=false
[ -z "${WERROR:-}" ] || werror=true

[ -s .venv/interpreters ] || {
    echo "no environments yet: run scripts/setup" >&2
    exit 1
}
mapfile -t minors <.venv/interpreters

# The environment whose tools are used wherever any interpreter will do.
venv=$PWD/.venv/${minors[0]}

heading() {
    echo
    echo "== $*"
}

# configure FOLDER OPTION...: a build folder with these options, new or not. It is
# always configured anew, for that is when unlisted files are found.
configure() {
    local folder=$1 again=()
    shift
    [ ! -e "$folder/build.ninja" ] || again=(--reconfigure)
    PATH=$venv/bin:$PATH meson setup "${again[@]}" "$folder" . "-Dwerror=$werror" "$@" >"$results/$folder.log" 2>&1 || {
        cat "$results/$folder.log"
        echo "meson could not configure $folder" >&2
        return 1
    }
}

compile() {
    PATH=$venv/bin:$PATH ninja -C "$1" --quiet
}

# run_c_tests FOLDER NAME OPTION...: meson's tests, their results as NAME.xml.
run_c_tests() {
    local folder=$1 name=$2 status=0
    shift 2
    rm -f "$results/$name.xml" "$folder/meson-logs/testlog.junit.xml"
    PATH=$venv/bin:$PATH meson test -C "$folder" --no-rebuild --print-errorlogs "$@" || status=$?
    cp "$folder/meson-logs/testlog.junit.xml" "$results/$name.xml" || status=1
    return $status
}

# install_package MINOR: builds the package and installs it into that environment.
install_package() {
    local venv=$PWD/.venv/$1
    PATH=$venv/bin:$PATH "$venv/bin/python" -m pip install --quiet --no-build-isolation --no-deps \
        --config-settings=build-dir="build-py$1" \
        --config-settings=setup-args="-Dwerror=$werror" . </dev/null
}
