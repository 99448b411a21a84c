#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Layouts that public sets and trainers use beside the plain ones, and what a loader of such files stumbles over.
. "$(dirname "$0")/lib.sh"
tokenizer=$SOURCE/tests/fuzz/corpus/tokenizer/byte_level.json
cd "$TMP"
sound() { # NAME CONTENT [FINDING]: accepted; with a note, or with nothing
    printf '%s\n' "$2" >f.jsonl
    expect "$1" 0 "$ASSAY" data check --json f.jsonl
    if [ $# -gt 2 ]; then says "$1" out "\"$3\""; else says "$1" out '"findings": []'; fi
}
finds() { # NAME FINDING CONTENT [OPTION...]
    printf '%b' "$3" >f.jsonl
    expect "$1" 1 "$ASSAY" data check --json f.jsonl "${@:4}"
    says "$1" out "\"finding\": \"$2\""
}
U='{"role":"user","content":"q"}' A='{"role":"assistant","content":"a"}' B='{"role":"assistant","content":"b"}'
# UltraFeedback: the whole talk under chosen and rejected, beside a prompt and the messages.
sound "whole talks as a pair" "{\"prompt\":\"q\",\"chosen\":[$U,$A],\"rejected\":[$U,$B],\"messages\":[$U,$A],\"score_chosen\":8.0}"
finds "whole talks that do not differ" data-equal-pair "{\"prompt\":\"q\",\"chosen\":[$U,$A],\"rejected\":[$U,$A],\"messages\":[$U,$A]}\n"
sound "a pair without a prompt" '{"chosen":"q a","rejected":"q b","margin":0.5}'
sound "prompts alone" '{"prompt":"2+2","answer":"4"}' data-prompt-only
sound "talks as prompts alone" "{\"prompt\":[$U],\"answer\":\"4\"}" data-prompt-only
sound "steps with labels" '{"prompt":"q","completions":["a","b"],"labels":[true,false]}'
finds "steps without a label each" data-missing-field '{"prompt":"q","completions":["a","b"],"labels":[true]}\n'
# Token ids, as `assay train` takes them.
sound "token ids" '{"input_ids":[1,2,3],"attention_mask":[1,1,1],"labels":[-100,2,3]}'
finds "another number of labels" data-missing-field '{"input_ids":[1,2,3],"labels":[2,3]}\n'
finds "ids that are none" data-missing-field '{"input_ids":[1,"2"]}\n'
finds "all labels left out" data-untrained '{"input_ids":[1,2,3],"labels":[-100,-100,-100]}\n'
finds "ids beyond the tokenizer" data-id-beyond '{"input_ids":[1,2,900000]}\n' --tokenizer "$tokenizer"
finds "more ids than fit" data-too-long '{"input_ids":[1,2,3,4]}\n' --tokenizer "$tokenizer" --max-length 3

# What Arrow stops at, with its words.
finds "a number, then a string" data-column-type '{"text":"a","score":1}\n{"text":"b","score":"high"}\n'
says "a number, then a string" out 'Column(/score) changed from number to string'
finds "an object, then a list" data-column-type '{"text":"a","meta":{"x":1}}\n{"text":"b","meta":[1]}\n'
finds "deep inside" data-column-type '{"text":"a","m":{"x":[{"y":true}]}}\n{"text":"b","m":{"x":[{"y":1}]}}\n'
sound "what goes together" '{"text":"a","s":1,"l":[],"n":null,"o":{"x":1}}
{"text":"b","s":1.5,"l":["x"],"n":"y","o":{"y":1}}
{"text":"c"}'
sound "contents as strings and as parts" "{\"messages\":[$U,$A]}
{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"z\"}]},$A]}" data-column-type

# Media that are there and hold no picture.
M='{"messages":[{"role":"user","content":"<image>q"},{"role":"assistant","content":"a"}],"images":["p.png"]}\n'
: >p.png; finds "an empty picture" data-media-broken "$M"
echo '<html><body>404</body></html>' >p.png; finds "a page in the place of a picture" data-media-broken "$M"
printf 'version https://git-lfs.github.com/spec/v1\n' >p.png; finds "a pointer in the place of a picture" data-media-broken "$M"
echo '<?xml version="1.0"?><svg/>' >p.svg; sound "a drawing" "$(printf '%b' "${M//p.png/p.svg}")"

# Text that was decoded wrongly once, and is UTF-8 all the same.
finds "UTF-8 read as Windows-1252" data-mojibake '{"text":"caf\xc3\x83\xc2\xa9 \xc3\x83\xc2\xbcber don\xc3\xa2\xe2\x82\xac\xe2\x84\xa2t"}\n'
sound "letters that only look so" '{"text":"São Paulo, IRMÃ, «Ão» – Ünïcode â € ™"}'
finds "DeepSeek's token" data-control-token '{"instruction":"i","output":"o<｜end▁of▁sentence｜>"}\n'
finds "a token of the tokenizer" data-control-token '{"instruction":"i <s>old</s>","output":"o"}\n' --tokenizer "$tokenizer"
sound "text that is no token without the tokenizer" '{"instruction":"<s>old</s>","output":"o"}'

# Files of other kinds are named.
printf 'instruction,output\n"a, b",c\n' >a.csv; expect "CSV" 2 "$ASSAY" data check a.csv
says "CSV" out "CSV"
says "a line that converts it" out "csv.DictReader"
says "every line is not a fault of its own" out "1 could not tell"
printf -- '- text: a\n' >a.yaml; expect "YAML" 2 "$ASSAY" data check a.yaml
printf '\xff\xfe{\0"\0' >u.jsonl; expect "UTF-16" 1 "$ASSAY" data check u.jsonl
says "UTF-16" out "UTF-16"
says "UTF-16 is one finding" out "data check: 1 error"
finds "zeros at the end" data-not-json '{"text":"a"}\n\0\0\0\0\0\0\0\0\0\0'
says "zeros at the end" out "10 zero bytes"
finds "a sample over several lines" data-not-json '{\n "text": "a"\n}\n'
says "a sample over several lines" out "jq -c"
finds "nested deeply" data-not-json "{\"text\":\"a\",\"d\":$(printf '[%.0s' $(seq 300))$(printf ']%.0s' $(seq 300))}\n"
says "nested deeply" out "It is nested deeper than 128 levels."
finish
