#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fleet: frozen machines as nodes; who differs, who is missing, who sent rubbish; other kinds of files; many nodes.
. "$(dirname "$0")/lib.sh"
cd "$TMP"
hosts=$SOURCE/tests/hosts
"$ASSAY" doctor --facts --json -q --root "$hosts/mi300x/root" >good.json
"$ASSAY" snapshot -q --root "$hosts/mi300x/root" -o good.lock
nodes() { # N: that many equal nodes in $TMP/d
    rm -rf d && mkdir d
    for i in $(seq 1 "$1"); do cp good.json "d/n$i.json"; done
}

nodes 4
expect "four alike" 0 "$ASSAY" fleet d --nodes 4 --hosts 'n[1-4]'
says "four alike" out "the 4 nodes are alike"
says "what is not tested" out "nothing was sent between them"

# What is sampled or private to a node is no difference.
jq '.facts["proc.cwd"].value = "/elsewhere" | .facts["gpu[0].power_w"].value = 600 | .facts["mem.available_bytes"].value -= 1000000000
    | .facts["env.HOSTNAME"] = {state: "known", value: "n2", source: "env"} | .facts["cmdline.raw"].value = "root=other"' good.json >d/n2.json
expect "what nodes do not share" 0 "$ASSAY" fleet d

# One drives another driver, has a smaller library, a switch, full memory, a lower limit.
jq '.facts["driver.amdgpu.version"].value = "6.10.5" | .facts["lib.rocblas.version"].value = "4.1"
    | .facts["env.NCCL_ALGO"] = {state: "known", value: "Ring", source: "env"}
    | .facts["gpu[3].vram_used_bytes"].value = 60000000000 | .facts["gpu[5].power_cap_w"].value = 500' good.json >d/n3.json
expect "one differs" 1 "$ASSAY" fleet d
[ "$(head -n 1 out)" = "warning   driver: not as on the other nodes: n3  (fleet-driver)" ] || { echo "FAILED: the driver does not come first"; FAILED=1; }
says "one differs" out "driver.amdgpu.version: 6.10.5 on n3; 6.8.5 on 3 of 4"
says "one differs" out "env.NCCL_ALGO: Ring on n3; absent on 3 of 4"
says "one differs" out "gpu[3].vram_used_bytes: 60000000000 on n3; median 29360128 on 3 of 4"
says "what to do" out "assay diff d/n1.json d/n3.json"
says "one differs" out "1 of 4 nodes differs in what matters: n3"
expect "its JSON" 1 "$ASSAY" fleet d --json
jq -e '.outcome == "fault" and .nodes_compared == 4 and ([.differences[] | .node] | unique) == ["n3"]
    and ([.findings[].id] == ["fleet-driver", "fleet-library", "fleet-environment", "fleet-clocks", "fleet-memory"])
    and .nodes[0].node == "(usual)" and .nodes[1]["driver.amdgpu.version"] == "6.10.5"
    and ([.differences[] | select(.fact == "gpu[5].power_cap_w" and .value == "500" and .nodes_with_usual == 3 and .matters)] | length == 1)' out >/dev/null ||
    { echo "FAILED: the JSON"; head -c 2000 out; FAILED=1; }
for form in html markdown junit; do expect "as $form" 1 "$ASSAY" fleet d --format $form -o page; [ -s page ] || FAILED=1; done
expect "the command that is proposed" 1 "$ASSAY" diff d/n1.json d/n3.json

# Uncorrectable errors on every node are not put to the vote.
nodes 3
for i in 1 2 3; do jq '.facts["gpu[0].ras.ue_count"].value = 2' good.json >d/n$i.json; done
expect "all sick alike" 1 "$ASSAY" fleet d
says "all sick alike" out "should be 0"

# Missing, empty, broken, foreign: could not tell, and a difference beside it is told all the same.
nodes 3
expect "a node is missing" 2 "$ASSAY" fleet d --hosts 'n[1-4],login'
says "a node is missing" out "no file came from: n4 and login"
expect "a number is missing" 2 "$ASSAY" fleet d --nodes 5
says "a number is missing" out "2 of 5 nodes"
printf '# all\nn1 slots=8\nn2\nn3.cluster\n' >hostfile
expect "a file of names" 0 "$ASSAY" fleet d --hosts hostfile
: >d/n4.json; echo '{"facts": {' >d/n5.json; echo '{"a": 1}' >d/n6.json; echo text >d/README
expect "broken files" 2 "$ASSAY" fleet d --nodes 6
says "broken files" out "a file that cannot be used: n4, n5 and n6"
says "an empty file" out "wrote nothing"
says "something else" out "is none of"
says "other entries" err "1 other entry in d passed over"
jq '.facts["driver.amdgpu.version"] = {state: "denied", value: null, source: "x", reason: "not allowed"}' good.json >d/n3.json
rm d/n[456].json
expect "not read by one" 2 "$ASSAY" fleet d
says "not read by one" out "driver.amdgpu.version: n3: not allowed"

