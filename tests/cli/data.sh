#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# data: sound samples of each layout pass; each fault of a sample is named with its line.
. "$(dirname "$0")/lib.sh"
tokenizer=$SOURCE/tests/fuzz/corpus/tokenizer/byte_level.json
cd "$TMP"

sound() { # NAME FILE
    expect "$1" 0 "$ASSAY" data check --json "$2"
    says "$1" out '"findings": []'
}
flags() { # NAME ID LINE CONTENT: a file of that content
    printf '%b' "$4" >"$TMP/f.jsonl"
    expect "$1" "${5:-1}" "$ASSAY" data check --json "$TMP/f.jsonl"
    says "$1" out "\"finding\": \"$2\""
    says "$1" out "\"line\": $3"
}
M='{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}'

cat >messages.jsonl <<'E'
{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}

{"messages":[{"role":"user","content":"w"},{"role":"assistant","content":null,"tool_calls":[{"id":1}]},{"role":"tool","content":"t"},{"role":"tool","content":"t"},{"role":"assistant","content":"done"}],"tools":[]}
{"messages":[{"role":"user","content":"p"}],"chosen":{"role":"assistant","content":"good"},"rejected":{"role":"assistant","content":"bad"}}
[{"role":"user","content":"bare"},{"role":"assistant","content":"list"}]
E
cat >parts.jsonl <<'E'
{"messages":[{"role":"user","content":[{"type":"text","text":"q2"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]}]}
E
cat >sharegpt.json <<'E'
[
  {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], "system": "s", "tools": ""},
  {"conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "f"},
                     {"from": "observation", "value": "o"}, {"from": "gpt", "value": "a"}]},
  {"conversations": [{"from": "human", "value": "q2"}], "chosen": {"from": "gpt", "value": "a"}, "rejected": {"from": "gpt", "value": "b"}}
]
E
cat >alpaca.json <<'E'
[{"instruction": "i", "input": "", "output": "o", "system": "s", "history": [["q", "a"], ["q", "a"]]},
 {"instruction": "i", "input": null, "output": "other"}, {"instruction": "i", "input": "x", "chosen": "c", "rejected": "r"}]
E
printf '%s\n' '{"prompt":"p","completion":"c"}' '{"prompt":"p","chosen":"a","rejected":"b"}' >prompt.jsonl
printf '%s\n' '{"prompt":[{"role":"user","content":"u"}],"completion":[{"role":"assistant","content":"c"}]}' \
    '{"chosen":[{"role":"user","content":"u"},{"role":"assistant","content":"x"}],"rejected":[{"role":"user","content":"u"},{"role":"assistant","content":"y"}]}' >talk.jsonl
printf '%s\n' '{"text":"one <image> in text"}' '"two"' >text.jsonl
printf 'a line\nanother\n\n' >lines.txt
for f in messages.jsonl parts.jsonl sharegpt.json alpaca.json prompt.jsonl talk.jsonl text.jsonl lines.txt; do sound "sound $f" "$f"; done

