#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tokenizer check: a folder in which all files agree, and each way in which they can disagree.
. "$(dirname "$0")/lib.sh"
files=$SOURCE/tests/fuzz/corpus/tokenizer
command -v python3 >/dev/null || exit 77
python3 - "$TMP" "$files" <<'PY'
import json, os, struct, sys
top, files = sys.argv[1:]
tokenizer = json.load(open(f"{files}/byte_level.json"))
end = max(list(tokenizer["model"]["vocab"].values()) + [t["id"] for t in tokenizer["added_tokens"]]) + 1
for i, name in enumerate(("<|im_start|>", "<|im_end|>", "<|pad|>")):
    tokenizer["added_tokens"].append({"id": end + i, "content": name, "single_word": False, "lstrip": False,
                                      "rstrip": False, "normalized": False, "special": True})
start, stop, pad = end, end + 1, end + 2
rows = end + 3
template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"

def weights(path, rows):
    head = json.dumps({"model.embed_tokens.weight": {"dtype": "U8", "shape": [rows, 2], "data_offsets": [0, 2 * rows]}}).encode()
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + bytes(2 * rows))

def make(name, change=lambda d: None):
    d = {"tokenizer.json": json.loads(json.dumps(tokenizer)),
         "config.json": {"model_type": "none", "vocab_size": rows, "eos_token_id": stop, "pad_token_id": pad},
         "generation_config.json": {"eos_token_id": [stop, pad]},
         "tokenizer_config.json": {"eos_token": "<|im_end|>", "pad_token": {"content": "<|pad|>"}, "bos_token": None,
                                   "model_max_length": 1000000000000000019884624838656,
                                   "added_tokens_decoder": {str(start): {"content": "<|im_start|>"}}},
         "special_tokens_map.json": {"eos_token": "<|im_end|>"},
         "added_tokens.json": {"<|pad|>": pad},
         "chat_template.jinja": template, "rows": rows}
    change(d)
    os.makedirs(f"{top}/{name}")
    if d.pop("rows"):
        weights(f"{top}/{name}/model.safetensors", rows)
    for file, content in d.items():
        if content is not None:
            open(f"{top}/{name}/{file}", "w").write(content if isinstance(content, str) else json.dumps(content))

def put(file, **more):
    return lambda d: d[file].update(more)

make("whole")
make("nothing", lambda d: [d.update({k: None}) for k in list(d) if k not in ("tokenizer.json", "rows")])
def beyond(d): d["config.json"]["vocab_size"] = end; d["rows"] = 0
make("beyond", beyond)
make("size", put("config.json", vocab_size=rows + 1))
make("eos", lambda d: (put("config.json", eos_token_id=start)(d), put("generation_config.json", eos_token_id=pad)(d)))
make("eos_generation", put("config.json", eos_token_id=start))
make("pad_is_eos", put("tokenizer_config.json", pad_token="<|im_end|>"))
make("bos_absent", put("tokenizer_config.json", bos_token="<bos>"))
make("id_absent", put("config.json", image_token_id=rows + 5))
make("negative", put("config.json", pad_token_id=-1))
make("map", put("special_tokens_map.json", eos_token="<|pad|>"))
make("added", put("tokenizer_config.json", added_tokens_decoder={str(start): {"content": "<|im_end|>"}}))
make("added_far", put("tokenizer_config.json", added_tokens_decoder={"99999999999": {"content": "x"}}))
make("added_odd", put("tokenizer_config.json", added_tokens_decoder=["x"]))
make("added_new", put("added_tokens.json", **{"<new>": rows + 3}))
make("template_token", lambda d: d.update({"chat_template.jinja": template + "<|eot_id|>"}))
make("template_cut", lambda d: d.update({"chat_template.jinja": template[:60] + "{% if"}))
make("template_open", lambda d: d.update({"chat_template.jinja": template[:template.rindex("{%")].rstrip()}))
make("template_blocks", lambda d: d.update({"chat_template.jinja": "{#- {% for is said in a comment -#}{%- if messages %}" + template + "{%+ endif -%}{% set x = 1 %}"}))
make("two_templates", put("tokenizer_config.json", chat_template=template + " "  + "x"))
make("same_templates", put("tokenizer_config.json", chat_template=template + "\n"))
make("list_template", lambda d: (d.update({"chat_template.jinja": None}), put("tokenizer_config.json", chat_template=[
    {"name": "tool_use", "template": "x"}, {"name": "default", "template": template}])(d)))
make("odd", lambda d: d.update({"tokenizer_config.json": [1], "config.json": "7", "generation_config.json": "null", "special_tokens_map.json": "[]"}))
make("broken", lambda d: d.update({"tokenizer_config.json": "{"}))
def swap(d):
    v = d["tokenizer.json"]["model"]["vocab"]; a, b = [k for k in v if len(k) == 1][:2]; v[a], v[b] = v[b], v[a]
