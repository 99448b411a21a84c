#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# doctor --binary: a program's own GPU code against the GPUs of the machine. And what stub libraries
# do not say is never held against a switch.
. "$(dirname "$0")/lib.sh"

hosts=$SOURCE/tests/hosts
lib=home/user/venv/lib/python3.12/site-packages/torch/lib/libtorch_hip.so
cp -a "$hosts/r9700-therock-kpack/root" "$TMP/root"
mkdir -p "$TMP/root/opt/job"
cp "$hosts/rx7900xtx/root/$lib" "$TMP/root/opt/job/ext.so"

expect "code for other GPUs" 1 "$ASSAY" doctor --root "$TMP/root" --binary /opt/job/ext.so
says "code for other GPUs" out "/opt/job/ext.so has no code for gfx1201"
says "code for other GPUs" out "binary-lacks-gpu-target"
expect "code for this GPU" 0 "$ASSAY" doctor --root "$hosts/rx7900xtx/root" --binary "/$lib" --facts 'binary.*'
says "code for this GPU" out "binary.lacks                       (none)"
expect "no GPU code" 0 "$ASSAY" doctor --root "$hosts/rx7900xtx/root" --binary /etc/os-release --facts 'binary.*'
says "no GPU code" out "binary.gfx_targets                 (absent)"
expect "missing file" 0 "$ASSAY" doctor --root "$hosts/rx7900xtx/root" --binary /no/such --facts 'binary.*'
says "missing file" out "(absent)"
expect "with --from" 64 "$ASSAY" doctor --from facts.json --binary x
says "with --from" err "exclude each other"

for host in mi300x r9700-therock-kpack strix-halo-igpu; do
    "$ASSAY" doctor --root "$hosts/$host/root" >"$TMP/out" || [ $? -le 2 ] || FAILED=1
    if grep -q 'is read by nobody\|no library that would be loaded' "$TMP/out"; then
        echo "FAILED: a switch of $host is read by nobody, though the libraries are stubs"
        FAILED=1
    fi
done
exit $FAILED
