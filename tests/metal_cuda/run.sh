#!/bin/bash
# All that there is to do on a machine with an NVIDIA GPU: the tests, compute-sanitizer, the benchmark. Logs and tables go
# to the folder that is named.
#
#   tests/metal_cuda/run.sh results [tests] [memcheck] [racecheck] [synccheck] [benchmark]
set -u
cd "$(dirname "$0")/../.."
results=$(realpath -m "${1:?the folder for results}")
shift
mkdir -p "$results"
export PYTHONPATH=$PWD/python:$PWD/tests${PYTHONPATH:+:$PYTHONPATH}
failed=0

run() { # name command...
    local name=$1
    shift
    "$@" >"$results/$name.txt" 2>&1 || failed=1
    echo "== $name: $(tail -n 1 "$results/$name.txt")"
}

kernel_tests=(python3 -m pytest tests/metal -q)

[ $# -gt 0 ] || set -- tests memcheck racecheck synccheck benchmark
for part in "$@"; do
    case $part in
    tests) run tests "${kernel_tests[@]}" --metal-runner cuda ;;
    memcheck | racecheck | synccheck)
        run "$part" compute-sanitizer --tool "$part" --error-exitcode 9 "${kernel_tests[@]}" \
            --metal-runner cuda-sanitized
        ;;
    benchmark) run benchmark python3 tests/metal_cuda/benchmark.py ;;
    *) echo "unknown: $part" && failed=1 ;;
    esac
done
exit $failed
