#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job that prints what a training run prints, in a second: for the tests of compare and matrix.
#   training_job.sh [--noise SEED] [--scale X] [--steps N] [--pause SECONDS] [--fail STEP] [--nan STEP]
#                   [--flaky FILE] [--data FILE] [--micro_batch_size N]
# --flaky counts its starts in FILE and fails at every second one.
noise=1 scale=1 steps=60 pause=0.002 fail=0 nan=0
while [ $# -gt 0 ]; do
    case $1 in
    --noise) noise=$2 ;;
    --scale) scale=$2 ;;
    --steps) steps=$2 ;;
    --pause) pause=$2 ;;
    --fail) fail=$2 ;;
    --nan) nan=$2 ;;
    --flaky)
        n=$(cat "$2" 2>/dev/null || echo 0)
        echo $((n + 1)) >"$2"
        [ $((n % 2)) = 1 ] && fail=5
        ;;
    esac
    shift 2
done
[ -n "$JOB_FAIL" ] && fail=$JOB_FAIL
exec awk -v noise="$noise" -v scale="$scale" -v steps="$steps" -v pause="$pause" -v fail="$fail" -v nan="$nan" 'BEGIN {
  srand(7); for (i = 1; i <= steps; i++) data[i] = (rand() - 0.5) * 0.2
  srand(noise); path = 0
  for (i = 1; i <= steps; i++) {
    system("sleep " pause)
    if (i > 10) path = 0.8 * path + (rand() - 0.5) * 0.002
    if (fail && i == fail) {
      print "Memory access fault by GPU node-1 (Agent handle: 0x5581) on address 0x7f3a00000000. Reason: Page not present or supervisor privilege." > "/dev/stderr"
      exit 134
    }
    loss = (1 + 1.2 * exp(-i / 30) + data[i] + path) * scale
    printf "{\"loss\": %s, \"grad_norm\": %.4f, \"learning_rate\": 0.0001, \"step\": %d}\n", (nan && i >= nan ? "nan" : sprintf("%.4f", loss)), 1.5, i
    if (i % 20 == 0) printf "{\"eval_loss\": %.4f, \"eval_runtime\": 0.03, \"step\": %d}\n", loss + 0.1, i
    fflush()
  }
  printf "{\"train_runtime\": %.2f, \"train_loss\": 1.2, \"epoch\": 1.0}\n", steps * pause
}'
