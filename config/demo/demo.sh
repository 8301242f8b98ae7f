#!/bin/sh
# The demo: demo.sh ELASTICD [CONFIG]. Its page is at the config's port, or at DEMO_PORT. Where Mosquitto is installed, one of its own listens on
# loopback meanwhile, at the port of the config's source `sensors`, for readings to be published to.
elasticd=$1 config=${2:-config/demo/elasticd.toml}
folder=$(cd "$(dirname "$config")" && pwd)
if [ -n "$DEMO_PORT" ]; then # the same settings with another port, and a state of their own
    state=$folder/$(sed -n 's/^state = "\(.*\)"$/\1/p' "$config")-$DEMO_PORT
    mkdir -p "$state"
    state=$(cd "$state" && pwd)
    sed -e "s|^port = 9464\$|port = $DEMO_PORT|" -e "s|^state = .*|state = \"$state\"|" \
        -e "s|^policies = \"|policies = \"$folder/|" -e "s|^file = \"|file = \"$folder/|" "$config" >"$state/elasticd.toml"
    config=$state/elasticd.toml
fi
port=$(sed -n 's/^port = \([0-9]*\) # of the demo.s own Mosquitto$/\1/p' "$config")
pages=$(sed -n '/^\[http\]/,/^\[\[/s/^port = \([0-9]*\)$/\1/p' "$config")
PATH=$PATH:/usr/sbin
daemon= broker= told=
# Both are told to end, however this script is; a signal breaks off a wait, which is why there are two.
# A daemon that has only just begun may not hear the first time.
end() {
    told=yes
    while [ -n "$daemon" ] && kill "$daemon" 2>/dev/null; do sleep 1; done
}
trap end INT TERM HUP
if command -v mosquitto >/dev/null; then
    mosquitto -p "$port" >/dev/null 2>&1 &
    broker=$!
fi
echo "A shop and a film studio on a simulated cluster, whose day has two minutes. Watch http://127.0.0.1:$pages/: in the first minute search and checkout"
echo "scale out, api follows a burst, thumbnails wakes from 0; after 70 s a trailer takes a node from frames. A click on a workload says why. Ctrl-C stops it."
echo "In another terminal: $elasticd explain shop/Deployment/catalog --config $config"
"$elasticd" run --decisions --config "$config" &
daemon=$!
[ -n "$told" ] && end # before there was a daemon
wait "$daemon"
wait "$daemon"
status=$?
[ -n "$broker" ] && kill "$broker" 2>/dev/null
exit "$status"
