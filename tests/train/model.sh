# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of the trainer: make_model FOLDER [KEY=VALUE...] writes a tiny Llama without weights and with a byte-level tokenizer;
# make_text FILE writes 300 short lines.
make_model() {
    mkdir -p "$1"
    cp "$SOURCE/tests/fuzz/corpus/tokenizer/byte_level.json" "$1/tokenizer.json"
    cat >"$1/config.json" <<'JSON'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "hidden_size": 32,
 "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 512, "tie_word_embeddings": true,
 "initializer_range": 0.02, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 0}
JSON
}

make_text() {
    local i
    for i in $(seq 300); do
        echo "The quick brown fox number $i jumps over the lazy dog and says hello $((i * 7 % 13)) times."
    done >"$1"
}