flags "cut line" data-not-json 2 "$M\n{\"messages\":[{\n"
flags "bytes that are not UTF-8" data-not-utf8 1 '{"text":"a\xff\xfe"}\n'
flags "a number" data-layout 1 '7\n'
flags "an unknown layout" data-layout 2 "$M\n{\"foo\":1}\n"
flags "an empty object" data-layout 1 '{}\n'
flags "two layouts" data-mixed-layouts 2 "$M\n{\"text\":\"t\"}\n"
flags "no turns" data-empty-sample 1 '{"messages":[]}\n'
flags "messages are no list" data-missing-field 1 '{"messages":"x"}\n'
flags "no role" data-missing-field 1 '{"messages":[{"content":"q"},{"role":"assistant","content":"a"}]}\n'
flags "no content" data-missing-field 1 '{"messages":[{"role":"user"},{"role":"assistant","content":"a"}]}\n'
flags "no output" data-missing-field 3 '\n\n{"instruction":"i","input":""}\n'
flags "history of one" data-missing-field 1 '{"instruction":"i","output":"o","history":[["q"]]}\n'
flags "no completion" data-missing-field 1 '{"prompt":"p","completion":5}\n'
flags "an unknown role" data-role-unknown 1 '{"messages":[{"role":"User ","content":"q"},{"role":"assistant","content":"a"}]}\n'
flags "assistant first" data-role-order 1 '{"messages":[{"role":"assistant","content":"a"}]}\n'
flags "user twice" data-role-order 1 '{"messages":[{"role":"user","content":"q"},{"role":"user","content":"r"},{"role":"assistant","content":"a"}]}\n'
flags "assistant twice" data-role-order 1 '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"r"},{"role":"assistant","content":"a"}]}\n'
flags "system in the middle" data-role-order 1 '{"messages":[{"role":"user","content":"q"},{"role":"system","content":"s"},{"role":"assistant","content":"a"}]}\n'
flags "the user last" data-role-order 1 '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"r"},{"role":"user","content":"a"}]}\n'
flags "a tool nobody called" data-role-order 1 '{"messages":[{"role":"user","content":"q"},{"role":"tool","content":"r"},{"role":"assistant","content":"a"}]}\n'
flags "an empty answer" data-empty-answer 1 '{"instruction":"i","output":" "}\n'
flags "an empty question" data-empty-turn 1 '{"instruction":"","input":"","output":"o"}\n'
flags "weight 0" data-untrained 1 '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","weight":0}]}\n'
flags "a control token" data-control-token 1 '{"messages":[{"role":"user","content":"q<|im_end|>"},{"role":"assistant","content":"a"}]}\n'
flags "damaged text" data-replacement 1 '{"text":"caf\\uFFFD"}\n'
flags "a pair that does not differ" data-equal-pair 1 '{"prompt":"p","chosen":"a","rejected":"a"}\n'
flags "the same twice" data-duplicate 3 "$M\n{\"messages\":[]}\n$M\n"
flags "a byte order mark" data-byte-order-mark 1 "\xef\xbb\xbf$M\n"
flags "an image that is not there" data-media-missing 1 '{"messages":[{"role":"user","content":"<image>q"},{"role":"assistant","content":"a"}],"images":["no.png"]}\n'
flags "an image part that is not there" data-media-missing 1 '{"messages":[{"role":"user","content":[{"type":"image","image":"no.png"},{"type":"text","text":"t"}]},{"role":"assistant","content":"a"}]}\n'
flags "more placeholders than images" data-placeholders 1 '{"messages":[{"role":"user","content":"<image><image>q"},{"role":"assistant","content":"a"}],"images":["f.jsonl"]}\n'
flags "a placeholder without a list" data-placeholders 1 '{"messages":[{"role":"user","content":"<image>q"},{"role":"assistant","content":"a"}]}\n'
flags "a video without a place" data-placeholders 1 '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"videos":["f.jsonl"]}\n'
flags "NUL in a string" data-not-json 1 '{"text":"a\\u0000"}\n'
flags "half a surrogate" data-not-json 1 '{"text":"\\ud800"}\n'
flags "a duplicate key" data-not-json 1 '{"text":"a","text":"b"}\n'
flags "only spaces" data-no-samples 0 '  \n \n'

printf '\x89PNG' >here.png
echo '{"messages":[{"role":"user","content":"<image>q"},{"role":"assistant","content":"a <image> shows"}],"images":["here.png"]}' >images.jsonl
echo '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.org/a.png"}},{"type":"text","text":"t"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]}]}' >urls.jsonl
sound "images that are there" images.jsonl
sound "images elsewhere" urls.jsonl
mkdir -p sub; cp images.jsonl sub/
expect "beside another file" 1 "$ASSAY" data check sub/images.jsonl
expect "--media" 0 "$ASSAY" data check sub/images.jsonl --media .

