#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs into a folder, builds a plug-in outside of the tree against that alone, and runs it in `stoker bench` and
# `stoker train`: samples and metrics are those of the built-in twins.
#   test_plugin.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
source=$1
build=$2

work=$(mktemp -d "${TMPDIR:-/tmp}/stoker plugin XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$1" >&2
    exit 1
}
cmake --install "$build" --prefix "$work/installed" >/dev/null
stoker=$work/installed/bin/stoker
PKG_CONFIG_PATH=$(dirname "$(find "$work/installed" -name stoker.pc)")
export PKG_CONFIG_PATH
eval "flags=($(pkg-config --cflags stoker))"
eval "libs=($(pkg-config --libs stoker))"
cp "$source"/tests/packaging/plugin/*.c "$work"
cd "$work"
"${CC:-cc}" -std=c99 -Wall -Wextra -Wno-unused-parameter -Werror -shared -fPIC outsider.c outsider_arrays.c "${flags[@]}" -o outsider.so

# All that it brings is listed with the built-in ones.
"$stoker" info --plugin ./outsider.so >list.txt
for name in blobs mirror tally plain dense tiles lines echo; do
    grep -qE "^  $name:? .*\(plug-in outsider\)$" list.txt || fail "info does not list $name as the plug-in's"
done
[ "$(grep -c '(plug-in' list.txt)" = 8 ] || fail "info marks others: $(grep '(plug-in' list.txt)"
"$stoker" info --plugin ./outsider.so --format json | python3 -c '
import json, sys
lists = json.load(sys.stdin)
own = sorted(x["name"] for kind in lists.values() for x in kind if x["plugin"] == "outsider")
assert own == sorted("blobs mirror tally plain dense tiles lines echo".split()), own
assert len(lists) == 9 and all(x["plugin"] in (None, "outsider") for kind in lists.values() for x in kind)'
"$stoker" info --plugin ./outsider.so --format csv >list.csv
grep -q '^store,echo,,,.*,outsider$' list.csv || fail "the csv names no plug-in"

# The fused transform gives the samples of its twin; its apply() would give others.
hashes() {
    "$stoker" bench "$@" --plugin ./outsider.so --num-epochs 1 --num-batches 4 --train-step-time 0 --num-workers 0 \
        --shuffle true --hash - --quiet -o /dev/null 2>errors.txt || { cat errors.txt >&2; fail "bench $1 failed"; }
}
hashes blobs: --transforms 'mirror, normalize(0.5, 0.5)' >own.txt
hashes blobs: --transforms 'horizontal_flip(1), normalize(0.5, 0.5)' >twin.txt
hashes blobs: --transforms 'normalize(0.5, 0.5)' >plain.txt
[ -s own.txt ] || fail "no hashes"
cmp own.txt twin.txt || fail "mirror gives other samples than its twin"
! cmp -s own.txt plain.txt || fail "the hashes do not see what mirror does"

# Through the store of the plug-in comes what is in the file.
python3 - <<'PYTHON'
data = bytes(range(256)) * 8
head = "{'descr': '|u1', 'fortran_order': False, 'shape': (64, 32), }"
head += " " * (63 - (10 + len(head)) % 64) + "\n"
with open("data.npy", "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + data)
PYTHON
hashes "npy:echo://$work/data.npy" --batch-size 16 >own.txt
hashes "npy:$work/data.npy" --batch-size 16 >twin.txt
[ -s own.txt ] || fail "no hashes of the npy file"
cmp own.txt twin.txt || fail "the store gives other bytes than the file has"

# Its options come by the URL, or by name for all URLs that begin alike; a secret by the environment alone.
hashes "npy:echo://$work/data.npy?shift=1" --batch-size 16 >shifted.txt
! cmp -s shifted.txt twin.txt || fail "the option of the store does nothing"
hashes "npy:echo://$work/data.npy" --batch-size 16 --stores "echo://${work// /%20}(shift=3), echo(shift=1)" >own.txt
cmp own.txt shifted.txt || fail "the option by name is not that of the URL"
hashes "npy:echo://$work/data.npy?shift=0" --batch-size 16 --stores 'echo(shift=1)' >own.txt
cmp own.txt twin.txt || fail "the query does not prevail"
printf 'plugins: [outsider.so]\ncontext: {stores: "echo://guarded/(token=env:ECHO_TOKEN)"}\n' >guarded.yaml
ECHO_TOKEN=sesame hashes "npy:echo://guarded$work/data.npy" --batch-size 16 --config guarded.yaml --allow-plugins >own.txt
cmp own.txt twin.txt || fail "the token opens nothing"
refused() { # words of the error, then arguments
    words=$1
    shift
    if ECHO_TOKEN=wrong-hush "$stoker" bench "$@" --plugin ./outsider.so --num-epochs 1 --train-step-time 0 \
        --log log.jsonl -o report.json >out.txt 2>&1; then
        fail "not refused: $*"
    fi
    grep -q "$words" out.txt || fail "refused in other words than '$words': $(cat out.txt)"
    ! grep -q hush out.txt log.jsonl report.json 2>/dev/null || fail "a secret is repeated: $*"
    rm -f log.jsonl report.json
}
npy="npy:echo://$work/data.npy"
refused "did you mean 'shift'" "$npy" --stores 'echo(shfit=1)'
refused "did you mean 'shift'" "$npy?shfit=1"
refused "did you mean 'echo'" "npy:$work/data.npy" --stores 'ecoh(shift=1)'
refused "guard" "npy:echo://guarded$work/data.npy" --stores 'echo(token=env:ECHO_TOKEN)'
refused "env:NAME" "$npy" --stores 'echo(token=hush)'
refused "not set" "$npy" --stores 'echo(token=env:ECHO_NO_TOKEN)'
refused "user or a password" "npy:echo://me:hush@host/data.npy"
refused "user or a password" "echo://me:hu/sh@host/hush"
refused "user or a password" "nostore://hush@host/data"
refused "'X-Amz-Signature' in the query" "$npy?X-Amz-Signature=hush"
refused "no part of a URL\|in the query" "$npy?token=hush"

# A format of arrays: by the library's reads and by its own, it has the values of its twin, whatever asks for them.
python3 - <<'PYTHON'
import struct
height, width, side = 50, 37, 8
def tiles(plus):
    data = b"TILES1\0\0" + struct.pack("<qqq", height, width, side)
    for y in range(0, height, side):
        for x in range(0, width, side):
            for i in range(side):
                data += struct.pack(f"<{side}h", *((y + i) * width + x + k + plus for k in range(side)))
    return data
with open("grid.tiles", "wb") as out:
    out.write(tiles(0))
with open("two.tiles", "wb") as out: # the array that is wanted is the second one
    names, parts, at = ["a", "deep/b"], [tiles(1000), tiles(0)], 16 + 2 * 32
    out.write(b"TILES2\0\0" + struct.pack("<q", 2))
    for name, part in zip(names, parts):
        out.write(name.encode().ljust(24, b"\0") + struct.pack("<q", at))
        at += len(part)
    out.write(b"".join(parts))
head = "{'descr': '<i2', 'fortran_order': False, 'shape': (%d, %d), }" % (height, width)
head += " " * (63 - (10 + len(head)) % 64) + "\n"
with open("grid.npy", "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode())
    out.write(struct.pack(f"<{height * width}h", *range(height * width)))
PYTHON
"$stoker" cat grid.npy --dump sha256 --slice '3:50:2,1:' >twin.txt
windows() { # SPEC: the hashes of all windows
    "$stoker" bench "$1" --plugin ./outsider.so --num-epochs 1 --num-batches 6 --train-step-time 0 --num-workers 0 \
        --shuffle false --batch-size 8 --hash - --quiet -o /dev/null 2>errors.txt
    [ ! -s errors.txt ] || fail "windows of $1: $(cat errors.txt)"
}
windows "array:grid.npy?window=3x37&stride=1x37" >windows.txt
[ "$(wc -l <windows.txt)" = 48 ] || fail "there are not 48 windows: $(wc -l <windows.txt)"
for how in 'grid.tiles' 'grid.tiles?read=true' 'grid.tiles?format=tiles&read=true' 'two.tiles/deep/b' 'two.tiles/deep/b?read=true' \
    'slow+two.tiles/deep/b?latency=0'; do
    "$stoker" cat "$how" --plugin ./outsider.so --dump sha256 --slice '3:50:2,1:' >own.txt || fail "cat $how failed"
    cmp own.txt twin.txt || fail "$how has other values than its twin"
    mark='?'
    case $how in *\?*) mark='&' ;; esac
    windows "array:$how${mark}window=3x37&stride=1x37" >own.txt
    cmp own.txt windows.txt || fail "$how gives other windows than its twin"
    for prefix in array: ''; do
        "$stoker" info "$prefix$how" --plugin ./outsider.so >out.txt || fail "info $prefix$how: $(cat out.txt)"
        grep -q "^format: *tiles" out.txt || fail "info of $prefix$how does not name the format: $(cat out.txt)"
    done
    "$stoker" chunks "array:$how" --plugin ./outsider.so --window 4x9 >out.txt 2>&1 || fail "chunks $how: $(cat out.txt)"
done

# Other ways below a file are refused by name: an array that it does not hold, a format that holds one alone, a dataset.
for how in 'array:two.tiles/deep/c' 'array:grid.tiles/deep' 'array:grid.npy/deep' 'npy:grid.npy/deep' 'grid.npy/deep'; do
    ! "$stoker" info "$how" --plugin ./outsider.so >out.txt 2>&1 || fail "$how was opened: $(cat out.txt)"
    grep -q "grid.npy.*'deep'\|tiles.*'deep" out.txt || fail "$how is refused in other words: $(cat out.txt)"
done
# Statistics of two arrays in one file are two.
"$stoker" info two.tiles/a --stats all --plugin ./outsider.so >out.txt || fail "statistics of a: $(cat out.txt)"
grep -q "min[a-z:, ]* 1000" out.txt || fail "statistics of a: $(cat out.txt)"
"$stoker" info two.tiles/deep/b --stats all --plugin ./outsider.so >out.txt || fail "statistics of b: $(cat out.txt)"
"$stoker" info two.tiles/a --plugin ./outsider.so >out.txt || fail "kept statistics of a: $(cat out.txt)"
grep -q "min[a-z:, ]* 1000" out.txt || fail "statistics of a were lost: $(cat out.txt)"

# A converter: found by the ending of the target, and by its name, with an option of its own.
"$stoker" convert blobs: by.lines --plugin ./outsider.so >out.txt 2>&1 || fail "convert: $(cat out.txt)"
grep -q "512 samples" out.txt || fail "convert says: $(cat out.txt)"
[ "$(wc -l <by.lines)" = 512 ] && [ "$(sed -n 2p by.lines)" = "label 5" ] || fail "by.lines has $(head -n 2 by.lines)"
"$stoker" convert blobs: 'lines:by.txt?word=column' --plugin ./outsider.so >out.txt 2>&1 || fail "convert: $(cat out.txt)"
sed 's/label/column/' by.lines | cmp - by.txt || fail "the target's option is not heeded"
printf 'plugins: [outsider.so]\n' >listed.yaml
"$stoker" convert blobs: listed.lines --config listed.yaml --allow-plugins >out.txt 2>&1 || fail "convert: $(cat out.txt)"
cmp listed.lines by.lines
! "$stoker" convert blobs: 'lines:by.txt?wort=column' --plugin ./outsider.so >out.txt 2>&1 || fail "an option that there is not was taken"
grep -q "did you mean 'word'" out.txt || fail "convert says: $(cat out.txt)"

# Into the store of the plug-in go the files of a local conversion, of pictures with their journal.
python3 - <<'PYTHON'
import os, struct, zlib
def png(path, side, value):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes([value]) * side) * side
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
                  + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
for name in ("a", "b"):
    os.makedirs("pictures/" + name)
    for i in range(3):
        png(f"pictures/{name}/{i}.png", 8 + i, 40 * i)
PYTHON
to_store() { # source, target: done, and then found done
    "$stoker" convert "$1" here -q || fail "convert $1"
    for how in done resumed; do
        "$stoker" convert "$1" "$2" --plugin ./outsider.so -q >out.txt 2>&1 || fail "convert $1 to $2: $(cat out.txt)"
        diff -r here bucket/there || fail "$1 through the store differs, $how"
    done
    rm -r here bucket
}
to_store images:pictures "echo://$work/bucket/there"
to_store images:pictures "images:echo://$work/bucket/there?quality=90&shift=0"
to_store 'digits:?size=20' "idx:echo://$work/bucket/there"

# A training that a configuration describes, with metrics in the plug-in's logger; the same by the built-in csv.
cat >recipe.yaml <<'YAML'
plugins: [outsider.so]
data: {dataset: "blobs:", val_split: 64}
loader: {batch_size: 32, transforms: "mirror, normalize(0.5, 0.5)", num_workers: 0}
model: {layers: [flatten, linear(8)]}
trainer: {max_epochs: 2, seed_everything: 1, enable_progress_bar: false, enable_checkpointing: false}
callbacks: [tally]
loggers: [plain, csv]
YAML
mkdir -p run elsewhere
if "$stoker" train recipe.yaml --default-root-dir run >out.txt 2>&1; then
    fail "a plug-in of a configuration was loaded without --allow-plugins"
fi
grep -q "allow_plugins" out.txt || fail "it is not said how to allow it: $(cat out.txt)"
(cd elsewhere && "$stoker" train ../recipe.yaml --allow-plugins --default-root-dir ../run >../out.txt 2>&1) ||
    fail "train: $(cat out.txt)"
grep -q " tally 28$" run/plain.txt || fail "the callback did not count 28 batches: $(cat run/plain.txt)"
csv=$(find run -name metrics.csv)
python3 - "$csv" <<'PYTHON'
import csv, sys
rows = {(r["step"], k): float(v) for r in csv.DictReader(open(sys.argv[1])) for k, v in r.items() if v and k != "step"}
own = {(s, k): float(v) for s, k, v in (line.split() for line in open("run/plain.txt"))}
assert own and own == rows, (own, rows)
PYTHON

# Logs and checkpoints go to the store of the plug-in as they go to a folder.
mkdir away
sed -e 's/, enable_checkpointing: false//' -e 's/loggers: .*/loggers: [csv, tensorboard]/' recipe.yaml >away.yaml
for run in 0 1; do
    "$stoker" train away.yaml --allow-plugins --default-root-dir "echo://$work/away" >out.txt 2>&1 || fail "train away: $(cat out.txt)"
    folder=away/lightning_logs/version_$run
    [ -n "$(find "$folder" -name 'events.out.tfevents.*' -size +0)" ] || fail "no event file: $(find away)"
    [ -n "$(find "$folder/checkpoints" -type f -size +0)" ] || fail "no checkpoint: $(find away)"
    [ -s "$folder/hparams.yaml" ] || fail "no hyper-parameters: $(find away)"
    python3 - "$csv" "$folder/metrics.csv" <<'PYTHON'