# Usage, and what is not there.
expect "no file" 64 "$ASSAY" fleet
expect "a wrong number" 64 "$ASSAY" fleet d --nodes none
expect "a wrong list" 2 "$ASSAY" fleet d --hosts 'n[1-'
expect "not there" 2 "$ASSAY" fleet nowhere
mkdir empty; expect "an empty folder" 2 "$ASSAY" fleet empty
expect "one node" 2 "$ASSAY" fleet good.json
says "one node" out "nothing to compare"
expect "cannot be written" 2 "$ASSAY" fleet d -o /nonexistent/out
mkdir k; expect "no table there" 2 "$ASSAY" fleet d --knowledge k
says "no table there" err "fleet.tsv"
printf 'head\nfacts\tgpu.count\texact\t\tdevices\twarning\n' >k/fleet.tsv
expect "a wrong table" 2 "$ASSAY" fleet d --knowledge k
says "a wrong table" err "fleet.tsv:2: the row has 6 columns"
printf 'head\nfacts\tproc.cwd\texact\t\tdevices\twarning\tbecause\n' >k/fleet.tsv
nodes 3; jq '.facts["proc.cwd"].value = "/elsewhere"' good.json >d/n2.json
expect "a table of one's own" 1 "$ASSAY" fleet d --knowledge k

# Snapshots: builds of one version; the command line without what each node has for itself.
rm -rf s && mkdir s
for i in 1 2 3; do jq --arg i "$i" '.stack.kernel["command-line"].version += " root=UUID=" + $i' good.lock >s/n$i.lock; done
expect "snapshots alike" 0 "$ASSAY" fleet s
jq '.stack.library.rocblas.build_id = "ffff" | .stack.kernel["command-line"].version += " amdgpu.mcbp=0"' good.lock >s/n2.lock
expect "a rebuilt library" 1 "$ASSAY" fleet s
says "a rebuilt library" out "library/rocblas: 4.2 (build ffff) on n2"
says "another command line" out "kernel/command-line"
cp good.json s/n3.json
expect "facts of one beside snapshots of all" 1 "$ASSAY" fleet s
says "facts of one" out "facts came from 1 of 3 nodes, not from: n1 and n2"

# Records of qualify, and figures: the stragglers are named.
rm -rf q && mkdir q
for i in 1 2 3; do "$ASSAY" qualify -q --json --root "$hosts/rx7900xtx/root" >q/n$i.qualify.json || [ $? = 2 ]; done
expect "records alike" 0 "$ASSAY" fleet q
"$ASSAY" qualify -q --json --root "$hosts/container-wrong-render-gid/root" >q/n2.qualify.json || true
expect "one record differs" 1 "$ASSAY" fleet q
says "one record differs" out "outcome: fault on n2"
rm -rf p && mkdir p
"$ASSAY" probe --figures cpu --json -q >figures.json || true
for i in 1 2 3 4; do jq --argjson i $i '.figures[] |= (if .value then .value *= (1 + $i / 200) else . end)' figures.json >p/n$i.json; done
unmeasured=$(jq '[.figures[] | select(.value == null)] | length' figures.json)
expect "figures alike" 0 "$ASSAY" fleet p
jq '(.figures[] | select(.what == "copy to the device") | .value) /= 2' p/n3.json >x && mv x p/n3.json
expect "a straggler" 1 "$ASSAY" fleet p
says "a straggler" out "copy to the device GB/s"
says "a straggler" out "differs in what matters: n3"
echo "$unmeasured figures were not measured"

# Many nodes: 2,000 files, bounded memory, the odd ones named.
rm -rf d && mkdir d
jq -c '.facts |= with_entries(select(.key | test("^(driver|gpu|env|mem)")))' good.json >small.json
python3 -c 'import os; [os.link("small.json", f"d/n{i}.json") for i in range(1, 2001)]'
jq -c '.facts["driver.amdgpu.version"].value = "1"' small.json >x && mv x d/n77.json
EXPECT_SECONDS=110 expect "2,000 nodes" 1 bash -c "[ -n '${SANITIZED:-}' ] || ulimit -v 1500000; '$ASSAY' fleet d --hosts 'n[1-2000]'"
says "2,000 nodes" out "1 of 2000 nodes differs in what matters: n77"
mkdir extra && for n in n1 n2 n3; do "$ASSAY" doctor --facts --json --root "$SOURCE/tests/hosts/cpu-only/root" >extra/$n.json; done
expect "more nodes than there should be" 0 "$ASSAY" fleet extra --nodes 2
says "more nodes than there should be" out "3 nodes sent files, and --nodes says 2"
finish
