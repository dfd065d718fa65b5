#!/bin/bash
# Entry of the lifecycle scripts: HyperPod runs it once on every new node, the local cloud below TRAINYARD_ROOT.
# Everything it prints goes to stdout (HyperPod copies that to CloudWatch) and to lifecycle.log on the node.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=${TRAINYARD_ROOT:-}
log_dir=$root/var/log/trainyard
mkdir -p "$log_dir"

run_steps() {
  # -S: the scripts need the standard library only, and site costs a third of the start-up time.
  "${TRAINYARD_PYTHON:-python3}" -S -B "$here/lifecycle.py"
  if ! bash "$root/opt/trainyard/bin/start-services"; then
    # One line has to tell it all where no more is shown; the whole text stands above it.
    echo "[trainyard] FAILED in step 'services': start-services ended with an error; its last words: $(tail -n 1 "$log_dir/lifecycle.log")"
    return 1
  fi
  echo "[trainyard] lifecycle finished"
}

run_steps 2>&1 | tee -a "$log_dir/lifecycle.log"