import csv, sys
a, b = (list(csv.DictReader(open(p))) for p in sys.argv[1:])
assert len(a) == len(b) > 0 and [r["tally"] for r in a] == [r["tally"] for r in b], (a, b)
PYTHON
done

# A training goes on from the newest checkpoint of the store, and from one that is named by its URL.
found=$(cd away && find lightning_logs/version_1/checkpoints -name 'epoch*.safetensors' | sort | tail -1)
for from in last "echo://$work/away/$found"; do
    "$stoker" train away.yaml --allow-plugins --default-root-dir "echo://$work/away" --max-epochs 3 --ckpt-path "$from" \
        >out.txt 2>&1 || fail "train from $from: $(cat out.txt)"
    grep -q "checkpoint path at echo://.*/away/lightning_logs/version_" out.txt || fail "$from is not what it went on from: $(cat out.txt)"
done
if "$stoker" train away.yaml --allow-plugins --default-root-dir "echo://$work/away" --ckpt-path "echo:///none/x.ckpt" \
    >out.txt 2>&1; then
    fail "a checkpoint that is not there was gone on from"
fi

# Layers of the plug-in, one after another, learn what the built-in ones do.
for layer in dense linear; do
    sed -e "s/layers: .*/layers: [flatten, \"$layer(24)\", relu, \"$layer(8)\"]}/" -e 's/loggers: .*/loggers: [csv]/' recipe.yaml >"$layer.yaml"
    mkdir "$layer"
    "$stoker" train "$layer.yaml" --allow-plugins --default-root-dir "$layer" >out.txt 2>&1 || fail "train $layer: $(cat out.txt)"