make("swapped", swap)
make("normalizer", put("tokenizer.json", normalizer=None))
make("flags", lambda d: d["tokenizer.json"]["added_tokens"][-1].update(lstrip=True))
make("decoder", put("tokenizer.json", decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}))
PY
check() { # NAME STATUS FOLDER TEXT
    expect "$1" "$2" "$ASSAY" tokenizer check --json "$TMP/$3"
    says "$1" out "$4"
}
check "all agree" 0 whole '"findings": []'
check "nothing beside it" 0 nothing '"id": "tokenizer-no-template"'
check "ids beyond the table" 1 beyond '"id": "tokenizer-beyond-vocabulary"'
check "config against embedding" 1 size '"id": "tokenizer-vocab-size"'
check "another end of text" 1 eos 'generation does not stop'
check "the end of text in one of two" 0 eos_generation '"findings": []'
check "padding is the end" 1 pad_is_eos '"id": "tokenizer-pad-is-eos"'
check "a beginning that is no token" 1 bos_absent '"id": "tokenizer-special-absent"'
check "an id that is not there" 1 id_absent 'image_token_id is'
check "a negative id" 1 negative 'pad_token_id is -1'
check "two files, two tokens" 1 map '"id": "tokenizer-special-differs"'
check "added twice" 1 added '"id": "tokenizer-added-differs"'
check "added far away" 1 added_far '"id": "tokenizer-added-id"'
check "added as a list" 1 added_odd '"id": "tokenizer-file-broken"'
check "added beyond the table" 1 added_new '"id": "tokenizer-beyond-vocabulary"'
check "a token of the template" 1 template_token '<|eot_id|>'
check "a template cut off" 1 template_cut '"id": "tokenizer-template-broken"'
check "a loop that is never closed" 1 template_open "{% for"
check "blocks that are closed" 0 template_blocks ChatML
check "two templates" 1 two_templates '"id": "tokenizer-two-templates"'
check "the same template twice" 0 same_templates '"findings": []'
check "a list of templates" 0 list_template 'ChatML, tokenizer_config.json'
check "values of other kinds" 0 odd ChatML
check "a broken file" 1 broken '"id": "tokenizer-file-broken"'
check "a decoder of another kind" 1 decoder '"id": "tokenizer-round-trip"'

expect "a lossy one" 0 "$ASSAY" tokenizer check --json "$files/unigram.json"
says "a lossy one" out tokenizer-lossy

against() { # NAME STATUS FOLDER TEXT
    expect "$1" "$2" "$ASSAY" tokenizer check --json "$TMP/whole" --against "$TMP/$3"
    says "$1" out "$4"
}
against "itself" 0 whole '"findings": []'
against "two pieces swapped" 1 swapped '2 ids differ, the first is'
against "two pieces swapped, in text" 1 swapped '"id": "tokenizer-text-differs"'
against "another normalizer" 1 normalizer '"id": "tokenizer-way-differs"'
against "other flags" 1 flags '"id": "tokenizer-added-flags"'
against "another template" 1 template_token '"id": "tokenizer-template-differs"'
expect "another kind of file" 1 "$ASSAY" tokenizer check "$files/bpe.model" --against "$files/unigram.model"
expect "text form" 0 "$ASSAY" tokenizer check "$TMP/whole"
says "text form" out "ChatML, chat_template.jinja"
expect "two folders" 64 "$ASSAY" tokenizer check "$TMP/whole" "$TMP/whole"
expect "none" 64 "$ASSAY" tokenizer check
expect "nothing there" 2 "$ASSAY" tokenizer check "$TMP/nowhere"
expect "no tokenizer in it" 2 "$ASSAY" tokenizer check "$SOURCE/docs"
: >"$TMP/empty.json"
expect "an empty file" 1 "$ASSAY" tokenizer check "$TMP/empty.json"
expect "nowhere to write" 2 "$ASSAY" tokenizer check "$TMP/whole" -o "$TMP/no/where"
mkdir "$TMP/page"
for text in '<!DOCTYPE html><html>504</html>' '{"error":"Repository not found"}' 'Entry not found'; do
    echo "$text" >"$TMP/page/tokenizer.json"
    expect "a server's page" 1 "$ASSAY" tokenizer check "$TMP/page"
    says "a server's page" err ", not a tokenizer"
done
echo '5' >"$TMP/page/tokenizer.json"
expect "no object" 1 "$ASSAY" tokenizer check "$TMP/page"
says "no object" err "is no JSON object"
finish
