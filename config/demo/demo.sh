#!/bin/sh
# The demo: demo.sh ELASTICD [CONFIG]. Where Mosquitto is installed, one of its own listens on loopback meanwhile, at the port of the
# config's source `sensors`, for readings to be published to.
elasticd=$1 config=${2:-config/demo/elasticd.toml}
port=$(sed -n 's/^port = \([0-9]*\) # of the demo.s own Mosquitto$/\1/p' "$config")
PATH=$PATH:/usr/sbin
daemon= broker=
# Both are told to end, however this script is; a signal breaks off a wait, which is why there are two.
trap '[ -n "$daemon" ] && kill "$daemon" 2>/dev/null' INT TERM HUP
if command -v mosquitto >/dev/null; then
    mosquitto -p "$port" >/dev/null 2>&1 &
    broker=$!
fi
"$elasticd" run --decisions --config "$config" &
daemon=$!
wait "$daemon"
wait "$daemon"
status=$?
[ -n "$broker" ] && kill "$broker" 2>/dev/null
exit "$status"
