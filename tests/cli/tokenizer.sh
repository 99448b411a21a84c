#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Small tokenizers, trained for this test; the ids are those of the libraries tokenizers (.json) and
# sentencepiece (.model). Then what a user can get wrong.
. "$(dirname "$0")/lib.sh"
files=$SOURCE/tests/fuzz/corpus/tokenizer
text=$'Hello world, it\'s 2023年 e\xcc\x81'

ids() { # FILE IDS...
    expect "encode with $1" 0 "$ASSAY" tokenizer encode "$files/$1" "$text"
    [ "$(cat "$TMP/out")" = "$2" ] || { echo "FAILED $1: ids $(cat "$TMP/out"), wanted $2"; FAILED=1; }
}
ids byte_level.json "271 269 12 295 272 296 284 221 128 103"
ids wordpiece.json "51 50 4 57 3 20 67 24 11"
ids unigram.json "1 13 3 2 2 9 14 10 28 19 20 6 1 12 24 12 22 21 1 3 0"
ids bpe.model "17 18 79 33 83 78 36 89 66 67 0"
ids unigram.model "3 15 5 4 4 11 17 12 18 28 24 7 3 14 25 14 26 30 3 5 0"

expect "decode gives the text back, in normal form" 0 "$ASSAY" tokenizer decode "$files/byte_level.json" \
    271 269 12 295 272 296 284 221 128 103
[ "$(cat "$TMP/out")" = $'Hello world, it\'s 2023年 \xc3\xa9' ] || { echo "FAILED decode: $(cat "$TMP/out")"; FAILED=1; }
expect "show" 0 "$ASSAY" tokenizer show "$files/byte_level.json"
says "show names the way" out "NFC, byte-level gpt2, BPE"
expect "json" 0 "$ASSAY" tokenizer encode --json "$files/bpe.model" Hello
says "json has a list" out '"ids": ['

expect "no such action" 64 "$ASSAY" tokenizer shw
expect "no file" 64 "$ASSAY" tokenizer encode
expect "file missing" 2 "$ASSAY" tokenizer show "$TMP/nothing.json"
expect "an id that does not exist" 64 "$ASSAY" tokenizer decode "$files/bpe.model" 4000000
says "the last id is named" err "its ids end at"
head -c 2000 "$files/byte_level.json" >"$TMP/cut.json"
expect "cut file" 1 "$ASSAY" tokenizer show "$TMP/cut.json"
python3 - "$files" "$TMP" <<'PY'
import sys
files, top = sys.argv[1:]
raw, at = open(f"{files}/bpe.model", "rb").read(), 0
while raw[at] == 0x0A:  # a piece of less than 128 bytes
    at += 2 + raw[at + 1]
open(f"{top}/cut.model", "wb").write(raw[:at])
lines = open(f"{files}/ranks.tiktoken").read().splitlines(True)
open(f"{top}/hole.tiktoken", "w").write("".join(lines[:256] + lines[257:]))
open(f"{top}/qwen.tiktoken", "w").write("".join(lines))
PY
expect "a SentencePiece file cut behind a piece" 1 "$ASSAY" tokenizer show "$TMP/cut.model"
says "what is missing is named" err "there is no trainer_spec"
expect "ranks with a hole" 1 "$ASSAY" tokenizer show --pattern cl100k_base "$TMP/hole.tiktoken"
says "the hole is named" err "no line with rank 256"
expect "fewer ranks than the encoding has" 1 "$ASSAY" tokenizer show "$TMP/qwen.tiktoken"
says "their number is named" err "qwen has 151643"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' >"$TMP/tokenizer.json"
expect "git-LFS pointer" 1 "$ASSAY" tokenizer show "$TMP/tokenizer.json"
says "it is named" err "git-LFS pointer"
expect "tiktoken without an encoding" 2 "$ASSAY" tokenizer show "$files/ranks.tiktoken"
says "what to give" err "--pattern"
expect "tiktoken with one" 0 "$ASSAY" tokenizer encode --pattern cl100k_base "$files/ranks.tiktoken" Hello
finish
