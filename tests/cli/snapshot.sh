#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# snapshot, diff, rollback: on frozen machines and on one made here with apt's lists; nothing is carried out.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
hosts=$SOURCE/tests/hosts

# Every frozen machine: a lock file that is stable and equal to itself.
for h in "$hosts"/*/root; do
    name=$(basename "$(dirname "$h")")
    expect "snapshot of $name" 0 "$ASSAY" snapshot -q --root "$h" -o "$name.lock"
    "$ASSAY" snapshot -q --root "$h" -o again.lock
    cmp -s "$name.lock" again.lock || { echo "FAILED: two snapshots of $name differ"; FAILED=1; }
    got=0
    "$ASSAY" diff "$name.lock" --root "$h" --json >same.json 2>/dev/null || got=$?
    jq -e '.changes == null and (.verdict | test("the stacks are the same|no difference was seen"))' same.json >/dev/null ||
        { echo "FAILED: $name differs from itself"; FAILED=1; }
    unread=$(jq '.unread | length' "$name.lock")
    [ "$got" = "$([ "$unread" = 0 ] && echo 0 || echo 2)" ] || { echo "FAILED: $name with $unread unread exits $got"; FAILED=1; }
done
jq -e '.stack.driver.amdgpu.version == "6.8.5" and .stack.framework.torch.version == "2.5.1+rocm6.2" and
    .stack.environment.NCCL_MIN_NCHANNELS.version == "112" and .python_prefix == "/home/user/venv"' mi300x.lock >/dev/null ||
    { echo "FAILED: what the snapshot of mi300x holds"; FAILED=1; }

expect "two machines" 1 "$ASSAY" diff mi300x.lock rx7900xtx.lock
head -n 1 out | grep -q 'driver differs' || { echo "FAILED: the driver does not come first"; FAILED=1; }
says "a library" out "rocblas: 4.2 -> 4.3 (newer)"
says "a GPU" out "gfx942"
expect "its JSON" 1 "$ASSAY" diff mi300x.lock rx7900xtx.lock --json
jq -e '[.changes[] | select(.name == "rocblas" and .change == "newer" and .matters)] | length == 1' out >/dev/null ||
    { echo "FAILED: JSON of changes"; FAILED=1; }
expect "as a page" 1 "$ASSAY" diff mi300x.lock rx7900xtx.lock --format html -o diff.html
grep -q '<td class="">rocblas</td>' diff.html || { echo "FAILED: the page lists the changes"; FAILED=1; }

# The environment of the snapshot is compared, not another one.
expect "another environment" 2 "$ASSAY" rollback mi300x.lock --root "$hosts/rx7900xtx/root" --python /usr
says "another environment" out "rollback-other-environment"

# A library rebuilt under the same version, a wheel whose files changed: same versions, other bytes.
jq '.stack.library.rocblas.build_id = "aaaa"' mi300x.lock >a.lock
jq '.stack.library.rocblas.build_id = "bbbb"' mi300x.lock >b.lock
expect "a rebuilt library" 1 "$ASSAY" diff a.lock b.lock
says "a rebuilt library" out "rocblas: 4.2 (build aaaa) -> 4.2 (build bbbb) (rebuilt)"

# What one side could not read is neither there nor gone.
jq '.unread = [{section: "package", reason: "denied"}] | .stack.package = {}' mi300x.lock >gap.lock
expect "a gap" 2 "$ASSAY" diff mi300x.lock gap.lock
says "a gap" out "could not be compared"
grep -q 'removed' out && { echo "FAILED: what was not read counts as removed"; FAILED=1; }

# --- a machine made here: Debian packages, apt's lists, a wheel -------------------------------------
root=$TMP/root
site=$root/srv/venv/lib/python3.11/site-packages
mkdir -p "$root/var/lib/dpkg" "$root/var/lib/apt/lists" "$root/var/cache/apt/archives" "$root/proc/self" "$site/torch" "$root/srv/venv/bin"
printf 'home = /usr/bin\nversion = 3.11.2\n' >"$root/srv/venv/pyvenv.cfg"
: >"$root/srv/venv/bin/python3"
wheel() { # name version content
    mkdir -p "$site/$1-$2.dist-info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" >"$site/$1-$2.dist-info/METADATA"
    printf '%s/__init__.py,sha256=%s,10\n../../../bin/%s,sha256=%s,9\n%s-%s.dist-info/RECORD,,\n' "$1" "$3" "$1" "$RANDOM" "$1" "$2" \
        >"$site/$1-$2.dist-info/RECORD"
}
package() { printf 'Package: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: %s\nDepends: %s\n\n' "$1" "$2" "${3:-libc6}"; }
listed() { printf 'Package: %s\nArchitecture: amd64\nVersion: %s\nSize: %s\nFilename: pool/x.deb\n\n' "$1" "$2" "$3"; }
machine() { # rocm version, driver version, extra
    { package rocm-core "$1"; package amdgpu-dkms "$2"; package rocblas 4.2 "rocm-core (>= 6), hip-runtime-amd"; package vim "9:$1"; [ -z "${3:-}" ] || package "$3" 1.0; } >"$root/var/lib/dpkg/status"
}
printf 'HSA_XNACK=1\nPATH=/usr/bin\nMY_TOKEN=x\n' >"$root/proc/self/environ"
machine 6.2.4 1:6.8.5; wheel six 1.16.0 aaa
expect "the machine, good" 0 "$ASSAY" snapshot -q --root "$root" --python /srv/venv -o good.lock
jq -e '.stack.package["rocm-core"].version == "6.2.4" and .stack.python.six.version == "1.16.0" and (.stack.python.six.record_sha256 | length) == 64' good.lock >/dev/null ||
    { echo "FAILED: the lock file of the machine"; jq -c .stack good.lock; FAILED=1; }
grep -q MY_TOKEN good.lock && { echo "FAILED: a secret is in the lock file"; FAILED=1; }
wheel six 1.16.0 aaa # installed anew: another script, the same wheel
expect "the same wheel again" 0 "$ASSAY" diff good.lock --root "$root" --python /srv/venv
wheel six 1.16.0 bbb
expect "its environment without being told" 0 "$ASSAY" diff good.lock --root "$root" --json
jq -e '[.changes[] | select(.name == "six" and .change == "rebuilt")] | length == 1' out >/dev/null || { echo "FAILED: the environment of the snapshot is not compared"; FAILED=1; }
expect "a wheel with other files" 0 "$ASSAY" diff good.lock --root "$root" --python /srv/venv
says "a wheel with other files" out "rebuilt"
wheel six 1.16.0 aaa

# The stack moves on.
machine 6.3.3 1:6.10.5 rocprofiler; rm -r "$site"/six-*; wheel six 1.17.0 ccc
printf 'HSA_XNACK=0\nNCCL_ALGO=Tree\n' >"$root/proc/self/environ"
expect "what changed" 1 "$ASSAY" diff good.lock --root "$root" --python /srv/venv
says "what changed" out "rocm-core: 6.2.4 -> 6.3.3 (newer)"
says "a switch" out "HSA_XNACK: 1 -> 0 (other)"
expect "back, without lists" 2 "$ASSAY" rollback good.lock --root "$root" --python /srv/venv
says "back, without lists" out "apt has no lists here"

{ listed rocm-core 6.2.4 1500000; listed rocm-core 6.3.3 1600000; } >"$root/var/lib/apt/lists/repo.example_Packages"
listed amdgpu-dkms 1:6.8.5 400000 | gzip >"$root/var/lib/apt/lists/other.example_Packages.gz"
expect "back, with lists" 0 "$ASSAY" rollback good.lock --root "$root" --python /srv/venv --json --script back.sh
jq -e '.download_bytes == 1900000 and (.packages | length) == 3 and
    ([.packages[] | select(.package == "rocm-core")][0] | .now == "6.3.3" and .wanted == "6.2.4" and .dependents == 1) and
    ([.packages[] | select(.package == "amdgpu-dkms")][0].reboot) and
    ([.packages[] | select(.package == "rocprofiler")][0].wanted == null) and
    ([.findings[] | select(.id == "rollback-reboot")] | length) == 1' out >/dev/null || { echo "FAILED: the cost of the way back"; jq -c . out; FAILED=1; }
sh -n back.sh || { echo "FAILED: the plan is no script"; FAILED=1; }
for line in '    rocm-core=6.2.4' '    amdgpu-dkms=1:6.8.5' 'apt-get remove' '    six==1.16.0' '# export HSA_XNACK=1' '# unset NCCL_ALGO' 'reboot before the checks' '# assay qualify'; do
    grep -qF -- "$line" back.sh || { echo "FAILED: the plan lacks '$line'"; FAILED=1; }
done
grep -q '^[^#]*vim' back.sh && { echo "FAILED: vim is no part of a GPU stack"; FAILED=1; }
expect "never over a file" 64 "$ASSAY" rollback good.lock --root "$root" --python /srv/venv --script back.sh
says "never over a file" err "is there already"
: >"$root/var/cache/apt/archives/amdgpu-dkms_1%3a6.8.5_all.deb"
expect "an archive in the cache" 0 "$ASSAY" rollback good.lock --root "$root" --python /srv/venv --json
jq -e '.download_bytes == 1500000' out >/dev/null || { echo "FAILED: the cached archive costs nothing"; FAILED=1; }
expect "all packages" 2 "$ASSAY" rollback good.lock --root "$root" --python /srv/venv --all
says "all packages" out "vim"

# --apply: the switches of one file, the rest as it was.
printf '# mine\nexport HSA_XNACK=0\nexport NCCL_ALGO=Tree\nexport OTHER="a b"\n' >train.env
expect "apply" 0 "$ASSAY" rollback good.lock --root "$root" --python /srv/venv --apply train.env
[ "$(cat train.env)" = "$(printf '# mine\nexport HSA_XNACK=1\nexport OTHER="a b"')" ] || { echo "FAILED: the environment file:"; cat train.env; FAILED=1; }
grep -q 'NCCL_ALGO=Tree' train.env.before-rollback || { echo "FAILED: the file as it was is not kept"; FAILED=1; }
expect "apply again" 0 "$ASSAY" rollback good.lock --root "$root" --python /srv/venv --apply train.env
says "apply again" out "not changed"
ln -s train.env link.env
expect "apply through a link" 64 "$ASSAY" rollback good.lock --root "$root" --python /srv/venv --apply link.env
expect "apply to the system" 64 "$ASSAY" rollback good.lock --root "$root" --python /srv/venv --apply /etc/environment

# Hostile lock files: nothing of them gets into a command.
jq '.stack.package = {"$(touch pwned)": {version: "1"}, "-o": {version: "1"}, "ok": {version: "1; touch pwned"}} |
    .stack.python = {"x; touch pwned": {version: "1"}, "y": {version: "--index-url=http://evil"}} |
    .stack.environment = {"A B": {version: "1"}, "HSA_X": {version: "a\n touch pwned"}}' good.lock >evil.lock
expect "a hostile lock file" 2 "$ASSAY" rollback evil.lock --root "$root" --python /srv/venv --all --script evil.sh
sh -n evil.sh || { echo "FAILED: the hostile plan is no script"; FAILED=1; }
mkdir fake; for c in apt-get python; do printf '#!/bin/sh\necho "$0 $*" >>"%s/calls"\n' "$TMP" >"fake/$c"; chmod +x "fake/$c"; done
sed "s|^python=.*|python=$TMP/fake/python|" evil.sh >evil2.sh
PATH="$TMP/fake:$PATH" sh evil2.sh || true
[ ! -e pwned ] || { echo "FAILED: a lock file ran a command"; FAILED=1; }
expect "a value of two lines" 2 "$ASSAY" rollback evil.lock --root "$root" --python /srv/venv --apply new.env
[ ! -e new.env ] || { echo "FAILED: the file was written"; FAILED=1; }

# Facts of a run, and what is no snapshot.
"$ASSAY" doctor --facts --json --root "$hosts/mi300x/root" >facts.json
mkdir run; cp facts.json run/
expect "facts against a snapshot" 2 "$ASSAY" diff run mi300x.lock
says "facts against a snapshot" out "no list of all packages"
echo '{}' >none.json; : >empty.json; head -c 300 good.lock >cut.lock
for f in none.json empty.json cut.lock nowhere.lock; do
    expect "no snapshot: $f" 2 "$ASSAY" diff "$f" good.lock
    expect "no way back: $f" 2 "$ASSAY" rollback "$f" --root "$root"
done
mkdir bare; expect "a folder without facts" 2 "$ASSAY" diff bare good.lock
says "a folder without facts" err "holds no facts.json"
expect "no operands" 64 "$ASSAY" diff
expect "three operands" 64 "$ASSAY" diff a b c
expect "--root beside two" 64 "$ASSAY" diff good.lock good.lock --root "$root"
expect "operand of snapshot" 64 "$ASSAY" snapshot good.lock
expect "no such environment" 2 "$ASSAY" snapshot --root "$root" --python /nowhere
says "no such environment" err "no Python environment at '/nowhere'"
expect "no such root" 2 "$ASSAY" snapshot --root "$TMP/nowhere"
expect "unwritable" 2 "$ASSAY" snapshot --root "$root" -o nowhere/x
expect "unwritable plan" 2 "$ASSAY" rollback good.lock --root "$root" --script nowhere/x
finish
