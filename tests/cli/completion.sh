#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The completion of a shell, asked as the shell asks it. Exit 77 where the shell is not installed.
#   completion.sh BINARY bash|zsh|fish|man
set -u
binary=$(realpath "$1")
shell=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/data" && ln -s "$binary" "$work/bin/stoker" && touch "$work/data/file.yaml"
PATH=$work/bin:$PATH
export LC_ALL=C.UTF-8
cd "$work" || exit 1
failed=0

check() { # WHAT GOT EXPECTED
    [ "$2" = "$3" ] && return
    printf '%s: %s\n  instead of: %s\n' "$1" "$2" "$3"
    failed=1
}

test_bash() {
    stoker completion bash > stoker.bash
    # shellcheck disable=SC1091
    source ./stoker.bash
    complete -p stoker > /dev/null || failed=1
    ask() { # EXPECTED WORD...: the words of a line, as bash parts it
        local expected=$1
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        COMPREPLY=()
        _stoker stoker "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        check "bash: $*" "${COMPREPLY[*]}" "$expected"
    }
    ask 'train' stoker tr
    ask 'cat chunks completion convert' stoker c
    ask 'bench' stoker help ben
    ask '--shuffle --shuffle-buffer' stoker bench --shuf
    ask '--no-drop-last' stoker bench digits: --no-drop-l
    ask '--loader.num-workers' stoker bench --loader.num
    ask 'false true block' stoker bench --shuffle ''
    ask 'block' stoker bench --shuffle = bl
    ask 'false true block' stoker bench --shuffle =
    ask 'block' stoker bench --loader.shuffle bl
    ask 'adam adamw' stoker train --optimizer.name ad
    ask 'digits:' stoker info dig
    ask 'data/file.yaml' stoker train data/f
    ask 'data/file.yaml' stoker info mnist : data/f
    ask 'last' stoker train --ckpt-path la
    ask 'data' stoker train -o da
    ask '' stoker bench --batch-size ''
    ask 'bash zsh fish' stoker completion ''
    ask '' stoker nope --shuf
    # Every command, and every option of it.
    stoker --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | while read -r command; do
        stoker "$command" --help | grep -oE '^  --[^ ]+' | while read -r flag; do
            flag=${flag/\[no-\]/}
            COMP_WORDS=(stoker "$command" "$flag") COMP_CWORD=2
            _stoker stoker "$flag" "$command"
            # One that another section has too is completed with its own.
            [[ " ${COMPREPLY[*]} " == *" $flag "* ]] || grep -q -- "--[a-z-]*\.${flag#--}[ ']" stoker.bash ||
                echo "$command $flag"
        done
    done > missing
    check 'bash: options that are not completed' "$(cat missing)" ''
}

test_fish() {
    stoker completion fish > stoker.fish
    ask() { # EXPECTED LINE
        check "fish: $2" "$(fish --no-config -c "source stoker.fish; complete -C'$2'" | cut -f1 | tr '\n' ' ')" "$1"
    }
    ask 'train ' 'stoker tr'
    ask '--shuffle --shuffle-buffer ' 'stoker bench --shuf'
    ask 'block ' 'stoker bench --shuffle bl'
    ask 'digits: ' 'stoker info dig'
    ask 'data/file.yaml ' 'stoker train data/f'
    ask 'fish ' 'stoker completion f'
}

# The function is called as _arguments calls it, with a terminal of its own.
test_zsh() {
    stoker completion zsh > _stoker
    zsh -f -n _stoker || failed=1
    cat > ask.zsh <<'END'
zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell "PS1= ; fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D; unsetopt zle_bracketed_paste 2>/dev/null; LISTMAX=0; print READY-\$((1+1))"
zpty -r -m shell line '*READY-2*'
zpty -w -n shell $1$'\t'
zpty -w -n shell $'\C-a print -r -- "G""OT<\C-e>"\C-j'
zpty -r -m shell line '*GOT<*>*'
print -r -- ${${line##*GOT<}%%>*}
END
    ask() { # EXPECTED LINE
        check "zsh: $2" "$(timeout 60 zsh -f ask.zsh "$2" | tr -d '\r')" "$1"
    }
    ask 'stoker train' 'stoker tra'
    ask 'stoker bench --drop-last' 'stoker bench --drop-l'
    ask 'stoker bench --shuffle block' 'stoker bench --shuffle bl'
}

# Manual pages are made without a complaint of groff, and name every option.
test_man() {
    for command in '' $(stoker --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
        # shellcheck disable=SC2086
        stoker help --man $command > page.1
        check "man $command: warnings" "$(groff -man -ww -Tutf8 -Kutf8 -rLL=160n page.1 2>&1 > page.txt)" ''
        [ -n "$command" ] || continue
        sed 's/\x1b\[[0-9;]*m//g; s/.\x08//g' page.txt > plain.txt
        stoker "$command" --help | grep -oE '^  --[^ ]+' | while read -r flag; do
            grep -qF -- "$flag" plain.txt || echo "$flag"
        done > missing
        check "man $command: options that it lacks" "$(cat missing)" ''
        check "man $command: sections" "$(grep -cE '^(NAME|SYNOPSIS|DESCRIPTION|OPTIONS|EXIT STATUS)$' plain.txt)" 5
    done
}

tool=$shell
[ "$shell" = man ] && tool=groff
command -v "$tool" > /dev/null || {
    echo "$tool is not installed"
    exit 77
}
"test_$shell"
exit $failed
