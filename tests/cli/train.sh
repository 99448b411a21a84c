#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay train on a tiny model: it learns, resumes with the same bytes in every precision, changes nothing at rate 0,
# and names what a user got wrong.
. "$(dirname "$0")/lib.sh"
. "$SOURCE/tests/train/model.sh"
make_model "$TMP/model"
make_text "$TMP/data.txt"
printf '{"input_ids": [1, 2, 3]}\n{"input_ids": [1, 2, 300]}\n' >"$TMP/beyond.jsonl"
printf '{"input_ids": [1, 2, 3], "labels": [-100, -100, -100]}\n' >"$TMP/ignored.jsonl"
: >"$TMP/empty.jsonl"
common=(train "$TMP/model" --random --data "$TMP/data.txt" --length 32 --batch 2 --threads 2)

# JSON of the last command: value of the only row's key.
value() { sed -n "s/^ *\"$1\": \(.*[^,]\),*\$/\1/p" "$TMP/out" | head -n 1; }

expect "learns" 0 "$ASSAY" "${common[@]}" --steps 60 --lr 1e-2 --eval-share 0.1 --json --quiet
awk -v a="$(value first_loss)" -v b="$(value last_loss)" -v e="$(value eval_loss)" \
    'BEGIN {exit !(a > 5.4 && a < 6 && b < 3.7 && e < 3.7)}' ||
    { echo "FAILED learns: $(value first_loss) to $(value last_loss), evaluation $(value eval_loss)"; FAILED=1; }

# Parameters and optimizer take what was planned, to the byte; the rest about that.
sed -n 's/.*"\(planned\|measured\)_bytes": \([0-9]*\).*/\2/p' "$TMP/out" | tail -n 12 | paste - - | awk '
    { n++; if (n <= 4 && $1 != $2) bad = 1; if (!($2 > 0 && $1 < 4 * $2 && $2 < 4 * $1)) bad = 1 }
    END { exit !(n == 6 && !bad) }' || { echo "FAILED: planned and measured memory"; FAILED=1; }

