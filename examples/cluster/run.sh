#!/usr/bin/env bash
# Three nodes of one cluster on this machine. They keep the coordinator's table themselves. Ctrl-C stops them.
# usage: examples/cluster/run.sh [FOLDER]
#   FOLDER        where their data are (default: tidemill-cluster)
#   TIDEMILL_BIN  the program (default: tidemill of PATH)
#
#   node   Kafka   HTTP   cluster
#      1    9092   8088      7088
#      2    9192   8188      7188
#      3    9292   8288      7288
set -euo pipefail
folder="${1:-tidemill-cluster}"
tidemill="${TIDEMILL_BIN:-tidemill}"
mkdir -p "$folder"

key="$folder/key"
if [ ! -s "$key" ]; then
  (umask 077 && head -c 32 /dev/urandom | base64 > "$key")
fi

nodes=()
stop() {
  trap - EXIT INT TERM
  echo "stopping"
  [ ${#nodes[@]} = 0 ] || kill -TERM "${nodes[@]}" 2>/dev/null || true
  wait
}
trap stop EXIT
trap 'exit 0' INT TERM

for node in 1 2 3; do
  port=$((88 + 100 * (node - 1)))
  # A session of its own: Ctrl-C reaches this script, which stops them in order.
  setsid "$tidemill" serve --node-id "$node" --data "$folder/node$node" \
    --kafka-listen "127.0.0.1:$((9092 + 100 * (node - 1)))" --http-listen "127.0.0.1:$((8000 + port))" \
    --cluster-listen "127.0.0.1:$((7000 + port))" --join 127.0.0.1:7088,127.0.0.1:7188,127.0.0.1:7288 \
    --cluster-key-file "$key" >"$folder/node$node.out" 2>"$folder/node$node.log" &
  nodes+=($!)
done

ready() { [ "$(cat "$folder"/node[123].out 2>/dev/null | grep -c '^ready')" = 3 ]; }
until ready; do
  for node in 1 2 3; do
    kill -0 "${nodes[$((node - 1))]}" 2>/dev/null || { echo "node $node has ended: $(tail -3 "$folder/node$node.log")" >&2; exit 1; }
  done
  sleep 0.1
done

"$tidemill" cluster status
cat <<TEXT
Three nodes run. In another terminal:

  $tidemill cluster nodes
  $tidemill cluster events
  kill -9 ${nodes[2]}                # node 3: \`cluster nodes\` says that it is lost
  curl -s http://127.0.0.1:8188/cluster

Their logs are $folder/node1.log to node3.log. Ctrl-C stops them.
TEXT
wait
