#!/bin/bash
# Entry of the lifecycle scripts (OnCreate or OnInitComplete): HyperPod runs it once on every new
# node, the local cloud below TRAINYARD_ROOT. What it prints goes to lifecycle.log on the node, and
# to the one file that HyperPod's image sends to CloudWatch (Developer Guide, HyperPod FAQ:
# /var/log/provision/provisioning.log).
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=${TRAINYARD_ROOT:-}
log_dir=$root/var/log/trainyard
sent=$root/var/log/provision/provisioning.log
mkdir -p "$log_dir" "${sent%/*}"

run_steps() {
  # -S: the scripts need the standard library only, and site costs a third of the start-up time.
  # The caller looks at the status, and bash then stops at no error by itself.
  "${TRAINYARD_PYTHON:-python3}" -S -B "$here/lifecycle.py" || return 1
  if ! bash "$root/opt/trainyard/bin/start-services"; then
    # One line has to tell it all where no more is shown; the whole text stands above it.
    echo "[trainyard] FAILED in step 'services': start-services ended with an error;" \
      "its last words: $(tail -n 1 "$log_dir/lifecycle.log")"
    return 1
  fi
  echo "[trainyard] lifecycle finished"
}

if ! run_steps 2>&1 | tee -a "$log_dir/lifecycle.log" "$sent"; then
  if [[ -z $root ]]; then
    echo "[trainyard] waiting a minute, so that this log leaves the node before HyperPod ends it" |
      tee -a "$log_dir/lifecycle.log" "$sent"
    sync
    sleep 60
  fi
  exit 1
fi