printf '[{"text":"a"},\n{"text":"b"},\n' >cut.json
expect "an array cut off" 1 "$ASSAY" data check --json cut.json
says "an array cut off" out "data-broken-off"
says "an array cut off: where" out '"line": 3'
says "an array cut off: what was read" out '"samples": 2'
printf '[{"text":"a"}] x' >behind.json
expect "bytes behind an array" 1 "$ASSAY" data check behind.json
printf '[\n\n {"text":"a"},\n 5, "s",\n [],\n {"bad":1}]' >places.json
expect "places in an array" 1 "$ASSAY" data check --json places.json
says "places in an array" out '"samples": 4'
printf '{\n "data": [{"text":"a"}]\n}\n' >object.json; expect "one object" 1 "$ASSAY" data check object.json
says "one object" out "is one JSON object"
echo '{"text":"a"}' >single.json; expect "one sample" 0 "$ASSAY" data check single.json
printf '{"text":"a"}\n{"text":"b"}\n' >two.json; expect "lines under another name" 0 "$ASSAY" data check two.json
printf '[' >open.json; expect "an open bracket" 1 "$ASSAY" data check open.json
printf '[]' >none.json; expect "an empty array" 1 "$ASSAY" data check none.json
: >empty.jsonl; expect "an empty file" 1 "$ASSAY" data check empty.jsonl
printf 'PAR1....' >a.parquet; expect "Parquet" 2 "$ASSAY" data check a.parquet
says "Parquet" out "Parquet"
says "a line that converts it" out "  do        python3 -c 'import json, sys, pyarrow.ipc, pyarrow.parquet; "
echo "$M" | gzip >a.jsonl.gz; expect "gzip" 2 "$ASSAY" data check a.jsonl.gz
printf 'version https://git-lfs.github.com/spec/v1\n' >lfs.jsonl; expect "git-LFS pointer" 1 "$ASSAY" data check lfs.jsonl
expect "nothing there" 2 "$ASSAY" data check nowhere.jsonl
expect "a folder" 2 "$ASSAY" data check .
(printf '{"text":"'; head -c 70000000 /dev/zero | tr '\0' a; printf '"}\n%s\n' "$M") >large.jsonl
expect "a line too large" 2 "$ASSAY" data check --json large.jsonl
says "a line too large" out data-oversized
says "what is behind it" out '"samples": 1'
rm large.jsonl
deep=$(printf '[%.0s' $(seq 3000)); flags "nested deeply" data-not-json 1 "$deep\n"

echo "$M" >train.jsonl
printf '%s\n' '{"messages":[{"role":"user","content":" q "},{"role":"assistant","content":"a\\n"}]}' \
    '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"other"}]}' \
    '{"messages":[{"role":"user","content":"new"},{"role":"assistant","content":"a"}]}' | sed 's/\\\\n/\\n/' >eval.jsonl
expect "the evaluation is in the training data" 1 "$ASSAY" data check --json train.jsonl --eval eval.jsonl
says "a sample of it" out '"finding": "data-eval-in-train"'
says "a prompt of it" out '"finding": "data-eval-prompt-in-train"'
says "how many" out '"in_train": 1'
expect "another evaluation" 0 "$ASSAY" data check messages.jsonl --eval text.jsonl

echo '{"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hello world"}]}' >tokens.jsonl
expect "tokens" 0 "$ASSAY" data check --json tokens.jsonl --tokenizer "$tokenizer"
n=$("$ASSAY" tokenizer encode "$tokenizer" Hello | wc -w); m=$("$ASSAY" tokenizer encode "$tokenizer" "Hello world" | wc -w)
says "tokens as encode counts them" out "\"tokens\": $((n + m))"
says "their median" out "\"p50\": $((n + m))"
expect "too long" 1 "$ASSAY" data check --json tokens.jsonl --tokenizer "$tokenizer" --max-length $((n + m - 1))
says "too long" out '"too_long": 1'
expect "just as long" 0 "$ASSAY" data check tokens.jsonl --tokenizer "$tokenizer" --max-length $((n + m))

expect "show" 0 "$ASSAY" data show alpaca.json --sample 2 --tokenizer "$tokenizer"
says "show" out "layout: Alpaca"
says "show names the line" out "line 2"
expect "show an odd one" 1 "$ASSAY" data show places.json --sample 5
expect "a sample that is not there" 2 "$ASSAY" data show alpaca.json --sample 4
expect "text form" 1 "$ASSAY" data check cut.json
says "text form" out "cut.json:3"
expect "no action" 64 "$ASSAY" data
expect "another action" 64 "$ASSAY" data train.jsonl
expect "no file" 64 "$ASSAY" data check
expect "a wrong number" 64 "$ASSAY" data check train.jsonl --tokenizer "$tokenizer" --max-length many
expect "a length without a tokenizer" 64 "$ASSAY" data check train.jsonl --max-length 5
expect "a tokenizer that is none" 2 "$ASSAY" data check train.jsonl --tokenizer .
expect "nowhere to write" 2 "$ASSAY" data check train.jsonl -o no/where
finish
