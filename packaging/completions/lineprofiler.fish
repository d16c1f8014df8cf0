# Completion of lineprofiler for fish. tests/python/test_completions.py asks it, and holds it against the help.

function __lineprofiler_for --description 'Whether the command line is one of these commands'
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    test (count $words) -ge 2; and contains -- $words[2] $argv
end

function __lineprofiler_for_program --description 'Whether a program that `run` runs stands before the cursor'
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l i 3
    while test $i -le (count $words)
        switch $words[$i]
            case --top --functions --project --html --lprof --json
                set i (math $i + 1)
            case -m
                return 0
            case '-*'
            case '*'
                return 0
        end
        set i (math $i + 1)
    end
    return 1
end

function __lineprofiler_begins
    test (count (commandline --tokenize --cut-at-cursor --current-process)) -eq 1
end

# option... of the commands that the first argument lists
function __lineprofiler_option
    set -l condition "__lineprofiler_for $argv[1]"
    if test $argv[1] = run
        set condition "$condition; and not __lineprofiler_for_program"
    end
    complete --command lineprofiler --condition $condition $argv[2..]
end

complete --command lineprofiler --no-files
complete --command lineprofiler --condition 'not __lineprofiler_for run; or not __lineprofiler_for_program' \
    --short-option h --long-option help --description 'What a command can do'
complete --command lineprofiler --condition __lineprofiler_begins --long-option version --description 'The version'

for line in 'report:Where the time of a run went' 'compare:What changed from one run to another' \
        'top:A run that is going on, live' 'where:What every worker is doing now' \
        'export:The samples of a run, row by row' 'run:A Python program, line by line' \
        'config:What builds in C and C++ need'
    set -l parts (string split --max 1 : $line)
    complete --command lineprofiler --condition __lineprofiler_begins \
        --arguments $parts[1] --description $parts[2]
end

__lineprofiler_option 'report compare top where export' --arguments '(__fish_complete_directories)'
complete --command lineprofiler --condition '__lineprofiler_for run' --force-files

__lineprofiler_option 'report compare' --long-option json --description 'The figures as JSON'
__lineprofiler_option 'report compare' --long-option format --exclusive --arguments 'text json'
__lineprofiler_option 'report compare export' --short-option o --long-option output --require-parameter --force-files \
    --description 'Write to a file'
__lineprofiler_option 'report compare top where' --long-option color --exclusive --arguments 'auto always never'
__lineprofiler_option report --long-option role --exclusive --description 'Only the processes of that role'
__lineprofiler_option report --long-option host --exclusive --description 'Only those on that host'
__lineprofiler_option report --long-option rank --exclusive --description 'Only those of these ranks, as 0-7'
__lineprofiler_option 'report export' --long-option run --exclusive --description 'The attempt of that run id'
__lineprofiler_option compare --long-option run-a --exclusive --description 'Of the first, the attempt of that run id'
__lineprofiler_option compare --long-option run-b --exclusive --description 'Likewise of the second'
__lineprofiler_option report --long-option no-samples --description 'Phases only'
__lineprofiler_option compare --long-option fail-over --exclusive --description 'Exit with 1 beyond this slowdown'
__lineprofiler_option top --short-option i --long-option interval --exclusive --description 'Seconds'
__lineprofiler_option top --long-option once --description 'Two readings, as plain text'
__lineprofiler_option top --long-option workers --description 'Begin with the workers'
__lineprofiler_option top --long-option sort --exclusive \
    --arguments 'share self wait calls each name rss for pid rank host role state'
__lineprofiler_option top --long-option filter --exclusive --description 'Only what contains a text'
__lineprofiler_option where --long-option json --description 'As JSON'
__lineprofiler_option where --long-option all --description 'As many lines as it takes'
__lineprofiler_option export --long-option samples --exclusive --arguments 'csv jsonl'
__lineprofiler_option export --long-option gpu --description 'Samples of devices'
__lineprofiler_option run --short-option m --exclusive --description 'A module'
__lineprofiler_option run --long-option top --exclusive --description 'How many lines to print'
__lineprofiler_option run --long-option functions --exclusive --description 'Only functions that match'
__lineprofiler_option run --long-option project --exclusive --arguments '(__fish_complete_directories)'
for name in html lprof json
    __lineprofiler_option run --long-option $name --require-parameter --force-files --description 'Write to a file'
end
for name in cflags libs includedir libdir pkgconfigdir cmakedir version
    __lineprofiler_option config --long-option $name
end
