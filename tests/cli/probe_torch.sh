#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# assay probe --torch against a stub that speaks the agent's protocol: what each misbehaviour of a
# Python becomes for the reader. The stub knows one operator, embedding, in float32.
. "$(dirname "$0")/lib.sh"
stub=$SOURCE/tests/unit/torch_stub.py
command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }
export STUB_WAYS='{"embedding": ["F.embedding"]}'
unset VIRTUAL_ENV

try() { # NAME STATUS MODE [OPTION...]
    local name=$1 status=$2 mode=$3
    shift 3
    expect "$name" "$status" env STUB="$mode" "$ASSAY" probe --torch="$stub" embedding --dtype float32 "$@"
}

try "right numbers pass" 0 ok
says "a pass has a row" out "embedding  F.embedding  float32  all     ok"
says "what is not guarded is said" out "not what torch allocates itself"
try "the probes are counted" 0 ok --json
jq -e '.probes == 12 and .operators[0].forward == "ok"' "$TMP/out" >/dev/null || { echo "FAILED: json"; FAILED=1; }
try "a NaN is an error" 1 nan
says "the worst element is named" out "The worst element, y[0,0], is nan"
try "a missing backward is named" 1 no-backward
says "with format and operator" out "float32 backward of embedding is not implemented on cpu"
says "with the message" out "not implemented for 'BFloat16'"
try "a read past an operand" 1 fault
says "operand, side and distance" out "It reads memory behind operand x, 8 bytes from its edge"
try "a crash" 1 crash
says "the signal is named" out "killed by signal 9"
try "an exit" 1 exit
says "the last words are kept" out "terminate called after throwing"
try "a misaligned address" 1 lost
says "it is its own kind" out "does not bear the alignment of its operands"
says "every probe has its own answer" out "4 of 4 probes"
try "a hang" 1 hang --deadline 1
says "the deadline" out "did not end before the deadline"
try "garbage is no verdict" 2 garbage
says "what came instead" out "Traceback"
try "a result too long for its shape" 1 wrong-size
says "it is refused" out "its size or place makes no sense"
try "a result outside the shared file" 1 wrong-offset
try "a result of another shape" 1 wrong-shape
says "the shape" out "another shape"
try "a guard without proof passes nothing" 2 unproven
says "the reason" out "The guard did not prove itself"

try "a guard that does not work at all stops the campaign" 2 broken
says "at once" out "nothing was tried"
try "a failure of our own instrument is no verdict" 2 instrument
says "it is said" out "could not be judged"

expect "no torch" 2 env STUB=no-torch "$ASSAY" probe --torch="$stub"
says "what to do" err "name another interpreter with --torch=PYTHON"
expect "no program" 2 "$ASSAY" probe --torch=/nowhere/python
says "which" err "/nowhere/python"
expect "no Python" 2 "$ASSAY" probe --torch=/bin/true
says "why" err "is no Python that can run the agent"
expect "dies at import" 2 env STUB=die-early "$ASSAY" probe --torch="$stub"
says "signal and words" err "died of signal 6 while importing torch: ImportError: libcudart"
expect "unknown operator" 64 "$ASSAY" probe --torch="$stub" lineer
says "the operators" err "there are gemm, linear"
expect "unknown format" 64 "$ASSAY" probe --torch="$stub" --dtype int8
expect "absurd seed" 64 "$ASSAY" probe --torch="$stub" --seed -1
expect "no such kernel file" 2 env STUB=ok "$ASSAY" probe --torch="$stub" --torch-module /nowhere.py
expect "a seed for a kernel" 64 "$ASSAY" probe --torch="$stub" --torch-module x.py --seed 2
says "a seed for a kernel" err "--seed has no meaning with --torch-module"
# The campaign ends by time, and says what it did not try; rows carry their seconds.
expect "a limit of time" 1 env STUB=hang "$ASSAY" probe --torch="$stub" --deadline 1 --time-limit 1 --json embedding
says "a limit of time" out '"id": "torch-not-tried"'
says "a limit of time" out "Stopped by the time limit of 1 s after 0 of"
says "a limit of time" out '"seconds": '
finish