done
python3 - "$(find dense -name metrics.csv)" "$(find linear -name metrics.csv)" <<'PYTHON'
import csv, sys
own, twin = ([{k: float(v) for k, v in r.items() if v} for r in csv.DictReader(open(p))] for p in sys.argv[1:])
assert len(own) == len(twin) > 0
for a, b in zip(own, twin):
    assert a.keys() == b.keys() and all(abs(a[k] - b[k]) <= 1e-3 * max(1, abs(b[k])) for k in a), (a, b)
PYTHON

# The plug-in that the documentation shows.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/docs/plugins.md" >acme.c
"${CC:-cc}" -std=c99 -Wall -Wextra -Wno-unused-parameter -Werror -shared -fPIC acme.c "${flags[@]}" -o acme.so
hashes ramp: --plugin ./acme.so >own.txt
[ -s own.txt ] || fail "no hashes of the documented plug-in"

# One that was linked with the library calls the one of the command all the same.
"${CC:-cc}" -std=c99 -shared -fPIC outsider.c outsider_arrays.c "${flags[@]}" "${libs[@]}" -Wl,-rpath,"$(dirname "$PKG_CONFIG_PATH")" \
    -o linked.so
"$stoker" info --plugin ./linked.so >out.txt 2>&1 || fail "a plug-in that names libstoker finds the command's: $(cat out.txt)"
echo "a store, a dataset, a transform, a layer, a callback, a logger, a format of arrays and a converter of a plug-in ran"
