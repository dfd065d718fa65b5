#!/bin/bash
# Brings the agent to a node of a cluster that others made. A session runs it from its standard
# input, as root: the cluster's own scripts know nothing of us. What it does goes on in the
# background when the session ends; asked again, it says how far that is.
# usage: bash -s -- s3://BUCKET/PREFIX OWNER
# The last line that it prints is its answer: {"state": installed, installing, failed or taken,
# "reason": why not}. Everything that it leaves lies below /opt/trainyard or is listed in
# installed.json there (adopt.py), by which take_back.py removes it.
set -euo pipefail

export PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
root=${TRAINYARD_ROOT:-}
home=$root/opt/trainyard
claim=$home/adopted-by
state=$home/state
source=${1:-} owner=${2:-}
export root home claim state source owner

answer() { # STATE [REASON]
  local reason
  reason=$(tr -d '"\\' <<<"${2:-}" | tr '\n\t' '  ')
  echo "{\"state\":\"$1\",\"reason\":\"${reason% }\"}"
  exit 0
}

whole() { [[ -s $claim ]] && [[ $(<"$claim") == "$owner" ]]; }

# Whose the node is, is written before anything else comes to it. The lock is that of a directory
# which is there on every machine, so nothing is made for it.
claim_node() {
  mkdir -p "$root/opt"
  exec 8<"$root/opt"
  flock 8
  if ! whole; then
    [[ ! -s $claim ]] || answer taken "the node is another Trainyard's: $(<"$claim")"
    if [[ -e $root/etc/trainyard || ( -e $home && -n $(others) ) ]]; then
      answer taken "it has an agent that no adoption brought: /etc/trainyard or /opt/trainyard"
    fi
    mkdir -p "$home"
    echo "$owner" >"$claim.part"
    mv "$claim.part" "$claim"
  fi
  exec 8<&-
}

others() { find "$home" -mindepth 1 ! -name 'adopted-by*' | head -n 1; }

note() { # STATE [REASON]: in one rename
  echo "$1 ${2:-}" >"$state.part"
  mv "$state.part" "$state"
}

install() {
  local try part=$home/bundle.part
  for try in 1 2 3; do
    rm -rf "$part"
    if aws s3 cp --recursive --only-show-errors "$source" "$part" && [[ -f $part/adopt.py ]]; then
      rm -rf "$home/bundle"
      mv "$part" "$home/bundle"
      if "${TRAINYARD_PYTHON:-python3}" -S -B "$home/bundle/adopt.py"; then
        note installed
      else
        note failed "$(grep -a FAILED "$home/adopt.log" | tail -n 1)"
      fi
      return
    fi
    [[ -n $root ]] || sleep 2
  done
  note failed "$source cannot be copied: $(tail -n 1 "$home/adopt.log")"
}

main() {
  local known i
  [[ $source == s3://*/* && -n $owner ]] ||
    answer failed "usage: bash -s -- s3://BUCKET/PREFIX OWNER"
  claim_node
  exec 9>"$home/lock"
  if flock -n 9; then
    known=$(cat "$state" 2>/dev/null || true)
    if [[ $known == installed* ]] && runs; then
      answer installed
    fi
    rm -f "$state"
    # It keeps the lock for as long as it lasts; a session that ends does not end it.
    export -f install note
    setsid bash -c install >>"$home/adopt.log" 2>&1 </dev/null &
  fi
  for ((i = 0; i < 30; i++)); do
    known=$(cat "$state" 2>/dev/null || true)
    case $known in
      installed*) answer installed ;;
      failed*) answer failed "${known#failed }" ;;
    esac
    sleep 0.5
  done
  answer installing
}

# Whether the agent is there and somebody keeps it running.
runs() {
  [[ -e $root/etc/trainyard/agent.json ]] || return 1
  if [[ -z $root && -d /run/systemd/system ]]; then
    systemctl -q is-enabled trainyard-agent && systemctl -q is-active trainyard-agent
  else
    [[ -n $(cat "$root/var/run/trainyard/agent-process.pid" 2>/dev/null) ]]
  fi
}

main "$@" </dev/null
