#!/bin/sh
# Restart brokers one after the other, each only while live figures prove that nothing breaks.
#
#   RESTART='ssh kafka-$1 sudo systemctl restart kafka' examples/rolling_restart.sh 1 2 3
#
# Set KCM_EXPORTER to the exporter's address. Before each broker it asks `kcm what-if --check`: exit code 0 means safe, also
# that the broker before is back and in all of its ISRs; any other is asked again, TRIES times, PAUSE seconds apart.
set -eu
for broker in "$@"; do
  tried=0
  until kcm what-if --lose-broker "$broker" --check >/dev/null; do
    tried=$((tried + 1))
    if [ "$tried" -ge "${TRIES:-60}" ]; then
      echo "broker $broker is not safe to stop: nothing was done to it" >&2
      exit 1
    fi
    sleep "${PAUSE:-5}"
  done
  echo "restarting broker $broker"
  sh -c "$RESTART" restart "$broker"
  sleep "${PAUSE:-5}" # until its end has reached the figures
done