# An update is that of all its labels, in one batch or in four; recomputing changes no bit.
split=("${common[@]}" --precision f64 --no-shuffle --steps 3 --lr 1e-3 --quiet)
expect "one batch" 0 "${ASSAY}" "${split[@]/#2/4}" --save "$TMP/one"
expect "four micro-batches" 0 "$ASSAY" "${split[@]/#2/1}" --accumulate 4 --save "$TMP/four"
expect "recomputed" 0 "$ASSAY" "${split[@]/#2/4}" --recompute --save "$TMP/again"
figures() { sed -n 's/.*"loss": \([^,]*\),.*"grad_norm": \([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }
paste -d' ' <(figures "$TMP/one") <(figures "$TMP/four") <(figures "$TMP/again") | awk '
    { n++; if (!(($1 - $3)^2 <= 1e-24 * $1^2 && ($2 - $4)^2 <= 1e-24 * $2^2 && $1 == $5 && $2 == $6)) bad = 1 }
    END { exit !(n == 3 && !bad) }' || { echo "FAILED: accumulated or recomputed updates differ"; FAILED=1; }
cmp "$TMP/one/checkpoint-3/model.safetensors" "$TMP/again/checkpoint-3/model.safetensors" || FAILED=1

# SIGTERM: the update is finished, a checkpoint written, and that is no success.
"$ASSAY" "${common[@]}" --steps 1000000 --save "$TMP/stopped" --eval-share 0.1 --quiet >"$TMP/out" 2>"$TMP/err" &
pid=$!
for _ in $(seq 100); do [ -s "$TMP/stopped/metrics.jsonl" ] && break; sleep 0.1; done
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
[ "$status" = 2 ] || { echo "FAILED: exit $status after SIGTERM"; FAILED=1; }
says "stopped" out "stopped after"
compgen -G "$TMP/stopped/checkpoint-*" >/dev/null || { echo "FAILED: no checkpoint after SIGTERM"; FAILED=1; }
grep -q '"activation_sparsity": 0\.' "$TMP/stopped/metrics.jsonl" || { echo "FAILED: no sparsity"; FAILED=1; }
grep -Eq '"attention_entropy_by_layer": \{"0": [0-9.]+, "1": [0-9.]+\}' "$TMP/stopped/metrics.jsonl" || { echo "FAILED: no entropy"; FAILED=1; }

# NaN and infinity: stopped with the tensor's name, weights untouched, exit 1.
expect "not finite" 1 "$ASSAY" "${common[@]}" --steps 30 --lr 1e6 --schedule constant --clip 0
says "not finite" err "is not finite"

# Same bytes after a stop in the middle; LoRA and pure bfloat16 too.
resumes() { # NAME FILE OPTIONS...
    local name=$1 file=$2
    shift 2
    expect "$name whole" 0 "$ASSAY" "${common[@]}" --steps 8 --lr 1e-3 --save-every 4 --save "$TMP/$name.a" "$@"
    expect "$name part" 0 "$ASSAY" "${common[@]}" --steps 8 --lr 1e-3 --save-every 4 --save "$TMP/$name.b" "$@"
    rm -r "$TMP/$name.b/checkpoint-8" # what a run killed after update 7 leaves
    expect "$name again" 0 "$ASSAY" "${common[@]}" --steps 8 --lr 1e-3 --save-every 4 --save "$TMP/$name.b" --resume "$@"
    says "$name goes on" err "goes on from $TMP/$name.b/checkpoint-4"
    cmp "$TMP/$name.a/checkpoint-8/$file" "$TMP/$name.b/checkpoint-8/$file" || FAILED=1
    cmp "$TMP/$name.a/checkpoint-8/optimizer.safetensors" "$TMP/$name.b/checkpoint-8/optimizer.safetensors" || FAILED=1
    [ "$(wc -l <"$TMP/$name.b/metrics.jsonl")" = 8 ] || { echo "FAILED $name: not 8 lines of metrics"; FAILED=1; }
}
resumes f32 model.safetensors --accumulate 2 --zclip
resumes f64 model.safetensors --precision f64 --pack
resumes bf16 model.safetensors --precision bf16
resumes pure model.safetensors --precision bf16 --pure
resumes lora adapter_model.safetensors --lora r=4,alpha=8,targets=q_proj+v_proj

# Own products have the same bits on any number of threads; who computes them is said when it changes.
resumes own model.safetensors --blas own
for threads in 1 3; do
    rm -r "$TMP/own.b/checkpoint-8"
    expect "$threads threads" 0 "$ASSAY" "${common[@]:0:${#common[@]}-1}" $threads --steps 8 --lr 1e-3 --save-every 4 \
        --save "$TMP/own.b" --resume --blas own
    if grep -q "bit for bit" "$TMP/err"; then echo "FAILED: a word about bits that are the same"; FAILED=1; fi
    cmp "$TMP/own.a/checkpoint-8/model.safetensors" "$TMP/own.b/checkpoint-8/model.safetensors" || FAILED=1
done
rm -r "$TMP/own.b/checkpoint-8"
expect "other products" 0 "$ASSAY" "${common[@]}" --steps 8 --lr 1e-3 --save-every 4 --save "$TMP/own.b" --resume --reference
says "other products" err "are by plain loops on"
says "other products" err "not bit for bit"
says_file() { grep -qF -- "$2" "$1" || { echo "FAILED: '$2' is not in $1"; FAILED=1; }; }
says_file "$TMP/lora.a/checkpoint-8/adapter_config.json" '"r": 4'
grep -q '"stagnated_share": 0[,}]' "$TMP/f64.a/metrics.jsonl" || { echo "FAILED: float64 stagnates"; FAILED=1; }
grep -q '"stagnated_share": 0\.[0-9]' "$TMP/pure.a/metrics.jsonl" || { echo "FAILED: pure bfloat16 does not stagnate"; FAILED=1; }

expect "rate zero" 0 "$ASSAY" "${common[@]}" --steps 1 --lr 0 --save "$TMP/zero1"
expect "rate zero, longer" 0 "$ASSAY" "${common[@]}" --steps 5 --lr 0 --weight-decay 0.1 --save "$TMP/zero5"
cmp "$TMP/zero1/checkpoint-1/model.safetensors" "$TMP/zero5/checkpoint-5/model.safetensors" || FAILED=1
says_file "$TMP/zero5/metrics.jsonl" '"changed_share": 0,'

# What was written can be read: trained on, looked at.
expect "generates" 0 "$ASSAY" train "$TMP/f32.a/checkpoint-8" --generate "The quick" --tokens 5
says "generates" out "The quick"
expect "the same with the temperature's seed" 0 "$ASSAY" train "$TMP/f32.a/checkpoint-8" --generate "The" --tokens 5 --temperature 1 --seed 3
cp "$TMP/out" "$TMP/first"
expect "again" 0 "$ASSAY" train "$TMP/f32.a/checkpoint-8" --generate "The" --tokens 5 --temperature 1 --seed 3
cmp "$TMP/first" "$TMP/out" || FAILED=1

# Before anything is started; a small model of the family.
expect "plan" 0 "$ASSAY" train "$TMP/model" --plan --batch 4
says "plan" out "activations"
expect "plan of what cannot be" 1 "$ASSAY" train "$TMP/model" --plan --batch 1000000 --length 16000000
says "plan of what cannot be" out "it does not fit"
expect "shrink" 0 "$ASSAY" train "$TMP/model" --shrink "$TMP/small" --params 20k
expect "what it wrote verifies" 0 "$ASSAY" checkpoint verify "$TMP/small"
expect "and trains" 0 "$ASSAY" train "$TMP/small" --data "$TMP/data.txt" --steps 1 --length 32
expect "shrink to something there" 64 "$ASSAY" train "$TMP/model" --shrink "$TMP/small" --params 20k
expect "shrink below the vocabulary" 64 "$ASSAY" train "$TMP/model" --shrink "$TMP/s" --params 2k
says "shrink below the vocabulary" err "the smallest model"
expect "shrink to nothing" 64 "$ASSAY" train "$TMP/model" --shrink "$TMP/s" --params none

# A GGUF file in the folder's place, and the folder that it becomes: the same numbers.
gguf=$SOURCE/tests/fuzz/corpus/gguf/model_llama
expect "convert" 0 "$ASSAY" train "$gguf" --convert "$TMP/converted"
expect "what it wrote verifies" 0 "$ASSAY" checkpoint verify "$TMP/converted"
expect "a GGUF file trains" 0 "$ASSAY" train "$gguf" --data "$TMP/data.txt" --steps 2 --length 32 --json --quiet --lora r=2
of_file=$(value last_loss)
expect "the folder trains" 0 "$ASSAY" train "$TMP/converted" --data "$TMP/data.txt" --steps 2 --length 32 --json --quiet --lora r=2
[ -n "$of_file" ] && [ "$of_file" = "$(value last_loss)" ] || { echo "FAILED: $of_file of the file, $(value last_loss)"; FAILED=1; }
expect "convert to something there" 64 "$ASSAY" train "$gguf" --convert "$TMP/converted"
expect "convert with an adapter" 64 "$ASSAY" train "$gguf" --convert "$TMP/c" --lora r=2
expect "a model of another kind" 2 "$ASSAY" train "$TMP/data.txt" --plan
says "a model of another kind" err "is no model folder and no GGUF file"

# What a user gets wrong.
expect "no model" 64 "$ASSAY" train
says "no model" err "name the model's folder"
expect "no data" 64 "$ASSAY" train "$TMP/model" --random
says "no data" err "--data FILE"
expect "empty data" 2 "$ASSAY" train "$TMP/model" --random --data "$TMP/empty.jsonl"
says "empty data" err "empty.jsonl:1: the file is empty"
expect "all ignored" 2 "$ASSAY" train "$TMP/model" --random --data "$TMP/ignored.jsonl"
says "all ignored" err "ignored.jsonl:1: no label is left"
: >"$TMP/empty.txt"
expect "empty text" 2 "$ASSAY" train "$TMP/model" --random --data "$TMP/empty.txt"
says "empty text" err "empty.txt:1: the file is empty"
cp -r "$TMP/model" "$TMP/shards"
echo '{"weight_map": {"lm_head.weight": "model-00001-of-00001.safetensors"}}' >"$TMP/shards/model.safetensors.index.json"
expect "a shard is missing" 2 "$ASSAY" train "$TMP/shards" --data "$TMP/data.txt"
says "a shard is missing" err "model-00001-of-00001.safetensors'"
says "a shard is missing" err "model.safetensors.index.json names it"
expect "another tokenizer" 2 "$ASSAY" train "$TMP/model" --random --data "$TMP/beyond.jsonl"
says "another tokenizer" err "beyond.jsonl:2: id 300 is beyond the model's vocabulary of 300"
expect "a file that is not there" 2 "$ASSAY" train "$TMP/model" --random --data "$TMP/nothing.jsonl"
expect "no weights" 2 "$ASSAY" train "$TMP/model" --data "$TMP/data.txt"
expect "a folder that is none" 2 "$ASSAY" train "$TMP/nothing" --data "$TMP/data.txt"
expect "there already" 64 "$ASSAY" "${common[@]}" --steps 8 --save "$TMP/f32.a"
says "there already" err "--resume"
expect "other settings" 64 "$ASSAY" "${common[@]}" --steps 8 --lr 2e-3 --save-every 4 --accumulate 2 --zclip --save "$TMP/f32.a" --resume
says "other settings" err "--lr was 0.001"
expect "resume without a folder" 64 "$ASSAY" "${common[@]}" --resume
expect "a word for a number" 64 "$ASSAY" "${common[@]}" --steps many
says "a word for a number" err "--steps takes a whole number"
expect "lora" 64 "$ASSAY" "${common[@]}" --lora r=0
expect "lora that names nothing" 64 "$ASSAY" "${common[@]}" --lora targets=nothing
expect "betas" 64 "$ASSAY" "${common[@]}" --betas 0.9
expect "warm-up too long" 64 "$ASSAY" "${common[@]}" --steps 5 --warmup 5
printf 'x' | dd of="$TMP/f32.a/checkpoint-8/model.safetensors" bs=1 seek=20000 conv=notrunc 2>/dev/null
expect "a damaged checkpoint" 2 "$ASSAY" "${common[@]}" --steps 8 --lr 1e-3 --save-every 4 --accumulate 2 --zclip --save "$TMP/f32.a" --resume
says "a damaged checkpoint" err "cannot be resumed from"
: >"$TMP/file"
expect "a folder that cannot be made" 2 "$ASSAY" "${common[@]}" --steps 1 --save "$TMP/file/x"
finish
