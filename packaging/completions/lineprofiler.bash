# Completion of lineprofiler for bash. tests/python/test_completions.py asks it, and holds it against the help.

# Sets `options` and `value`: what the command takes, and what kind of value the word `before` is followed by.
_lineprofiler_options() { # command before
    case $1 in
    report) options='--json --format --role --host --rank --run --no-samples -o --output --color' ;;
    compare) options='--run-a --run-b --fail-over --json --format -o --output --color' ;;
    top) options='-i --interval --once --workers --sort --filter --color' ;;
    where) options='--json --all --color' ;;
    export) options='--samples --gpu --run -o --output' ;;
    run) options='-m --top --functions --project --html --lprof --json' ;;
    config) options='--cflags --libs --includedir --libdir --pkgconfigdir --cmakedir --version' ;;
    esac
    options+=' -h --help'
    case $1:$2 in
    *:--format) value='text json' ;;
    *:--color) value='auto always never' ;;
    *:--samples) value='csv jsonl' ;;
    *:--sort) value='share self wait calls each name rss for pid rank host role state' ;;
    *:-o | *:--output | run:--html | run:--lprof | run:--json) value=FILE ;;
    run:--project) value=DIR ;;
    report:--role | report:--host | report:--rank | report:--run | export:--run | compare:--run-[ab]) value=TEXT ;;
    compare:--fail-over | top:-i | top:--interval | top:--filter | run:-m | run:--top | run:--functions) value=TEXT ;;
    *) value= ;;
    esac
}

# Whether a program stands before the cursor; what follows is that program's.
_lineprofiler_has_program() {
    local i options value
    for ((i = 2; i < COMP_CWORD; i++)); do
        _lineprofiler_options run "${COMP_WORDS[i]}"
        [[ ${COMP_WORDS[i]} == -m || ${COMP_WORDS[i]} != [-=]* ]] && return 0
        [[ -z $value ]] || ((i++))
        [[ ${COMP_WORDS[i]} != = ]] || ((i++))
    done
    return 1
}

_lineprofiler() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options value
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W 'report compare top where export run config --version -h --help' -- "$word")
        return
    fi
    # "--format=json" comes as three words.
    [[ $word != = ]] || word=
    [[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}
    _lineprofiler_options "$command" "$before"
    if [[ $command == run && $before != -m ]] && _lineprofiler_has_program; then
        value=FILE
    fi
    case $value in
    TEXT) ;;
    FILE) compopt -o default ;;
    DIR) compopt -o dirnames ;;
    '')
        case $command:$word in
        *:-*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
        run:*) compopt -o default ;;
        config:*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
        *) compopt -o dirnames ;;
        esac
        ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$value" -- "$word") ;;
    esac
}

complete -F _lineprofiler lineprofiler
