#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples of every command's --help do what they say. The data they name is made here; models train on little, and a
# bench measures a few batches.
#   examples.sh BINARY SOURCE
set -u
binary=$(realpath "$1")
source=$(realpath "$2")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/examples" "$work/DIR" "$work/DIR/class" "$work/DIR/other" && cd "$work" || exit 1
PATH=$work/bin:$PATH
export PATH TERM=dumb

cat > bin/stoker << END
#!/bin/sh
case \$1 in
    bench) set -- "\$@" --min-seconds 0 --min-batches 5 --warmup 1 --max-seconds 5 ;;
    top) case "\$*" in *--once*) ;; *) set -- "\$@" --once ;; esac ;;
esac
exec '$binary' "\$@"
END
chmod +x bin/stoker

sed -e 's/otherwise: .*/otherwise: "digits:?size=1000"/' -e 's/val_split: .*/val_split: 200/' -e 's/max_epochs: .*/max_epochs: 2/' \
    "$source/examples/mnist.yaml" > examples/mnist.yaml
mkdir -p data.zarr/t2m/c/0/0 benchmark_logs
cat > data.zarr/t2m/zarr.json << 'END'
{"zarr_format": 3, "node_type": "array", "shape": [8, 128, 128], "data_type": "float32", "fill_value": 1.5,
 "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 64, 64]}},
 "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
END
head -c 65536 /dev/zero > data.zarr/t2m/c/0/0/0
head -c 4096 /dev/zero > tokens.bin
for class in class other; do cp "$(find "$source/tests/golden/images" -name '*.jpg' | sort | head -1)" DIR/$class/1.jpg; done
printf 'age,name\n41,a\n22,b\n' > people.csv
stoker convert csv:people.csv people.parquet -q > log.out 2>&1 || exit 1
for log in benchmark_logs/mnist.jsonl before.jsonl after.jsonl run.jsonl run.log; do
    stoker bench digits: --train-step-time 0 --log $log -q > log.out || exit 1
done
stoker train --dataset 'digits:?size=64' --test 'digits:?split=test&size=64' --transforms to_float --layers 'flatten, linear(10)' \
    --max-steps 1 --default-root-dir run -q > log.out 2>&1 && cp run/*/*/*/*.safetensors last.safetensors || exit 1

# A run to look on at, which serves its page where that is built in.
dashboard=()
! stoker --version | grep -q '^libmicrohttpd: built in' || dashboard=(--dashboard 0)
"$binary" bench digits: --train-step-time 0.01 --min-seconds 600 --max-seconds 600 -q "${dashboard[@]}" > bench.out 2>&1 &
running=$!
trap 'kill $running 2> log.out; rm -rf "$work"' EXIT
for _ in $(seq 100); do
    stoker top $running --once > log.out 2>&1 && break
    sleep 0.1
done

page=$(sed -n 's/.*live page: //p' bench.out)
[ ${#dashboard[@]} = 0 ] || [ -n "$page" ] || { echo "with -q the page is not named"; exit 1; }

failed=0 ran=0
for command in train $(stoker --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    stoker "$command" --help | sed -e '1,/^Examples:/d' | grep '^  stoker ' > lines
    [ -s lines ] || { echo "$command has no examples"; failed=1; }
    while IFS= read -r line; do
        line=${line/top 4711/top $running}
        [[ $line != *top\ http://* ]] || line="stoker top $page"
        (eval "$line") > out.txt 2>&1 < /dev/null || { printf 'failed: %s\n' "$line"; tail -3 out.txt; failed=1; }
        ran=$((ran + 1))
    done < lines
done
# The first lines of the README, which ask the store.
sed -n '/^    stoker convert digits: mnist/,/^$/p' "$source/README.md" > first.sh
grep -q 'stoker bench' first.sh || failed=1
# The bench is one setting long here, as a table would be read otherwise.
sed -i 's/--num-workers [0-9a-z,]*/--num-workers 0 --format csv/' first.sh
sh -e first.sh > first.csv || failed=1
awk -F, 'at && $at + 0 > 0 { asked = 1 }
         $1 == "label" { for (i = 1; i <= NF; i++) if ($i == "bytes_read") at = i } END { exit !asked }' first.csv || {
    echo 'the first bench of the README does not ask its store'
    failed=1
}
# The regression learns from files of numbers, and runs without them.
val_loss() {
    stoker train regression.yaml --default-root-dir numbers --format json -q "$@" 2> log.out |
        sed -n 's/.*"val_loss": \([0-9.e+-]*\).*/\1/p'
}
sed -e 's/size=20000/size=500/' "$source/examples/regression.yaml" > regression.yaml
cp "$source/tests/golden/train/regression/x.npy" x.npy
cp "$source/tests/golden/train/regression/float32_1.npy" y.npy
first=$(val_loss --max-epochs 1)
awk "BEGIN { exit !(${first:-0} > 0 && $(val_loss --max-epochs 60) < 0.7 * ${first:-0}) }" || {
    echo "examples/regression.yaml does not learn: $first"
    cat log.out
    failed=1
}
rm x.npy y.npy
[ -n "$(val_loss --max-epochs 1)" ] || { echo 'examples/regression.yaml does not run without its files'; cat log.out; failed=1; }
echo "$ran examples"
[ $ran -gt 30 ] || failed=1
exit $failed
