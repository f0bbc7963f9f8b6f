#!/bin/sh
# Starts a Prometheus of a fleet, in the fleet's folder:
#
#   sh prometheus.sh NAME DATA SECONDS PROGRAM ARGUMENTS...
#
# One that has data, and so was there before, writes nothing to the store until it has scraped for so many seconds. It
# evaluates and alerts, but what it records is too low until it has scraped for as long as rates look back, and Query
# doesn't prefer what the other of its pair records at the same times. running/NAME.yml is the configuration that it
# reads: a link to the one without remote_write, and then to the whole one.
set -eu
name=$1 data=$2 seconds=$3
shift 3

configure() {
    ln -sfn "../$1/$name.yml" "running/$name.yml"
}

# The last segment of its log of samples. It begins another when it starts, replays all before, and then scrapes.
newest() {
    for segment in "$data"/wal/[0-9]*; do :; done
    echo "$segment"
}

# Sleeps as long as a condition holds, a second each time; exits if Prometheus ends. It becomes this shell's process.
while_running() {
    while "$@"; do
        sleep 1
        kill -0 $$ 2>/dev/null || exit 0
    done
}

replays() {
    segment=$(newest)
    [ "$segment" = "$before" ] || [ ! -s "$segment" ]
}

counts_down() {
    seconds=$((seconds - 1))
    [ "$seconds" -ge 0 ]
}

if [ -e "$data/wal" ]; then
    configure starting
    before=$(newest)
    # Twice in the background: Prometheus would leave a child of its own a zombie.
    (
        (
            while_running replays
            while_running counts_down
            configure prometheus
            kill -HUP $$
        ) &
    )
else
    configure prometheus
fi
exec "$@"
